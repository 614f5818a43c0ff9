"""Which regions a cluster has, and where they listen: as asked, as last time, or by default."""

import socket
from pathlib import Path
from typing import Any

import pytest

from isoline_server.config import load_settings
from isoline_server.domain.errors import InvalidField
from isoline_server.embedded import Endpoint
from isoline_server.local_cluster import ClusterError, plan

LAST_TIME: dict[str, Any] = {"regions": {"us": {"listen": "127.0.0.1:1"}, "eu": {}}}


class Database:
    """The addresses of a database that nobody started."""

    primary = Endpoint(name="primary", host="127.0.0.1", port=1, user="u", database="d", password='p"\\')

    def standby(self, name: str) -> Endpoint:
        return Endpoint(name=name, host="127.0.0.1", port=2, user="u", database="d", password="p")


def test_regions_are_those_asked_for_else_last_times_else_the_default_ones() -> None:
    assert plan.choose_regions("eu, us,ap", LAST_TIME) == ("eu", "us", "ap")
    assert plan.choose_regions(None, LAST_TIME) == ("us", "eu")
    assert plan.choose_regions(None, {}) == ("eu", "us", "ap")


def test_a_region_where_runs_may_live_is_not_taken_away() -> None:
    with pytest.raises(ClusterError, match="also has us"):
        plan.choose_regions("eu,ap", LAST_TIME)


def test_a_region_is_named_once_and_by_a_code() -> None:
    with pytest.raises(ClusterError, match="twice"):
        plan.choose_regions("eu,eu", {})
    for wrong in ("EU", "", "eu,"):
        with pytest.raises(InvalidField, match="--regions"):
            plan.choose_regions(wrong, {})


def test_a_port_is_kept_while_it_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        before = {"regions": {"eu": {"listen": address}}}
        assert plan.choose_addresses(["eu"], before)["eu"] != address
    assert plan.choose_addresses(["eu", "us"], before)["eu"] == address


def test_the_configuration_is_what_the_servers_read(tmp_path: Path) -> None:
    path = plan.write_config(tmp_path, Database(), {"eu": "127.0.0.1:3", "us": "127.0.0.1:4"})
    settings = load_settings(path)
    assert (settings.topology, settings.leader_region, settings.homes) == ("embedded", "eu", ("eu", "us"))
    assert settings.leader_url == settings.regions["eu"].local_url == Database.primary.url()
    assert (settings.regions["us"].listen, ":2/" in str(settings.regions["us"].local_url)) == ("127.0.0.1:4", True)
    assert path.stat().st_mode & 0o777 == 0o600
    assert plan.stored_config(tmp_path)["regions"]["eu"]["listen"] == "127.0.0.1:3"


def test_a_developers_settings_do_not_reach_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ISOLINE_LEADER_URL", "isoline_regions__eu__listen", "ISOLINE_TOPOLOGY", "ISOLINE_LOG_LEVEL"):
        monkeypatch.setenv(name, "x")
    kept = [name for name in plan.server_environment() if name.lower().startswith("isoline_")]
    assert "ISOLINE_LOG_LEVEL" in kept
    assert not {name.upper() for name in kept} & {
        "ISOLINE_LEADER_URL",
        "ISOLINE_REGIONS__EU__LISTEN",
        "ISOLINE_TOPOLOGY",
    }
