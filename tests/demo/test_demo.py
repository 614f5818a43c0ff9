"""``isoline demo`` as a user runs it: real processes, from its start to what is left of it."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from demo.processes import ISOLINE, left_of, read_until, run, start, wait_until

pytestmark = pytest.mark.e2e

KEYS = {"regions", "prefix", "prefix_equal", "fork_prefix_equal", "acknowledged", "lost", "duplicates"}
ROW = {"region", "seq", "digest", "source", "ms"}


def check(found: dict[str, Any], *, seq: int | None = None) -> None:
    assert found.keys() >= KEYS
    assert found["regions"] == ["eu", "us", "ap"]
    assert [row["region"] for row in found["prefix"]] == found["regions"]
    assert all(row.keys() >= ROW for row in found["prefix"])
    assert {row["source"] for row in found["prefix"]} == {"local"}
    assert len({(row["seq"], row["digest"]) for row in found["prefix"]}) == 1
    assert seq is None or found["prefix"][0]["seq"] == seq
    assert len({(row["seq"], row["digest"]) for row in found["log"]}) == 1
    assert (found["prefix_equal"], found["fork_prefix_equal"], found["lost"], found["duplicates"]) == (True, True, 0, 0)
    assert found["acknowledged"] == found["log"][0]["seq"] + 1  # the events of the one run, all acknowledged
    assert {(fork["region"], fork["mode"]) for fork in found["forks"]} == {
        (region, mode) for region in found["regions"] for mode in ("branch", "replay")
    }
    assert found["killed"]["acknowledged_while_away"] > 0
    assert found["killed"]["pid"] != found["killed"]["pid_after"]
    effects = found["effects"]
    assert (effects["after_run"], effects["after_replays"], effects["after_branch"]) == (1, 1, 2)
    assert [(each["region"], each["diverged"]) for each in effects["replays"]] == [(r, 0) for r in found["regions"]]
    assert len({each["prefix_digest"] for each in effects["replays"]}) == 1
    assert (found["masked_equal"], found["raw_suffix_equal"]) == (True, False)
    assert found["ok"] is True


def test_the_demo_proves_what_it_says_and_leaves_nothing(place: Path) -> None:
    ended = run([ISOLINE, "demo", "--json"], place)
    assert ended.returncode == 0, ended.stderr
    (line,) = ended.stdout.splitlines()
    check(json.loads(line))
    assert left_of(place) == []
    assert list(place.iterdir()) == []


def test_a_given_history_and_a_cluster_that_is_kept_until_it_is_taken_down(place: Path) -> None:
    history, data = place / "mine.jsonl", place / "data"
    event = {"type": "example.step-done", "nodeId": "n", "timestamp": "2026-01-01T00:00:00Z", "payload": {"same": "ö"}}
    history.write_text(f"{json.dumps(event)}\n" * 5)
    ended = run([ISOLINE, "demo", "--history", str(history), "--json", "--keep", "--data-dir", str(data)], place)
    try:
        assert ended.returncode == 0, ended.stderr
        check(json.loads(ended.stdout), seq=4)
        assert "isoline verify" in ended.stderr
        assert left_of(place) != []
    finally:
        down = run([ISOLINE, "down", "--data-dir", str(data)], place)
    assert down.returncode == 0, down.stderr
    wait_until(lambda: not left_of(place))
    assert not (data / "cluster.json").exists()


@pytest.mark.parametrize("when", ["copying the primary", "forking"])
def test_a_killed_demo_leaks_nothing(place: Path, when: str) -> None:
    demo = start([ISOLINE, "demo"], place)
    read_until(demo, when)
    demo.send_signal(signal.SIGKILL)
    demo.communicate()
    wait_until(lambda: not left_of(place))
    assert list(place.iterdir()) == []


def test_ctrl_c_cleans_up(place: Path) -> None:
    demo = start([ISOLINE, "demo"], place)
    read_until(demo, "primary: ready")
    demo.send_signal(signal.SIGINT)
    demo.communicate()
    assert (demo.returncode, left_of(place)) == (130, [])
    assert list(place.iterdir()) == []


def test_a_history_that_cannot_be_read_is_refused_before_anything_starts(place: Path) -> None:
    ended = run([ISOLINE, "demo", "--history", str(place / "missing.jsonl")], place)
    assert ended.returncode == 2
    assert "missing.jsonl" in ended.stderr
    assert "isoline up" not in ended.stderr
