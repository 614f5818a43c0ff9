"""Which server a command asks, and what it says when none answers."""

import json
import time

import pytest

from support.servers import free_port

NOWHERE = "127.0.0.1:1"


def test_the_default_that_does_not_answer_says_at_once_how_to_start_one(cli, environ):
    began = time.monotonic()
    ended = cli("run", "list")
    assert ended.code == 4
    assert "no server answers at 127.0.0.1:7100" in ended.err
    assert "isoline up" in ended.err
    assert time.monotonic() - began < 3


def test_a_local_cluster_that_has_gone_is_named(cli, environ, tmp_path):
    environ["ISOLINE_DATA_DIR"] = str(tmp_path)
    (tmp_path / "cluster.json").write_text(
        json.dumps({"regions": {"eu": {"address": f"127.0.0.1:{free_port()}", "pid": 1}}})
    )
    ended = cli("run", "list")
    assert ended.code == 4
    assert str(tmp_path / "cluster.json") in ended.err


def test_a_local_cluster_is_found(cli, environ, eu, tmp_path):
    environ["ISOLINE_DATA_DIR"] = str(tmp_path)
    (tmp_path / "cluster.json").write_text(json.dumps({"regions": {"eu": {"address": eu.address, "pid": 1}}}))
    assert cli("capabilities", "--json").json["regions"] == ["eu", "us"]


def test_servers_that_do_not_answer_are_named_after_the_timeout(cli):
    ended = cli("run", "list", "--server", NOWHERE, "--timeout", "0.5")
    assert ended.code == 4
    assert f"asked: {NOWHERE} (from --server)" in ended.err


def test_the_next_server_is_asked_when_the_first_does_not_answer(cli, eu):
    assert cli("capabilities", "-s", f"us={NOWHERE}", "-s", f"eu={eu.address}").code == 0


def test_common_options_may_stand_before_the_command_or_behind_it(cli, eu):
    before = cli("-s", eu.address, "--json", "capabilities")
    behind = cli("-s", NOWHERE, "capabilities", "--json", "-s", eu.address)
    assert before.json == behind.json


def test_an_error_is_json_for_machines(cli):
    error = cli("--json", "run", "list", "-s", NOWHERE, "--timeout", "0.5").error
    assert (error["kind"], error["exitCode"]) == ("Unavailable", 4)
    assert error["hints"] == [f"asked: {NOWHERE} (from --server)"]


@pytest.mark.parametrize("json_option", [[], ["--json"]])
def test_status_tells_servers_that_answer_from_those_that_do_not(cli, eu, json_option):
    ended = cli("status", "-s", f"eu={eu.address}", "-s", f"us={NOWHERE}", "--timeout", "0.5", *json_option)
    assert ended.code == 1
    if json_option:
        assert [(line["region"], line["ok"], line["trouble"]) for line in ended.lines] == [
            ("eu", True, None),
            ("us", False, "does not answer"),
        ]
    else:
        assert "does not answer" in ended.out


def test_status_ends_with_4_when_no_server_answers(cli):
    assert cli("status", "-s", NOWHERE, "--timeout", "0.5").code == 4


def test_status_finds_a_server_under_another_regions_name(cli, eu):
    ended = cli("status", "-s", f"us={eu.address}")
    assert ended.code == 1
    assert "this is the server of eu" in ended.out
