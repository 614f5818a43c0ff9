"""Batching for one run: events go in one by one and are appended together, in the order in which they were written.

One batch is under way at a time, and the next gathers meanwhile: so order holds without any help from the server, a failed batch has
nothing behind it that could overtake it, and a batch grows with the time that a commit takes. Each batch has one request id, kept over
every try of it.

::

    open ──a batch fails──> failed ──go_on──> open
      │                        │
      └────────close───────────┴──close──> closed

While it is failed nothing is sent: what waited behind the failed batch, and what is written from then on, fails with ``NotWritten``.
There is no way from failed to open but the caller's: only the caller knows whether the later events make sense without the lost ones.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from isoline_client import limits
from isoline_client.errors import NotWritten, OutcomeUnknown
from isoline_client.events import NewEvent
from isoline_client.ids import new_request_id
from isoline_client.values import Appended


class Append(Protocol):
    """How a batch is sent: ``Run.append``."""

    async def __call__(
        self,
        events: Sequence[NewEvent],
        *,
        expected_seq: int | None,
        engine: str,
        engine_seq: int,
        request_id: str | None,
    ) -> Appended: ...


@dataclass(slots=True)
class _Waiting:
    event: NewEvent
    seq: asyncio.Future[int]
    since_s: float


@dataclass(slots=True)
class _Batch:
    items: list[_Waiting]
    request_id: str = field(default_factory=new_request_id)


class Writer:
    """Writes one run in batches. Use it as ``async with run.writer() as writer``.

    A batch is sent when it is full, when its first event has waited ``linger_ms``, or on ``flush``. At most ``max_events`` and
    ``max_bytes`` of payload are held unanswered; beyond that ``write`` waits. With ``expected_seq`` the run is written at this seq and on
    from there, and another writer's event in between fails the batch. With ``engine`` every event carries the engine's counter, from
    ``engine_seq`` on.
    """

    def __init__(
        self,
        append: Append,
        *,
        batch_events: int = limits.APPEND_EVENTS_MAX,
        batch_bytes: int = limits.APPEND_BYTES_MAX,
        linger_ms: float = limits.WRITER_LINGER_MS,
        max_events: int = limits.WRITER_EVENTS_MAX,
        max_bytes: int = limits.WRITER_BYTES_MAX,
        expected_seq: int | None = None,
        engine: str = "",
        engine_seq: int = 1,
    ) -> None:
        self.failure: Exception | None = None
        """Why the writer stopped; None while it is open."""
        self._append = append
        self._batch_events = batch_events
        self._batch_bytes = batch_bytes
        self._linger_s = linger_ms / 1000
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._expected_seq = expected_seq
        self._engine = engine
        self._engine_seq = engine_seq if engine else 0
        self._queue: deque[_Waiting] = deque()
        self._queue_bytes = 0
        self._held_bytes = 0
        self._written = 0
        self._taken = 0
        self._answered = 0
        self._hurry_to = 0
        self._failed_batch: _Batch | None = None
        self._closing = False
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()
        self._change = asyncio.Event()
        self._pump_task: asyncio.Task[None] | None = None

    async def write(self, event: NewEvent) -> asyncio.Future[int]:
        """Take an event, waiting while the writer is full; the future becomes its seq once it is committed."""
        async with self._turn:
            while self._open() and not self._has_room(event):
                self._hurry()
                await self._changed()
            return self._enqueue(event)

    async def flush(self) -> None:
        """Send what was written so far and wait until it is answered; raise why the writer stopped, if it did."""
        self._hurry()
        target = self._written
        while self._answered < target:
            await self._changed()
        if self.failure is not None:
            raise self.failure

    async def go_on(self) -> Appended | None:
        """Open the writer again after a failed batch.

        When it is not known whether that batch landed, it is sent once more, with its request id: the answer tells where its events
        stand, and the order holds. Any other failed batch is left out.
        """
        batch, appended = self._failed_batch, None
        if batch is not None and isinstance(self.failure, OutcomeUnknown):
            appended = await self._send(batch)
        self.failure = self._failed_batch = None
        return appended

    async def close(self) -> None:
        """Flush, then stop; raise why the writer stopped unless the caller went on from it."""
        if self._closing:
            return
        self._closing = True
        try:
            await self.flush()
        finally:
            await self._stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        self._closing = True
        try:
            if isinstance(error, Exception):
                await self.flush()
        except Exception as failure:  # noqa: BLE001 - the caller's own error is the one to see, with this one told beside it
            if failure is not error:
                error.add_note(f"closing the writer: {failure!r}")
        finally:
            await self._stop()

    def _open(self) -> bool:
        return self.failure is None and not self._closing

    def _has_room(self, event: NewEvent) -> bool:
        held = self._written - self._answered
        fits = held < self._max_events and self._held_bytes + len(event.payload_bytes) <= self._max_bytes
        return fits or held == 0

    def _enqueue(self, event: NewEvent) -> asyncio.Future[int]:
        if self.failure is not None:
            raise NotWritten(message="an earlier batch failed; see go_on") from self.failure
        if self._closing:
            raise NotWritten(message="the writer is closed")
        if self._pump_task is None:
            self._pump_task = asyncio.create_task(self._pump())
        seq: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(event, seq, time.monotonic()))
        self._queue_bytes += len(event.payload_bytes)
        self._held_bytes += len(event.payload_bytes)
        self._written += 1
        if len(self._queue) == 1 or self._full():
            self._wake.set()
        return seq

    def _full(self) -> bool:
        return len(self._queue) >= self._batch_events or self._queue_bytes >= self._batch_bytes

    def _hurry(self) -> None:
        self._hurry_to = self._written
        self._wake.set()

    async def _changed(self) -> None:
        self._change.clear()
        await self._change.wait()

    async def _pump(self) -> None:
        while True:
            await self._ripe()
            batch = self._take()
            try:
                appended = await self._send(batch)
            except asyncio.CancelledError:
                self._fail(batch, OutcomeUnknown(message="the writer was stopped", request_id=batch.request_id))
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, it must reach those who wait
                self._fail(batch, error)
            else:
                self._settle(batch, appended)

    async def _ripe(self) -> None:
        """Wait until there is a batch to send."""
        while True:
            rest_s = self._rest_s()
            if rest_s is not None and rest_s <= 0:
                return
            self._wake.clear()
            try:
                async with asyncio.timeout(rest_s):
                    await self._wake.wait()
            except TimeoutError:
                return

    def _rest_s(self) -> float | None:
        """How long the first waiting event may still wait for others; None when nothing waits."""
        if not self._queue:
            return None
        if self._full() or self._taken < self._hurry_to:
            return 0.0
        return self._queue[0].since_s + self._linger_s - time.monotonic()

    def _take(self) -> _Batch:
        items: list[_Waiting] = []
        size = 0
        while self._queue and len(items) < self._batch_events:
            size += len(self._queue[0].event.payload_bytes)
            if items and size > self._batch_bytes:
                break
            items.append(self._queue.popleft())
        self._queue_bytes -= sum(len(item.event.payload_bytes) for item in items)
        self._taken += len(items)
        return _Batch(items)

    async def _send(self, batch: _Batch) -> Appended:
        appended = await self._append(
            [item.event for item in batch.items],
            expected_seq=self._expected_seq,
            engine=self._engine,
            engine_seq=self._engine_seq,
            request_id=batch.request_id,
        )
        if self._expected_seq is not None:
            self._expected_seq = appended.last.seq + 1
        if self._engine:
            self._engine_seq += len(batch.items)
        return appended

    def _settle(self, batch: _Batch, appended: Appended) -> None:
        for seq, item in enumerate(batch.items, start=appended.first_seq):
            if not item.seq.done():
                item.seq.set_result(seq)
        self._release(batch.items)

    def _fail(self, batch: _Batch, error: Exception) -> None:
        self.failure = error
        self._failed_batch = batch
        left = NotWritten(message="an earlier batch failed")
        left.__cause__ = error
        waiting = list(self._queue)
        self._queue.clear()
        self._queue_bytes = 0
        self._taken += len(waiting)
        for items, why in ((batch.items, error), (waiting, left)):
            _refuse(items, why)
            self._release(items)

    def _release(self, items: Sequence[_Waiting]) -> None:
        self._held_bytes -= sum(len(item.event.payload_bytes) for item in items)
        self._answered += len(items)
        self._change.set()

    async def _stop(self) -> None:
        if self._pump_task is not None:
            self._pump_task.cancel()
            await asyncio.wait([self._pump_task])
        stopped = NotWritten(message="the writer was stopped")
        _refuse(self._queue, stopped)
        self._release(self._queue)
        self._queue.clear()


def _refuse(items: Sequence[_Waiting], error: Exception) -> None:
    for item in items:
        if not item.seq.done():
            item.seq.set_exception(error)
            item.seq.exception()  # close and flush raise it too, so nobody needs to be warned of a future left alone
