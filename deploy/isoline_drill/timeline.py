"""What happened when: the operations of all clients counted by region and moment, and the marks that the drill made. Pure values.

Not here: what it looks like (``plot``, ``report``).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from isoline_drill.history import Append, Create, Fork, Look, Operation

BUCKET_MS: Final = 250

What = Literal["acknowledged", "errors", "local", "leader", "stale"]
SHOWN: Final[tuple[What, ...]] = ("acknowledged", "errors", "local", "leader", "stale")
"""Appends acknowledged; operations of any kind that failed or whose outcome is unknown; reads by where they were served. An append that is
refused because its ``expected_seq`` has been taken is an answer, and none of these."""

REFUSALS: Final = ("SeqConflict",)


@dataclass(frozen=True, slots=True)
class Mark:
    """Something the drill did, or saw. ``at_us`` is of the same clock as the history."""

    at_us: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Counts for each region, a bucket of ``BUCKET_MS`` after the other from ``from_us`` on."""

    from_us: int
    buckets: int
    counts: Mapping[str, Mapping[What, Sequence[int]]]
    marks: Sequence[Mark]

    def seconds(self, at_us: int) -> float:
        """A moment as seconds from the beginning."""
        return (at_us - self.from_us) / 1e6


def make_timeline(regions: Sequence[str], operations: Iterable[Operation], marks: Sequence[Mark]) -> Timeline:
    """Count what was completed. What never was completed has no moment, and is in the verdict instead."""
    ended = [(operation, operation.completed_us) for operation in operations if operation.completed_us is not None]
    moments = [at_us for _, at_us in ended] + [mark.at_us for mark in marks]
    from_us, until_us = min(moments, default=0), max(moments, default=0)
    found: dict[str, dict[What, Counter[int]]] = {region: {what: Counter() for what in SHOWN} for region in regions}
    for operation, at_us in ended:
        what = _what(operation)
        if what is not None:
            found[operation.region][what][_bucket(at_us - from_us)] += 1
    buckets = _bucket(until_us - from_us) + 1
    counts = {
        region: {what: [counted[index] for index in range(buckets)] for what, counted in by_what.items()}
        for region, by_what in found.items()
    }
    return Timeline(from_us=from_us, buckets=buckets, counts=counts, marks=sorted(marks, key=lambda mark: mark.at_us))


def _bucket(offset_us: int) -> int:
    return offset_us // (BUCKET_MS * 1_000)


def _what(operation: Operation) -> What | None:
    if operation.outcome != "ok":
        return None if operation.error.startswith(REFUSALS) else "errors"
    match operation:
        case Append():
            return "acknowledged"
        case Look(source="local" | "leader" | "stale" as source):
            return source
        case Look() | Create() | Fork():
            return None
    return None
