"""The verdict must be able to say no: one unequal digest anywhere, or an account that does not balance, and it does."""

from dataclasses import replace

import pytest

from isoline_client import Position
from isoline_client.cli.demo.findings import Findings, Forked, Killed, Reading, StateReading
from isoline_client.cli.demo.ledger import Account

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
GOOD = Findings(
    regions=REGIONS,
    runs=["r"],
    appended={"r": HERE},
    prefix=READINGS,
    states=STATES,
    forks=[FORK],
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
