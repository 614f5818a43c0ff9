"""Deeds carried out: sent to the service, and recorded with what came back.

A change is repeated with its request id until its answer is definite, or the load ends: all of it is one operation. A read is tried as long as
one call may take; that it failed says nothing.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeVar

from isoline_client import Client, IsolineError, Page, Position, Run, errors
from isoline_client.ids import new_request_id
from isoline_client.limits import PAUSE_FIRST_S
from isoline_client.retry import Attempts
from isoline_drill import history
from isoline_drill.history import Entry, Source
from isoline_drill.load.events import event_of, marker_of
from isoline_drill.load.plan import Deed, Ground, KnownRun, Repeat, See, Split, Sum, Write
from isoline_drill.load.recorder import Recorder

T = TypeVar("T")
WORKFLOW: Final = "drill-load"
_IN_DOUBT: Final = (errors.OutcomeUnknown, errors.ClientClosed, errors.Damaged)
"""Ends of a change that do not tell whether it happened: also an answer that cannot be believed."""


class Caller:
    """One client. ``deadline_s`` bounds each call. For concurrent tasks of one event loop."""

    def __init__(self, client: Client, recorder: Recorder, ground: Ground, *, deadline_s: float) -> None:
        self._client = client
        self._recorder = recorder
        self._ground = ground
        self._deadline_s = deadline_s

    async def carry_out(self, deed: Deed) -> None:
        match deed:
            case Write():
                await self._write(deed)
            case Repeat():
                await self._repeat(deed)
            case See():
                await self._see(deed)
            case Sum():
                await self._sum(deed)
            case Split():
                await self._split(deed)

    # -- changes -----------------------------------------------------------------------------------------------------------------------------

    async def create(self) -> KnownRun:
        """Make a run, however long that takes. Raises what the service refuses it with."""
        request_id = new_request_id()
        begun = self._recorder.begin(history.Create, request_id=request_id)
        run = await self._changed(
            begun, lambda: self._client.create_run(WORKFLOW, request_id=request_id, timeout_s=self._deadline_s)
        )
        self._recorder.end(begun, "ok", run=run.run_id, repeated=run.repeated)
        return KnownRun(run.run_id)

    async def _write(self, deed: Write) -> None:
        request_id = new_request_id()
        begun = self._recorder.begin(
            history.Append,
            run=deed.known.run_id,
            request_id=request_id,
            expected_seq=deed.expected_seq,
            markers=tuple(f"{request_id}/{place}" for place in range(deed.many)),
        )
        self._ground.repeatable.append(begun)
        await self._append(begun, deed.known)

    async def _repeat(self, deed: Repeat) -> None:
        asked = {name: getattr(deed.append, name) for name in ("run", "request_id", "expected_seq", "markers")}
        await self._append(self._recorder.begin(history.Append, **asked), KnownRun(deed.append.run))

    async def _append(self, begun: history.Append, known: KnownRun) -> None:
        new = [event_of(marker) for marker in begun.markers]
        run = self._client.run(begun.run)
        try:
            appended = await self._changed(
                begun,
                lambda: run.append(
                    new, expected_seq=begun.expected_seq, request_id=begun.request_id, timeout_s=self._deadline_s
                ),
            )
        except IsolineError:
            return  # recorded; what is refused or unknown is part of the load
        last = appended.last
        told: dict[str, Any] = {"first_seq": appended.first_seq, "last_seq": last.seq, "digest": last.digest.hex()}
        self._recorder.end(begun, "ok", repeated=appended.repeated, **told)
        known.learn(last)

    async def _split(self, deed: Split) -> None:
        request_id, source = new_request_id(), deed.known.run_id
        begun = self._recorder.begin(history.Fork, request_id=request_id, source=source, from_seq=deed.from_seq)
        try:
            run = await self._changed(
                begun,
                lambda: self._client.run(source).fork(deed.from_seq, request_id=request_id, timeout_s=self._deadline_s),
            )
        except IsolineError:
            return
        origin = run.made.fork if run.made is not None else None
        digest = b"" if origin is None or deed.from_seq == 0 else origin.prefix_digest
        self._recorder.end(begun, "ok", run=run.run_id, prefix_digest=digest.hex(), repeated=run.repeated)
        self._ground.forks.append(_fork_of(run, deed.from_seq, digest))

    async def _changed(self, begun: history.Operation, call: Callable[[], Awaitable[T]]) -> T:
        """Send until the answer is definite. Records any end but a good one, and raises it.

        Within each call the client waits longer from try to try; a new call begins soon, so that one that waits for a leader finds it soon.
        """
        attempts = Attempts(math.inf, getattr(begun, "request_id"))  # noqa: B009
        try:
            while True:
                try:
                    return await call()
                except IsolineError as error:
                    attempts.failed(error)
                    await asyncio.sleep(PAUSE_FIRST_S)
        except (IsolineError, asyncio.CancelledError) as error:
            surely_not = isinstance(error, IsolineError) and not isinstance(error, _IN_DOUBT)
            self._recorder.end(begun, "failed" if surely_not else "unknown", error)
            raise

    # -- reads -------------------------------------------------------------------------------------------------------------------------------

    async def _see(self, deed: See) -> None:
        begun = self._recorder.begin(
            history.Read,
            run=deed.known.run_id,
            freshness=deed.freshness,
            from_seq=deed.from_seq,
            until_seq=deed.until_seq,
        )
        run = self._client.run(deed.known.run_id)
        pages = await self._looked(
            begun, _all(run.read_pages(deed.from_seq, deed.until_seq, freshness=deed.freshness, known=deed.extends))
        )
        if pages:
            self._recorder.end(begun, "ok", events=entries(pages), **_where(pages))
            deed.known.learn(pages[-1].last)

    async def _sum(self, deed: Sum) -> None:
        asked: dict[str, Any] = {"run": deed.known.run_id, "freshness": deed.freshness, "until_seq": deed.until_seq}
        run = self._client.run(deed.known.run_id)
        how: dict[str, Any] = {"freshness": deed.freshness, "timeout_s": self._deadline_s}
        if deed.what == "prefix":
            begun = self._recorder.begin(history.Prefix, **asked)
            prefix = await self._looked(begun, run.prefix(deed.until_seq, **how))
            if prefix is not None:
                self._tell(begun, deed.known, prefix.last, source=prefix.source, staleness_ms=prefix.staleness_ms)
            return
        begun = self._recorder.begin(history.State, **asked)
        state = await self._looked(begun, run.state(deed.until_seq, **how))
        if state is not None:
            last = Position(state.at_seq - 1, state.prefix_digest)
            said = {"source": state.source, "staleness_ms": state.staleness_ms, "state_digest": state.digest.hex()}
            self._tell(begun, deed.known, last, **said)

    def _tell(self, begun: history.Prefix, known: KnownRun, last: Position, **said: Any) -> None:
        self._recorder.end(begun, "ok", seq=last.seq, digest=last.digest.hex(), **said)
        known.learn(last)

    async def _looked(self, begun: history.Look, call: Awaitable[T]) -> T | None:
        """The answer; None when there is none, or it denies what was asked for: then it is recorded."""
        try:
            async with asyncio.timeout(2 * self._deadline_s):
                return await call
        except errors.RunNotFound as error:
            self._recorder.end(begun, "ok", error, absent="run", absent_from=0)
        except errors.SeqOutOfRange as error:
            self._recorder.end(begun, "ok", error, absent="seq", absent_from=error.head_seq + 1)
        except (IsolineError, TimeoutError, asyncio.CancelledError) as error:
            self._recorder.end(begun, "failed", error)
            if isinstance(error, asyncio.CancelledError):
                raise
        return None

    # -- the tail ----------------------------------------------------------------------------------------------------------------------------

    async def follow(self, known: KnownRun) -> None:
        """Follow a run from its beginning until cancelled, and record every page."""
        reached: Position | None = None
        while True:
            begun = self._tail_page(known, reached)
            try:
                from_seq = 0 if reached is None else reached.seq + 1
                tail = self._client.run(known.run_id).tail_pages(from_seq, known=reached)
                async with aclosing(tail):
                    async for page in tail:
                        if page.records:
                            self._recorder.end(begun, "ok", events=entries([page]), **_where([page]))
                            reached = page.last
                            begun = self._tail_page(known, reached)
            except IsolineError as error:
                self._recorder.end(begun, "failed", error)
                await asyncio.sleep(self._deadline_s)

    def _tail_page(self, known: KnownRun, reached: Position | None) -> history.TailPage:
        from_seq = 0 if reached is None else reached.seq + 1
        return self._recorder.begin(history.TailPage, run=known.run_id, freshness="latest", from_seq=from_seq)


def entries(pages: Sequence[Page]) -> tuple[Entry, ...]:
    """The events of pages as the history has them."""
    return tuple(
        Entry(event.seq, marker_of(event), event.digest.hex() if event.digest else "")
        for page in pages
        for event in page
    )


_WORSE: Final[tuple[Source, ...]] = ("", "local", "leader", "stale")


def _where(pages: Sequence[Page]) -> dict[str, Any]:
    """Of several pages: the one from furthest away, and the oldest."""
    sources = [page.source for page in pages]
    ages = [page.staleness_ms for page in pages if page.staleness_ms is not None]
    return {"source": max(sources, key=_WORSE.index, default=""), "staleness_ms": max(ages, default=None)}


async def _all(pages: Any) -> list[Page]:
    async with aclosing(pages):
        return [page async for page in pages]


def _fork_of(run: Run, from_seq: int, digest: bytes) -> KnownRun:
    return KnownRun(run.run_id, Position(from_seq - 1, digest) if from_seq else None)
