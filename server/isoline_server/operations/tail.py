"""Follow a run: catch up by seq, then live. One poll a tick for all followed runs, woken at once by appends through this server.

A followed head is only a reason to look: what is served is always read by seq through the ladder, so nothing is missed and nothing comes
twice, whatever the poll saw or did not see.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field

from isoline_server.domain import limits
from isoline_server.domain.errors import Draining, TooManyWaiting
from isoline_server.domain.ids import RunId
from isoline_server.domain.run import Freshness, Mark
from isoline_server.operations.ports import LogReader, StoreRetryable
from isoline_server.operations.reading import Known, Page, Reading, SeqAsked

POLL_EVERY_S = 0.1
LEADER_EVERY_POLLS = 10
"""The leader may be a continent away and is asked less often. It is asked: a replica that lags would never say what it does not show."""

HEARTBEAT_EVERY_S = 5.0


@dataclass(eq=False, slots=True)
class _Watched:
    head_seq: int = -1
    wakers: set[asyncio.Event] = field(default_factory=set)


class TailHub:
    """The runs somebody follows on this server. ``run()`` is its only task."""

    def __init__(self, *, local: LogReader | None, leader: LogReader, poll_every_s: float = POLL_EVERY_S) -> None:
        self._local = local
        self._leader = leader
        self._poll_every_s = poll_every_s
        self._watched: dict[RunId, _Watched] = {}
        self._streams = 0
        self.draining = False

    async def run(self) -> None:
        """Poll the heads of the followed runs until cancelled."""
        polls = 0
        while True:
            await asyncio.sleep(self._poll_every_s)
            if self._watched:
                near = self._local is not None and await self._poll(self._local)
                if not near or polls % LEADER_EVERY_POLLS == 0:
                    await self._poll(self._leader)
                polls += 1

    def notify(self, moved: Iterable[tuple[RunId, int]]) -> None:
        """Wake the followers of runs whose head is further than they know."""
        for run_id, head_seq in moved:
            watched = self._watched.get(run_id)
            if watched is not None and head_seq > watched.head_seq:
                watched.head_seq = head_seq
                for waker in watched.wakers:
                    waker.set()

    def close(self) -> None:
        """End every tail: its client goes on elsewhere from where it is."""
        self.draining = True
        for watched in self._watched.values():
            for waker in watched.wakers:
                waker.set()

    async def _poll(self, reader: LogReader) -> bool:
        """Learn the heads that one replica shows; whether it answered."""
        try:
            self.notify((await reader.head_seqs(list(self._watched))).items())
        except StoreRetryable:
            return False
        return True

    def watch(self, run_id: RunId, waker: asyncio.Event) -> None:
        """Have ``waker`` set whenever the run's head moves. Raises ``Draining`` or ``TooManyWaiting``."""
        if self.draining:
            raise Draining
        if self._streams >= limits.TAIL_STREAMS_MAX:
            raise TooManyWaiting("tails", limits.TAIL_STREAMS_MAX)
        self._streams += 1
        self._watched.setdefault(run_id, _Watched()).wakers.add(waker)

    def unwatch(self, run_id: RunId, waker: asyncio.Event) -> None:
        """Stop what ``watch`` began."""
        self._streams -= 1
        watched = self._watched[run_id]
        watched.wakers.discard(waker)
        if not watched.wakers:
            del self._watched[run_id]

    def head_seq(self, run_id: RunId) -> int:
        """The furthest head seen of a followed run."""
        watched = self._watched.get(run_id)
        return -1 if watched is None else watched.head_seq


@dataclass(frozen=True, slots=True, kw_only=True)
class TailCommand:
    """From where, and whether to end behind the terminal event."""

    run_id: RunId
    from_seq: int
    known: Known | None
    stop_at_terminal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TailStep:
    """One thing to tell the follower: a page, or (without one) a sign of life. ``caught_up``: nothing more stood in the log."""

    page: Page | None
    caught_up: bool


async def tail_events(
    reading: Reading, hub: TailHub, command: TailCommand, heartbeat_every_s: float = HEARTBEAT_EVERY_S
) -> AsyncGenerator[TailStep]:
    """Yield the run's events from ``from_seq`` on, for ever, or to its terminal event. Raises ``Draining`` when the server shuts down."""
    run, _ = await reading.run(command.run_id, Freshness.LATEST)
    if command.known is not None:
        await reading.check_known(run, command.known)
    if command.from_seq > run.head.seq + 1:
        asked = SeqAsked("from_seq", command.from_seq)
        run, _ = await reading.fresh_run_reaching(command.run_id, command.from_seq, asked)
    waker = asyncio.Event()
    hub.watch(command.run_id, waker)
    try:
        next_seq, until_seq = command.from_seq, run.head.seq + 1
        last: Mark | None = None
        while True:
            async for page in reading.pages(run, next_seq, until_seq, last):
                next_seq, last = page.last.seq + 1, page.last
                yield TailStep(page=page, caught_up=next_seq >= max(until_seq, hub.head_seq(command.run_id) + 1))
            if last is None:
                yield TailStep(page=None, caught_up=True)  # nothing to read yet: say at once that the tail stands
            if command.stop_at_terminal and await _ended(reading, command.run_id, next_seq):
                return
            until_seq = max(next_seq, hub.head_seq(command.run_id) + 1)
            while until_seq <= next_seq:
                if hub.draining:
                    raise Draining
                if not await _woken(waker, heartbeat_every_s):
                    yield TailStep(page=None, caught_up=True)
                until_seq = max(next_seq, hub.head_seq(command.run_id) + 1)
    finally:
        hub.unwatch(command.run_id, waker)


async def _ended(reading: Reading, run_id: RunId, next_seq: int) -> bool:
    """Whether the terminal event stands before ``next_seq``."""
    known = reading.known_run(run_id)
    if known is None or known.head.seq + 1 < next_seq:
        known, _ = await reading.run(run_id, Freshness.LATEST)
    return known.head.terminal_seq is not None and known.head.terminal_seq < next_seq


async def _woken(waker: asyncio.Event, timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            await waker.wait()
    except TimeoutError:
        return False
    waker.clear()
    return True
