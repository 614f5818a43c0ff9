"""What the demo found, as values, and whether it is good. Pure: no reading, no showing."""

from collections.abc import Sequence
from dataclasses import dataclass

from isoline_client.cli.demo.ledger import Account
from isoline_client.values import ForkMode, Source
from isoline_client.verify import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A prefix that was read through a region, event by event, its digest recomputed here."""

    run_id: str
    region: str
    last: Position
    source: Source
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StateReading:
    """The state at a seq, as a region gave it."""

    run_id: str
    region: str
    at_seq: int
    digest: bytes
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """A fork, made in a region, and what each region then read of its prefix. ``expected`` is the source's position at the boundary."""

    run_id: str
    source_run_id: str
    region: str
    mode: ForkMode
    expected: Position
    promised: bytes
    readings: Sequence[Reading]

    @property
    def equal(self) -> bool:
        return self.promised == self.expected.digest and all(each.last == self.expected for each in self.readings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """A server that was killed with a writer on it. Counts are of events acknowledged to that writer, whichever region took them."""

    region: str
    pid: int
    pid_after: int
    acknowledged_before: int
    acknowledged_while_away: int
    acknowledged_after: int
    away_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything. ``appended`` are the positions of the prefixes as they were appended, by run."""

    regions: Sequence[str]
    runs: Sequence[str]
    appended: dict[str, Position]
    prefix: Sequence[Reading]
    states: Sequence[StateReading]
    forks: Sequence[Forked]
    killed: Killed
    log: Sequence[Reading]
    account: Account
    repeated: int

    @property
    def prefix_equal(self) -> bool:
        """Every region read the prefix that was acknowledged when it was appended."""
        return bool(self.prefix) and all(each.last == self.appended[each.run_id] for each in self.prefix)

    @property
    def state_equal(self) -> bool:
        return bool(self.states) and _all_alike([(each.run_id, each.digest) for each in self.states])

    @property
    def fork_prefix_equal(self) -> bool:
        return bool(self.forks) and all(each.equal for each in self.forks)

    @property
    def log_equal(self) -> bool:
        return bool(self.log) and _all_alike([(each.run_id, each.last) for each in self.log])

    @property
    def ok(self) -> bool:
        equal = self.prefix_equal and self.state_equal and self.fork_prefix_equal and self.log_equal
        return equal and self.account.balanced


def _all_alike(pairs: Sequence[tuple[str, object]]) -> bool:
    """Whether every run has one value."""
    return len(set(pairs)) == len({run_id for run_id, _ in pairs})
