"""How two runs of one origin compare (guarantee G7): byte for byte before the boundary, and from it on also with their masks.

From the boundary on both were executed, each by itself, so their stamps differ, and what they declared as clock and entropy may. Before it
nothing was executed again, so nothing is forgiven there. Pure; reading the logs is ``operations.compare_forks``.
"""

from collections.abc import Callable
from dataclasses import dataclass

from isoline_server.domain.diff import same_masked
from isoline_server.domain.errors import InvalidField
from isoline_server.domain.event import EventContent
from isoline_server.domain.run import Run

DecodeContent = Callable[[bytes, int], EventContent]
"""What happened in the record at a seq."""


def boundary_of(a: Run, b: Run) -> int:
    """The first seq that may be masked: where the earlier of the two forks begins. Raises ``InvalidField`` when neither is a fork: there is
    no seq then from which on they were executed twice."""
    begins = [run.fork.from_seq for run in (a, b) if run.fork is not None]
    if not begins:
        raise InvalidField(
            "b_run_id", "one of the two runs must be a fork; to compare others use DiffRuns", got=b.run_id
        )
    return min(begins)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was found. ``matched`` of ``compared`` events from ``from_seq`` on are the same behind their masks."""

    from_seq: int
    prefix_equal: bool
    raw_suffix_equal: bool
    compared_events: int
    matched_events: int
    first_divergence_seq: int | None
    truncated: bool

    @property
    def masked_equal(self) -> bool:
        return self.first_divergence_seq is None


class Comparer:
    """A comparison under way, fed with both runs' records from ``from_seq`` on."""

    def __init__(self, from_seq: int, decode: DecodeContent) -> None:
        self._from_seq = from_seq
        self._decode = decode
        self._compared = 0
        self._matched = 0
        self._raw_equal = True
        self._first: int | None = None

    def take(self, seq: int, a: bytes | None, b: bytes | None) -> None:
        """Take both runs' record at ``seq``, in order of seq; None is for a run that has ended before."""
        self._compared += 1
        if a is not None and a == b:
            self._matched += 1
            return
        self._raw_equal = False
        if a is not None and b is not None and same_masked(self._decode(a, seq), self._decode(b, seq)):
            self._matched += 1
        elif self._first is None:
            self._first = seq

    def result(self, *, prefix_equal: bool, truncated: bool) -> Comparison:
        return Comparison(
            from_seq=self._from_seq,
            prefix_equal=prefix_equal,
            raw_suffix_equal=self._raw_equal,
            compared_events=self._compared,
            matched_events=self._matched,
            first_divergence_seq=self._first,
            truncated=truncated,
        )
