"""The verdict must be able to say no: one unequal digest anywhere, or an account that does not balance, and it does."""

from dataclasses import replace

import pytest

from isoline_client import Position
from isoline_client.cli.demo.findings import Findings, Forked, Killed, Reading, Reexecuted, Replayed, StateReading
from isoline_client.cli.demo.ledger import Account
from isoline_client.values import Comparison

HERE, ELSEWHERE = Position(4, b"a" * 32), Position(4, b"b" * 32)
REGIONS = ("eu", "us", "ap")
READINGS = [Reading(run_id="r", region=region, last=HERE, source="local", took_s=0.0) for region in REGIONS]
STATES = [StateReading(run_id="r", region=region, at_seq=5, digest=b"s", source="local") for region in REGIONS]
FORK = Forked(
    run_id="f", source_run_id="r", region="us", mode="replay", expected=HERE, promised=HERE.digest, readings=READINGS
)
KILLED = Killed(
    region="us",
    pid=1,
    pid_after=2,
    acknowledged_before=1,
    acknowledged_while_away=1,
    acknowledged_after=1,
    away_s=1.0,
)
REPLAYS = [Replayed(run_id=f"p-{region}", region=region, prefix_digest=HERE.digest, diverged=0) for region in REGIONS]
ALIKE = Comparison(
    a_run_id="p-eu",
    b_run_id="p-us",
    from_seq=5,
    prefix_equal=True,
    raw_suffix_equal=False,
    masked_equal=True,
    compared_events=3,
    matched_events=3,
    first_divergence_seq=None,
    truncated=False,
)
EFFECTS = Reexecuted(
    run_id="w",
    from_seq=5,
    after_run=1,
    after_replays=1,
    after_branch=2,
    source_prefix_digest=HERE.digest,
    replays=REPLAYS,
    compared=[ALIKE, ALIKE],
)
GOOD = Findings(
    regions=REGIONS,
    runs=["r"],
    appended={"r": HERE},
    prefix=READINGS,
    states=STATES,
    forks=[FORK],
    effects=EFFECTS,
    killed=KILLED,
    log=READINGS,
    account=Account(acknowledged=9, lost=0, duplicates=0, misplaced=0, unknown=0, gaps=0),
    repeated=0,
)
UNEQUAL = [*READINGS[:2], replace(READINGS[2], last=ELSEWHERE)]


def test_good_findings_are_good() -> None:
    assert (GOOD.ok, GOOD.prefix_equal, GOOD.state_equal, GOOD.fork_prefix_equal, GOOD.log_equal) == (True,) * 5


@pytest.mark.parametrize(
    ("what", "changed"),
    [
        ("prefix_equal", {"prefix": UNEQUAL}),
        ("prefix_equal", {"prefix": []}),
        ("prefix_equal", {"appended": {"r": ELSEWHERE}}),
        ("state_equal", {"states": [*STATES[:2], replace(STATES[2], digest=b"t")]}),
        ("fork_prefix_equal", {"forks": [replace(FORK, readings=UNEQUAL)]}),
        ("fork_prefix_equal", {"forks": [replace(FORK, promised=ELSEWHERE.digest)]}),
        ("fork_prefix_equal", {"forks": []}),
        ("log_equal", {"log": UNEQUAL}),
    ],
)
def test_one_unequal_digest_spoils_the_verdict(what: str, changed: dict[str, object]) -> None:
    found = replace(GOOD, **changed)
    assert not getattr(found, what)
    assert not found.ok


@pytest.mark.parametrize("wrong", ["lost", "duplicates", "misplaced", "unknown", "gaps"])
def test_an_account_that_does_not_balance_spoils_the_verdict(wrong: str) -> None:
    assert not replace(GOOD, account=replace(GOOD.account, **{wrong: 1})).ok


@pytest.mark.parametrize(
    "changed",
    [
        {"after_run": 0},
        {"after_replays": 2},
        {"after_branch": 1},
        {"after_branch": 3},
        {"replays": []},
        {"replays": [replace(REPLAYS[0], diverged=1), *REPLAYS[1:]]},
        {"replays": [replace(REPLAYS[0], prefix_digest=ELSEWHERE.digest), *REPLAYS[1:]]},
        {"compared": []},
        {"compared": [ALIKE, replace(ALIKE, prefix_equal=False)]},
        {"compared": [ALIKE, replace(ALIKE, masked_equal=False)]},
        {"compared": [ALIKE, replace(ALIKE, truncated=True)]},
        {"compared": [ALIKE, replace(ALIKE, raw_suffix_equal=True)]},
    ],
    ids=str,
)
def test_a_replay_that_fired_or_differs_spoils_the_verdict(changed: dict[str, object]) -> None:
    assert EFFECTS.ok
    assert not replace(GOOD, effects=replace(EFFECTS, **changed)).ok
