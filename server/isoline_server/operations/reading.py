"""The read ladder (guarantee G3): a range is served from the region's own replica when it is complete there and its chain verifies, else
from the leader; when that does not answer in time, from what the region can still show, and then the answer says how old it may be. So a
stale or damaged replica may be slow to help, never wrong; and only the leader may say that a run does not exist.

Not here: what a call asks for (one file a verb), SQL, wire pages.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from isoline_server.domain import chain, limits, lineage
from isoline_server.domain.errors import ChainBroken, PrefixMismatch, RunNotFound, SeqOutOfRange, StoreUnavailable
from isoline_server.domain.ids import RunId
from isoline_server.domain.run import (
    MARK_START,
    SEEN_BY_LEADER,
    SEEN_LOCAL,
    Freshness,
    LineageRange,
    Mark,
    Run,
    Seen,
    Source,
)
from isoline_server.operations.ports import LogReader, RawPage, StoreRetryable

T = TypeVar("T")

RUNS_REMEMBERED_MAX = 10_000
REST_S = 1.0
"""After a replica failed to answer, the ladder leaves it alone this long, so that its silence is paid once and not by every page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Consecutive records that were read complete and whose chain verified, between the marks before and behind them."""

    records: tuple[bytes, ...]
    before: Mark
    last: Mark
    source: Source
    staleness_ms: int | None = None

    @property
    def first_seq(self) -> int:
        return self.before.seq + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A position the caller saw elsewhere: the digest of the prefix up to and including ``seq``."""

    seq: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class SeqAsked:
    """The seq a caller asked for, by its field: what a refusal names."""

    field: str
    seq: int


OnDamage = Callable[[ChainBroken], None]
"""Told of every record that does not extend its chain, also when the leader's copy was served instead."""


class Reading:
    """Verified reads over the region's replica, the leader, and, when that is unreachable, views of the replica that lie further back
    (``older``, the newest first). Safe for concurrent tasks."""

    def __init__(
        self,
        *,
        local: LogReader | None,
        leader: LogReader,
        local_deadline_s: float,
        leader_deadline_s: float,
        on_damage: OnDamage,
        older: Sequence[LogReader] = (),
    ) -> None:
        self._local = local
        self._leader = leader
        self._older = older
        self._local_deadline_s = local_deadline_s
        self._leader_deadline_s = leader_deadline_s
        self._on_damage = on_damage
        self._local_rests_until_s = 0.0
        self._leader_rests_until_s = 0.0
        self._runs: OrderedDict[RunId, Run] = OrderedDict()

    # -- runs --------------------------------------------------------------------------------------------------------------------

    async def run(self, run_id: RunId, freshness: Freshness) -> tuple[Run, Seen]:
        """The run with its head as ``freshness`` asks. Raises ``RunNotFound`` only when the leader says so."""
        if freshness is Freshness.LOCAL:
            found = await self._ask_local(lambda reader: reader.run(run_id))
            if found is not None:
                return self._remember(found), SEEN_LOCAL
        try:
            fresh = await self._ask_leader(lambda reader: reader.run(run_id))
        except StoreUnavailable as error:
            return await self._stale_run(run_id, error)
        if fresh is None:
            raise RunNotFound(run_id)
        return self._remember(fresh), SEEN_BY_LEADER

    async def run_reaching(self, run_id: RunId, until_seq: int | None, freshness: Freshness) -> tuple[Run, int, Seen]:
        """The run, and the exclusive end of what is asked: ``until_seq``, which must be in the log, or the head.

        Events never change, so a run that is known to reach ``until_seq`` answers for good, without any read.
        """
        if until_seq is None:
            run, seen = await self.run(run_id, freshness)
            return run, run.head.seq + 1, seen
        known = self._runs.get(run_id)
        if known is not None and until_seq <= known.head.seq + 1:
            return known, until_seq, SEEN_LOCAL
        local = await self._ask_local(lambda reader: reader.run(run_id))
        if local is not None and until_seq <= local.head.seq + 1:
            return self._remember(local), until_seq, SEEN_LOCAL
        run, seen = await self.fresh_run_reaching(run_id, until_seq, SeqAsked("until_seq", until_seq))
        return run, until_seq, seen

    async def fresh_run_reaching(self, run_id: RunId, until_seq: int, asked: SeqAsked) -> tuple[Run, Seen]:
        """The run with its newest head, which must reach ``until_seq`` (exclusive). Raises ``SeqOutOfRange`` only when the leader says so."""
        run, seen = await self.run(run_id, Freshness.LATEST)
        if until_seq > run.head.seq + 1:
            if seen.source is Source.STALE:
                raise StoreUnavailable("the leader does not answer, and the local replica does not reach that far")
            raise SeqOutOfRange(asked.field, asked.seq, run.head.seq)
        return run, seen

    async def fresh_run(self, run_id: RunId) -> Run:
        """The run with its newest head, for what is concluded from where it ends. Raises ``StoreUnavailable`` when there is only an old one."""
        run, seen = await self.run(run_id, Freshness.LATEST)
        if seen.source is Source.STALE:
            raise StoreUnavailable("the leader does not answer, and where a log ends is not concluded from an old view")
        return run

    def remember(self, run: Run) -> None:
        """Take a run that was just made or moved as known."""
        self._remember(run)

    def known_run(self, run_id: RunId) -> Run | None:
        """A run as it was at some earlier moment; everything but its head is for good, and its head only grows."""
        return self._runs.get(run_id)

    async def _stale_run(self, run_id: RunId, error: StoreUnavailable) -> tuple[Run, Seen]:
        """The newest that the region can show by itself, with how old that may be. How old is asked first, so it is never said too young."""

        async def look(reader: LogReader) -> tuple[Run, int | None] | None:
            staleness_ms = await reader.staleness_ms()
            found = await reader.run(run_id)
            return None if found is None else (found, staleness_ms)

        seen = await self._ask_local(look) or await self._ask_older(look)
        if seen is None:
            raise error
        return self._remember(seen[0]), Seen(Source.STALE, seen[1])

    def _remember(self, run: Run) -> Run:
        known = self._runs.get(run.run_id)
        if known is None or known.head.seq <= run.head.seq:
            self._runs[run.run_id] = run
            self._runs.move_to_end(run.run_id)
            if len(self._runs) > RUNS_REMEMBERED_MAX:
                self._runs.popitem(last=False)
        return run

    # -- marks and pages ---------------------------------------------------------------------------------------------------------

    async def mark(self, run: Run, seq: int) -> tuple[Mark, Source]:
        """The digest and byte count behind ``seq`` of a run that reaches it; ``MARK_START`` for -1."""
        if seq == -1:
            return MARK_START, Source.LOCAL
        origin = lineage.origin_of(run, seq)
        found = await self._ask_local(lambda reader: reader.mark(origin, seq))
        if found is not None:
            return found, Source.LOCAL
        return await self.leader_mark(run, seq), Source.LEADER

    async def check_known(self, run: Run, known: Known) -> None:
        """Raise ``PrefixMismatch`` unless the run's prefix up to ``known.seq`` has the known digest; a mismatch is said only by the leader."""
        if known.seq > run.head.seq:
            run, _ = await self.fresh_run_reaching(run.run_id, known.seq + 1, SeqAsked("known.seq", known.seq))
        mark, _ = await self.mark(run, known.seq)
        if mark.digest != known.digest and known.seq != -1:
            mark = await self.leader_mark(run, known.seq)
        if mark.digest != known.digest:
            raise PrefixMismatch(known.seq, known.digest.hex(), mark.digest.hex())

    async def check_translatable(self, run: Run, until_seq: int) -> None:
        """Raise ``Untranslatable`` when an event of ``[0, until_seq)`` has no v2 form: for what serves a prefix without reading it."""
        first = run.untranslatable_seq
        if first is not None and first < until_seq:
            async for _ in self.pages(run, first, first + 1):
                pass

    async def pages(self, run: Run, from_seq: int, until_seq: int, before: Mark | None = None) -> AsyncGenerator[Page]:
        """The records of ``[from_seq, until_seq)``, which the run must reach, in verified pages. ``before`` is the mark at ``from_seq - 1``,
        when it is at hand from an earlier page."""
        served = before is not None
        before = before or await self._anchor(run, from_seq - 1)
        for part in lineage.resolve(run, from_seq, until_seq):
            while before.seq + 1 < part.end_seq:
                page = await self._page(run, part, before)
                if served and page.before.digest != before.digest:
                    # A replica with another history: what it served cannot be taken back, so say it, rather than go on with the true one.
                    raise ChainBroken(run.run_id, before.seq, "local")
                yield page
                before, served = page.last, True

    async def _anchor(self, run: Run, seq: int) -> Mark:
        """The mark to extend from; the run's own head is at hand."""
        if seq == run.head.seq:
            return Mark(seq=seq, digest=run.head.digest, end_byte=run.head.record_bytes)
        mark, _ = await self.mark(run, seq)
        return mark

    async def _page(self, run: Run, part: LineageRange, before: Mark) -> Page:
        raw = await self._ask_local(lambda reader: _raw_page(reader, part, before))
        if raw is not None and raw.records:
            page = self._verified(run, raw, before, Source.LOCAL)
            if page is not None:
                return page
        try:
            return await self._leader_page(run, part, before)
        except StoreUnavailable:
            page = await self._older_page(run, part, before)
            if page is None:
                raise
            return page

    async def _older_page(self, run: Run, part: LineageRange, before: Mark) -> Page | None:
        """A page as the replica showed it some time ago: what verifies is as good as ever."""

        async def look(reader: LogReader) -> Page | None:
            raw = await _raw_page(reader, part, before)
            return self._verified(run, raw, before, Source.LOCAL) if raw.records else None

        return await self._ask_older(look)

    async def _leader_page(self, run: Run, part: LineageRange, before: Mark) -> Page:
        raw = await self._ask_leader(lambda reader: _raw_page(reader, part, before))
        page = self._verified(run, raw, before, Source.LEADER)
        if page is None:
            # The start may have been anchored on a damaged local digest: anchor it on the leader's before blaming the records.
            anchor = await self.leader_mark(run, before.seq) if before.seq >= 0 else before
            page = None if anchor == before else self._verified(run, raw, anchor, Source.LEADER)
        if page is None:
            raise ChainBroken(run.run_id, _first_break(raw, before), "leader")
        return page

    def _verified(self, run: Run, raw: RawPage, before: Mark, source: Source) -> Page | None:
        """The page when its chain verifies; otherwise None, and the damage is reported."""
        digest = chain.extend_all(before.digest, raw.records)
        if not raw.records or digest != raw.digests[-1]:
            self._on_damage(ChainBroken(run.run_id, _first_break(raw, before), source.name.lower()))
            return None
        if source is Source.LOCAL and before.seq + len(raw.records) == run.head.seq and digest != run.head.digest:
            # It holds together, but does not lead to the head: a replica with another history, such as another service's.
            self._on_damage(ChainBroken(run.run_id, run.head.seq, source.name.lower()))
            return None
        if raw.refusal is not None:
            raise raw.refusal  # only now: a damaged row may look as if it had no v2 form
        last = Mark(seq=before.seq + len(raw.records), digest=digest, end_byte=raw.last_end_byte)
        return Page(records=tuple(raw.records), before=before, last=last, source=source)

    async def leader_mark(self, run: Run, seq: int) -> Mark:
        """The mark as the leader has it: for what is written down for good, which no damaged replica may pin."""
        origin = lineage.origin_of(run, seq)
        found = await self._ask_leader(lambda reader: reader.mark(origin, seq))
        if found is None:
            raise ChainBroken(run.run_id, seq, "leader")
        return found

    # -- asking ------------------------------------------------------------------------------------------------------------------

    async def ask_either(self, question: Callable[[LogReader], Awaitable[T | None]]) -> T | None:
        """The local replica's answer, or the leader's when it has none or does not answer in time."""
        found = await self._ask_local(question)
        return found if found is not None else await self._ask_leader(question)

    async def _ask_local(self, question: Callable[[LogReader], Awaitable[T | None]]) -> T | None:
        now_s = asyncio.get_running_loop().time()
        if self._local is None or now_s < self._local_rests_until_s:
            return None
        try:
            async with asyncio.timeout(self._local_deadline_s):
                return await question(self._local)
        except (StoreRetryable, TimeoutError):
            self._local_rests_until_s = asyncio.get_running_loop().time() + REST_S
            return None

    async def _ask_leader(self, question: Callable[[LogReader], Awaitable[T]]) -> T:
        """Raises ``StoreUnavailable``: at once while the leader rests, which it does after it has let its deadline pass."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._leader_rests_until_s:
            raise StoreUnavailable("the leader did not answer a moment ago")
        try:
            async with asyncio.timeout(self._leader_deadline_s):
                return await question(self._leader)
        except StoreRetryable as error:
            raise StoreUnavailable(error.reason) from error
        except TimeoutError:
            self._leader_rests_until_s = asyncio.get_running_loop().time() + REST_S
            raise StoreUnavailable("the leader does not answer within its deadline") from None

    async def _ask_older(self, question: Callable[[LogReader], Awaitable[T | None]]) -> T | None:
        for reader in self._older:
            with suppress(StoreRetryable, TimeoutError):
                async with asyncio.timeout(self._local_deadline_s):
                    found = await question(reader)
                if found is not None:
                    return found
        return None


async def _raw_page(reader: LogReader, part: LineageRange, before: Mark) -> RawPage:
    return await reader.page(
        part.origin_run_id,
        before.seq + 1,
        part.end_seq,
        start_byte=before.end_byte,
        bytes_max=limits.PAGE_BYTES_MAX,
        events_max=limits.PAGE_EVENTS_MAX,
    )


def _first_break(raw: RawPage, before: Mark) -> int:
    seq = chain.first_break(before.digest, before.seq + 1, zip(raw.records, raw.digests, strict=True))
    return before.seq + 1 + len(raw.records) if seq is None else seq
