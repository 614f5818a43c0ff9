"""Which log holds which part of a run: resolving a range over its ancestors, and the ranges of a child. Pure interval arithmetic."""

from isoline_server.domain.ids import RunId
from isoline_server.domain.run import LineageRange, Run


def resolve(run: Run, from_seq: int, until_seq: int) -> tuple[LineageRange, ...]:
    """The consecutive ranges that together are ``[from_seq, until_seq)`` of ``run``, each with the run whose log holds it."""
    own = LineageRange(start_seq=run.own_start_seq, end_seq=max(until_seq, run.own_start_seq), origin_run_id=run.run_id)
    clipped = (_clip(part, from_seq, until_seq) for part in (*run.lineage, own))
    return tuple(part for part in clipped if part.start_seq < part.end_seq)


def origin_of(run: Run, seq: int) -> RunId:
    """The run whose log holds ``seq``."""
    return next((part.origin_run_id for part in run.lineage if seq < part.end_seq), run.run_id)


def child_lineage(parent: Run, from_seq: int) -> tuple[LineageRange, ...]:
    """The ranges of a child that inherits ``[0, from_seq)``. Flat: an ancestor's ancestor is named directly."""
    return resolve(parent, 0, from_seq)


def shared_prefix(a: Run, b: Run) -> int:
    """How many events both runs inherit from the same place, from seq 0 on: equal by construction, so nobody needs to compare them."""
    shared = 0
    for left, right in zip(_all_ranges(a), _all_ranges(b), strict=False):
        if left.origin_run_id != right.origin_run_id:
            break
        shared = min(left.end_seq, right.end_seq)
        if left.end_seq != right.end_seq:
            break
    return shared


def _all_ranges(run: Run) -> tuple[LineageRange, ...]:
    return resolve(run, 0, run.head.seq + 1)


def _clip(part: LineageRange, from_seq: int, until_seq: int) -> LineageRange:
    return LineageRange(
        start_seq=max(part.start_seq, from_seq), end_seq=min(part.end_seq, until_seq), origin_run_id=part.origin_run_id
    )
