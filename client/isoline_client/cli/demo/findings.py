"""What the demo found, as values, and whether it is good. Pure: no reading, no showing."""

from collections.abc import Sequence
from dataclasses import dataclass

from isoline_client.cli.demo.ledger import Account
from isoline_client.values import Comparison, ForkMode, Source
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
class Replayed:
    """A replay that was made and executed in a region, and how many divergences its log reports."""

    run_id: str
    region: str
    prefix_digest: bytes
    diverged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reexecuted:
    """A run with one external effect, its replays and its branch. The effects are as the other side counted them, each time from the
    beginning. ``compared``: the first replay with each of the others."""

    run_id: str
    from_seq: int
    after_run: int
    after_replays: int
    after_branch: int
    source_prefix_digest: bytes
    replays: Sequence[Replayed]
    compared: Sequence[Comparison]

    @property
    def prefix_equal(self) -> bool:
        """The replays share the source's prefix, byte for byte."""
        digests = {each.prefix_digest for each in self.replays}
        return digests == {self.source_prefix_digest} and all(each.prefix_equal for each in self.compared)

    @property
    def masked_equal(self) -> bool:
        """Behind the boundary the replays are the same but for stamps and declared values."""
        return bool(self.compared) and all(each.masked_equal and not each.truncated for each in self.compared)

    @property
    def raw_suffix_equal(self) -> bool:
        """Behind the boundary even the stamps are the same: that would mean that nothing was executed at all."""
        return any(each.raw_suffix_equal for each in self.compared)

    @property
    def ok(self) -> bool:
        counted = (self.after_run, self.after_replays, self.after_branch) == (1, 1, 2)
        quiet = bool(self.replays) and not any(each.diverged for each in self.replays)
        return counted and quiet and self.prefix_equal and self.masked_equal and not self.raw_suffix_equal


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
    effects: Reexecuted
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
        return equal and self.account.balanced and self.effects.ok


def _all_alike(pairs: Sequence[tuple[str, object]]) -> bool:
    """Whether every run has one value."""
    return len(set(pairs)) == len({run_id for run_id, _ in pairs})
