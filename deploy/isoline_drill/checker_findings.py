"""What the checker may find, and the logs it holds a history against. Values only; what is looked for is in the other ``checker`` modules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from isoline_drill.history import Entry, Operation


class Fault(Enum):
    """Each names a promise that does not hold."""

    LOST = "lost"
    """An acknowledged event, run or fork is not in the final log."""
    DUPLICATE = "duplicate"
    """A marker stands more than once in one run."""
    WRONG_PLACE = "wrong place"
    """An acknowledged event stands at another seq than was said, or an append at another than it expected."""
    TORN = "torn"
    """Only some events of an append whose outcome is unknown, or all but not one behind the other."""
    REORDER = "reorder"
    """An append was acknowledged before another of the same run began, and stands behind it."""
    PHANTOM = "phantom"
    """An event that nobody appended to this run, or whose append was refused."""
    GAP = "gap"
    """Seqs are not dense."""
    FORKED_SUFFIX = "forked suffix"
    """An answer showed events that the final log does not have there."""
    DIGEST_MISMATCH = "digest mismatch"
    """Two digests of one place."""
    STALE_ABSENCE = "stale absence"
    """An answer denied what had been acknowledged before it was asked for."""
    STALE_READ = "stale read"
    """A read that says it is fresh ends before what had been acknowledged before it began."""
    BACKWARDS = "backwards"
    """A client's token, said to be fresh, is older than a fresh one it had before."""
    FORK_PREFIX = "fork prefix unequal"
    """A fork and its source differ below the boundary."""
    DAMAGE = "damage"
    """A client was given bytes that do not fit together, or was told that a prefix it knew is another."""
    REGION_BEHIND = "region behind"
    """A region's final log is shorter than the leader's."""
    EFFECT_TWICE = "effect twice"
    """An effect reached the world outside more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault, where it is, and the operations that show it. ``seq`` is None when it has none, ``events`` counts the events concerned."""

    fault: Fault
    run: str
    seq: int | None
    what: str
    operations: tuple[Operation, ...] = ()
    events: int = 1

    def __str__(self) -> str:
        place = self.run if self.seq is None else f"{self.run} at seq {self.seq}"
        shown = "; ".join(f"{each.client}#{each.op} in {each.region}" for each in self.operations)
        return f"{self.fault.value}: {place}: {self.what}" + (f" ({shown})" if shown else "")


Log = Sequence[Entry]
"""One run, whole, as it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalLogs:
    """Every run of the history, read when everything has healed: from the leader, which is what counts, and from each region, by its code."""

    leader: Mapping[str, Log]
    regions: Mapping[str, Mapping[str, Log]] = field(default_factory=dict)
