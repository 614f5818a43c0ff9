"""Whole drills, as an operator runs them: real processes over an emulated WAN. ``ISOLINE_DRILLS=all`` runs every scenario, and more seeds."""

import json
import os
import subprocess
import sys

import pytest

from isoline_drill.commands import NAMES
from isoline_drill.scenarios import SCENARIOS

pytestmark = [pytest.mark.topology, pytest.mark.e2e, pytest.mark.timeout(400)]

ALL = os.environ.get("ISOLINE_DRILLS") == "all"
MORE = pytest.mark.skipif(not ALL, reason="more drills: ISOLINE_DRILLS is not 'all'")
KEYS = {"drill", "seed", "acknowledged", "lost", "duplicates", "gaps", "rto_ms", "own_rto_ms", "forks_continued", "effects_twice", "verdict"}  # fmt: skip


def drilled(name, *options):
    """What a drill reported; its progress is shown when the test fails."""
    done = subprocess.run(
        [sys.executable, "-m", "isoline_client.cli", "drill", name, "--json", "--fast", *options],
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    print(done.stderr)
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.returncode


def assert_passed(report, code):
    assert (report["findings"], report["wrong"]) == ([], [])
    assert (report["lost"], report["duplicates"], report["gaps"], report["effects_twice"]) == (0, 0, 0, 0)
    assert (report["verdict"], code) == ("passed", 0)
    assert report["acknowledged"] > 0
    assert report.keys() >= KEYS


def test_the_command_knows_every_scenario():
    assert set(NAMES) == set(SCENARIOS)


def test_a_region_is_lost_and_comes_back():
    report, code = drilled("region-loss", "--seed", "11", "--failover", "operator")
    assert_passed(report, code)
    assert (report["failover"], report["ttl_s"], report["detection_ms"]) == ("operator", None, 1000)
    assert report["rto_ms"] > 0
    assert report["forks_continued"] > 0
    assert report["effects"] > 0


def test_a_region_is_cut_off_and_lives_on_behind_proxies():
    report, code = drilled("isolate", "--seed", "12", "--wan", "proxies")
    assert_passed(report, code)
    leader, follower = report["staleness"]
    assert leader["stale_reads"] == 0  # a fenced primary is nobody's replica
    assert follower["stale_reads"] > 0
    assert follower["oldest_ms"] > 0


@MORE
@pytest.mark.parametrize("name", ["lag", "executor-loss", "rolling-restart"])
def test_the_other_drills(name):
    assert_passed(*drilled(name, "--seed", "13"))


@MORE
@pytest.mark.parametrize("seed", range(21, 26))
def test_a_region_is_lost_at_other_moments(seed):
    assert_passed(*drilled("region-loss", "--seed", str(seed), "--failover", "operator"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("meteor",), "DRILL: there is region-loss, isolate, lag, executor-loss, rolling-restart; not meteor"),
        (("isolate", "--wan", "pigeons"), "--wan: auto, namespaces or proxies; not pigeons"),
        (("isolate", "--plot", "a.gif"), "--plot: the name must end in .png or .svg; not a.gif"),
    ],
)
def test_what_makes_no_sense_is_refused(options, said):
    done = subprocess.run(
        [sys.executable, "-m", "isoline_client.cli", "drill", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, said in done.stderr) == (2, True)
