"""The state at a seq (guarantee G4): fold from the nearest snapshot, and keep new snapshots on the way so that the next fold is short.

A snapshot is only ever a shortcut: it is used when its bytes and the prefix it was folded from have the digests that are stored for them,
else the fold starts earlier.
"""

from collections.abc import Callable
from dataclasses import dataclass

from isoline_server.domain import limits, lineage, state
from isoline_server.domain.canonical import digest_of
from isoline_server.domain.errors import Damaged, InvalidField, StateTooLarge, StoreUnavailable
from isoline_server.domain.event import EventContent
from isoline_server.domain.ids import RunId
from isoline_server.domain.run import MARK_START, Freshness, LineageRange, Mark, Run, Seen, Source
from isoline_server.operations.ports import LogWriter, Snapshot, StoreRetryable
from isoline_server.operations.reading import Known, Reading

DecodeIf = Callable[[bytes, Callable[[str], bool]], EventContent | None]
"""Reads what happened out of a record, if its type is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """The state of ``[0, at_seq)``, from where it was read, and how many events were folded for it."""

    at_seq: int
    state: state.RunState
    prefix_digest: bytes
    seen: Seen
    folded_events: int


class StateReader:
    """Folds states and keeps snapshots. Safe for concurrent tasks: a snapshot is immutable, and who comes second changes nothing."""

    def __init__(self, *, reading: Reading, writer: LogWriter, decode_if: DecodeIf) -> None:
        self._reading = reading
        self._writer = writer
        self._decode_if = decode_if

    async def state_at(
        self, run_id: RunId, at_seq: int | None, freshness: Freshness, known: Known | None = None
    ) -> Folded:
        """The state of ``[0, at_seq)``; without a seq, at the head. Raises ``StateTooLarge``."""
        if at_seq is not None and at_seq < 0:
            raise InvalidField("at_seq", "must not be negative", got=str(at_seq))
        run, until_seq, head = await self._reading.run_reaching(run_id, at_seq, freshness)
        if known is not None:
            await self._reading.check_known(run, known)
        return await self._fold(run, until_seq, head)

    async def snapshot_up_to(self, run_id: RunId, seq: int) -> None:
        """Make the snapshots that are due below ``seq``. For the background: a state too large to keep is left alone."""
        try:
            await self.state_at(run_id, seq - seq % limits.SNAPSHOT_EVERY_EVENTS, Freshness.LATEST)
        except StateTooLarge:
            return

    async def _fold(self, run: Run, until_seq: int, head: Seen) -> Folded:
        source = Source.STALE if head.source is Source.STALE else Source.LOCAL
        mark, start = await self._nearest(run, until_seq)
        fold = state.Fold(start)
        start_seq = mark.seq + 1
        async for page in self._reading.pages(run, start_seq, until_seq):
            source = max(source, page.source)
            for seq, record in enumerate(page.records, start=page.first_seq):
                self._take(fold, record, seq)
                if (seq + 1) % limits.SNAPSHOT_EVERY_EVENTS == 0 and seq >= run.own_start_seq:
                    await self._keep(run, seq, fold.result())
            mark = page.last
        return Folded(
            at_seq=until_seq,
            state=fold.result(),
            prefix_digest=mark.digest,
            seen=Seen(source, head.staleness_ms),
            folded_events=until_seq - start_seq,
        )

    def content(self, record: bytes, seq: int) -> EventContent:
        """What happened at ``seq``. Raises ``Damaged`` when its record is none."""
        content = self._content_if(record, seq, lambda _: True)
        assert content is not None
        return content

    def _take(self, fold: state.Fold, record: bytes, seq: int) -> None:
        content = self._content_if(record, seq, fold.heeds)
        if content is None:
            fold.pass_over()
        else:
            fold.add(content)

    def _content_if(self, record: bytes, seq: int, wanted: Callable[[str], bool]) -> EventContent | None:
        try:
            return self._decode_if(record, wanted)
        except ValueError as error:
            raise Damaged(f"seq {seq}: {error}") from error

    async def _nearest(self, run: Run, until_seq: int) -> tuple[Mark, state.RunState]:
        """The newest snapshot at or before ``until_seq`` that is true, and the mark it stands behind; else the start."""
        for part in reversed(lineage.resolve(run, 0, until_seq)):
            if part.end_seq < limits.SNAPSHOT_EVERY_EVENTS:
                break  # nobody made one so early
            try:
                usable = await self._usable(run, part)
            except StoreUnavailable:
                continue  # the leader does not answer, and the replica has none: fold from further back
            if usable is not None:
                return usable
        return MARK_START, state.EMPTY_STATE

    async def _usable(self, run: Run, part: LineageRange) -> tuple[Mark, state.RunState] | None:
        origin, last = part.origin_run_id, part.end_seq
        snapshot = await self._reading.ask_either(lambda reader: reader.snapshot_at_or_before(origin, last))
        if snapshot is None or snapshot.seq <= part.start_seq:
            return None
        mark, _ = await self._reading.mark(run, snapshot.seq - 1)
        if mark.digest != snapshot.prefix_digest or digest_of(snapshot.state) != snapshot.state_digest:
            return None
        try:
            return mark, state.from_canonical(snapshot.state)
        except Damaged:
            return None

    async def _keep(self, run: Run, seq: int, reached: state.RunState) -> None:
        data = state.to_canonical(reached)
        if len(data) > limits.STATE_BYTES_MAX:
            raise StateTooLarge(len(data), limits.STATE_BYTES_MAX)
        mark, _ = await self._reading.mark(run, seq)
        snapshot = Snapshot(seq=seq + 1, prefix_digest=mark.digest, state=data, state_digest=digest_of(data))
        try:
            await self._writer.insert_snapshot(run.home, run.run_id, snapshot)
        except StoreRetryable:
            return  # a shortcut for the next reader; this one has its answer


def snapshot_is_due(before_seq: int, after_seq: int) -> bool:
    """Whether a head that moved from one seq to another has completed a snapshot distance."""
    return (before_seq + 1) // limits.SNAPSHOT_EVERY_EVENTS != (after_seq + 1) // limits.SNAPSHOT_EVERY_EVENTS
