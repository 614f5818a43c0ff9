"""Read a range of events, and the digest of a prefix. The work is the ladder's (``reading``); here is what the calls ask for."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace

from isoline_server.domain.ids import RunId
from isoline_server.domain.run import MARK_START, Freshness, Mark, Seen, Source
from isoline_server.operations.reading import Known, Page, Reading, SeqAsked


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCommand:
    """``[from_seq, until_seq)``; without an end, up to the head that ``freshness`` sees. The answer extends ``known`` or is an error."""

    run_id: RunId
    from_seq: int
    until_seq: int | None
    freshness: Freshness
    known: Known | None


async def read_events(reading: Reading, command: ReadCommand) -> AsyncGenerator[Page]:
    """Yield verified pages; one empty page when the range is empty, so that the caller learns the position. An empty run reads empty.

    Pages up to a head that may be behind are tagged so, wherever their bytes were read.
    """
    run, until_seq, seen = await reading.run_reaching(command.run_id, command.until_seq, command.freshness)
    if command.from_seq > until_seq:
        asked = SeqAsked("from_seq", command.from_seq)
        run, seen = await reading.fresh_run_reaching(command.run_id, command.from_seq, asked)
        until_seq = run.head.seq + 1
    if command.known is not None:
        await reading.check_known(run, command.known)
    if command.from_seq == until_seq:
        mark, _ = await reading.mark(run, until_seq - 1)
        yield Page(records=(), before=mark, last=mark, source=seen.source, staleness_ms=seen.staleness_ms)
        return
    async for page in reading.pages(run, command.from_seq, until_seq):
        yield (
            replace(page, source=seen.source, staleness_ms=seen.staleness_ms) if seen.source is Source.STALE else page
        )


async def prefix_mark(
    reading: Reading,
    run_id: RunId,
    until_seq: int | None,
    freshness: Freshness,
    *,
    recompute: bool,
    known: Known | None = None,
) -> tuple[Mark, Seen]:
    """The mark of ``[0, until_seq)``: as stored, or recomputed from every record. A recomputed one that any page took from the leader is
    tagged so."""
    run, until_seq, seen = await reading.run_reaching(run_id, until_seq, freshness)
    await reading.check_translatable(run, until_seq)
    if known is not None:
        await reading.check_known(run, known)
    if not recompute:
        mark, read_from = await reading.mark(run, until_seq - 1)
        return mark, _tag(seen, read_from)
    mark, worst = MARK_START, Source.LOCAL
    async for page in reading.pages(run, 0, until_seq):
        mark, worst = page.last, max(worst, page.source)
    return mark, _tag(seen, worst)


def _tag(head: Seen, data: Source) -> Seen:
    """Where the bytes were read; but a head that may be behind makes the whole answer so."""
    return head if head.source is Source.STALE else Seen(data)
