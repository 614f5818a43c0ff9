"""What an executor writes to one run: groups of events in order, appended behind each other at the seq it knows, as one call at a time.

While one append is under way the next gathers, so that a run of quick nodes costs few calls. A group is never split: it is the whole
outcome of one execution, or nothing of it. Who needs to know that what it put is durable waits for ``flush``; an effect does.

Nothing is decided here. The first failure stops the journal: what was put behind it was planned on a history that did not come to be, so
its owner reads the log again and begins anew with another journal.
"""

import asyncio
import base64
import hashlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from isoline_client.events import NewEvent
from isoline_client.limits import APPEND_BYTES_MAX, APPEND_EVENTS_MAX
from isoline_client.values import Appended

Send = Callable[[Sequence[NewEvent], int, str], Awaitable[Appended]]
"""Appends events at a seq under a request id."""

_REQUEST_DOMAIN: Final = b"isoline.executor.append\0"


class Journal:
    """Writes the run ``run_id`` from ``next_seq`` on. ``gather``: so many events are awaited before an append, unless somebody flushes."""

    def __init__(self, run_id: str, next_seq: int, send: Send, *, waiting_max: int, gather: int = 1) -> None:
        self.next_seq = next_seq
        """Seq behind everything that is durable."""
        self._run_id = run_id
        self._send = send
        self._waiting_max = waiting_max
        self._gather = gather
        self._flushes = 0
        self._groups: deque[Sequence[NewEvent]] = deque()
        self._waiting = 0
        self._failure: Exception | None = None
        self._pump: asyncio.Task[None] | None = None

    @property
    def planned_seq(self) -> int:
        """Seq behind everything that was put, as far as it can be known before the server has answered."""
        return self.next_seq + self._waiting

    async def put(self, group: Sequence[NewEvent]) -> None:
        """Take a group; wait only while very much is waiting. Raises what stopped the journal."""
        if not group:
            return
        self._groups.append(group)
        self._waiting += len(group)
        self._begin()
        if self._waiting > self._waiting_max:
            await self.flush()
        self._raise()

    async def flush(self) -> None:
        """Return when everything that was put is durable; raise what stopped the journal."""
        self._flushes += 1
        try:
            while self._waiting and self._failure is None:
                self._begin()
                await self._settled()
        finally:
            self._flushes -= 1
        self._raise()

    async def close(self) -> None:
        """Stop, with whatever is waiting left out. What is under way may land or not."""
        self._groups.clear()
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.wait([self._pump])

    def _begin(self) -> None:
        if (self._pump is None or self._pump.done()) and self._is_due():
            self._pump = asyncio.create_task(self._write())

    def _is_due(self) -> bool:
        return self._waiting >= self._gather or (self._flushes > 0 and self._waiting > 0)

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _settled(self) -> None:
        assert self._pump is not None
        await asyncio.wait([self._pump])

    async def _write(self) -> None:
        try:
            while self._is_due():
                # Whatever becomes runnable in this turn of the loop belongs into the same append.
                await asyncio.sleep(0)
                await self._write_batch(_take(self._groups))
        except Exception as error:  # noqa: BLE001 - whatever it is, it must reach whoever puts or flushes
            self._failure = error

    async def _write_batch(self, batch: list[NewEvent]) -> None:
        appended = await self._send(batch, self.next_seq, request_id(self._run_id, self.next_seq))
        self.next_seq = appended.last.seq + 1
        self._waiting -= len(batch)


def request_id(run_id: str, seq: int) -> str:
    """The request id of the append at ``seq``: whoever holds the lease, a repeat of it lands once.

    Another batch under the same id is refused, and that too says that the log has gone on without its writer.
    """
    digest = hashlib.sha256(_REQUEST_DOMAIN + f"{run_id}\0{seq}".encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _take(groups: deque[Sequence[NewEvent]]) -> list[NewEvent]:
    """As many whole groups as one append may hold, at least one."""
    taken: list[NewEvent] = []
    size = 0
    while groups:
        group = groups[0]
        size += sum(len(event.payload_bytes) for event in group)
        if taken and (len(taken) + len(group) > APPEND_EVENTS_MAX or size > APPEND_BYTES_MAX):
            break
        taken += groups.popleft()
    return taken
