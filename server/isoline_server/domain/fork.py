"""Where a fork may begin, and what the child is made of (guarantee G5; OpenWOP v2 replay.md and runs.md)."""

from dataclasses import dataclass

from isoline_server.domain import limits, lineage
from isoline_server.domain.errors import (
    ForkPointInvalid,
    InvalidField,
    LineageTooDeep,
    MemoryUnavailable,
    OverlayNotAllowed,
    PrefixMismatch,
    SummaryUnavailable,
)
from isoline_server.domain.ids import Region, RunId
from isoline_server.domain.run import ERA, ForkMode, ForkOrigin, Head, Mark, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkCommand:
    """A request to fork, checked for shape. ``overlay`` is empty or a UTF-8 JSON object, verbatim. ``executed`` None: as the source."""

    source_run_id: RunId
    from_seq: int | None
    mode: ForkMode
    overlay: bytes
    home: Region
    expected_prefix_digest: bytes
    executed: bool | None = None


def fork_point(command: ForkCommand) -> int:
    """The first seq that is not inherited. A branch must say it; a replay begins at 0 by default."""
    if command.mode is ForkMode.REPLAY and command.overlay.translate(None, b" \t\n\r") not in {b"", b"{}"}:
        raise OverlayNotAllowed
    if command.from_seq is None:
        if command.mode is ForkMode.BRANCH:
            raise InvalidField("from_seq", "is required for a branch")
        return 0
    if command.from_seq < 0:
        raise InvalidField("from_seq", "must not be negative", got=str(command.from_seq))
    return command.from_seq


def check_fork_point(source: Run, from_seq: int) -> None:
    """Raise ``ForkPointInvalid`` unless the event at ``from_seq`` is in the source's log and does not stand behind its terminal event.

    The boundary is half-open: the event *at* ``from_seq`` is executed again, so it must exist; one past the end does not.
    """
    head = source.head
    if from_seq > head.seq:
        raise ForkPointInvalid(source.run_id, from_seq, head.seq, "the source has no event there")
    if head.terminal_seq is not None and from_seq > head.terminal_seq:
        raise ForkPointInvalid(
            source.run_id, from_seq, head.seq, f"it stands behind the terminal event at seq {head.terminal_seq}"
        )


def check_gaps(source: Run, from_seq: int, *, executed: bool) -> None:
    """Raise ``MemoryUnavailable`` or ``SummaryUnavailable`` when an executor would need what the source's prefix does not tell. Runs that are
    data only are nobody's to execute, and fork anywhere."""
    if not (source.executed or executed):
        return
    head = source.head
    if head.memory_gap_seq is not None and head.memory_gap_seq < from_seq:
        raise MemoryUnavailable(source.run_id, from_seq, head.memory_gap_seq)
    if head.summary_gap_seq is not None and head.summary_gap_seq < from_seq:
        raise SummaryUnavailable(source.run_id, from_seq, head.summary_gap_seq)


def plan_fork(source: Run, command: ForkCommand, boundary: Mark, child_id: RunId, now_us: int) -> Run:
    """The child run. ``boundary`` is the source's mark at the last inherited seq (``MARK_START`` when nothing is inherited)."""
    from_seq = boundary.seq + 1
    if command.expected_prefix_digest and command.expected_prefix_digest != boundary.digest:
        raise PrefixMismatch(boundary.seq, command.expected_prefix_digest.hex(), boundary.digest.hex())
    ranges = lineage.child_lineage(source, from_seq)
    if len(ranges) > limits.LINEAGE_RANGES_MAX:
        raise LineageTooDeep(len(ranges), limits.LINEAGE_RANGES_MAX)
    return Run(
        run_id=child_id,
        tenant=source.tenant,
        home=command.home,
        workflow_id=source.workflow_id,
        tags=source.tags,
        created_at_us=now_us,
        era=ERA,
        head=Head(
            seq=boundary.seq,
            digest=boundary.digest,
            record_bytes=boundary.end_byte,
            mode=command.mode,
            memory_gap_seq=_inherited(source.head.memory_gap_seq, from_seq),
            summary_gap_seq=_inherited(source.head.summary_gap_seq, from_seq),
        ),
        fork=ForkOrigin(
            source_run_id=source.run_id,
            from_seq=from_seq,
            prefix_digest=boundary.digest,
            mode=command.mode,
            overlay=command.overlay,
        ),
        lineage=ranges,
        executed=source.executed if command.executed is None else command.executed,
    )


def _inherited(seq: int | None, from_seq: int) -> int | None:
    return seq if seq is not None and seq < from_seq else None
