"""Which PostgreSQL node leads, and whether it still does.

**Which.** Of several nodes one leads, and after a failover it is another one. Nobody is trusted to say so but the nodes themselves: the one that
does not follow and stands on the highest timeline leads. A timeline that was seen is never gone back on, so a former primary that is
still up (or up again) is not written to, whatever it believes of itself.

**Still.** A primary that was cut off goes on answering. It proves that it leads by a commit that its quorum acknowledged: an operator takes the
standbys away from it before another node is promoted, so once that has begun no such commit ends. A proof holds for ``PROOF_HOLDS_S`` from
the moment its commit was *begun*; a promotion waits longer than that (docs/deploy.md). Every acknowledged append is a proof; a reader
without a young one asks for an empty commit, together with all others that ask.

Not here: connections and statements (``database``), who promotes (an operator, or what acts for one).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog

from isoline_server.operations.ports import StoreRetryable

PROOF_HOLDS_S: Final = 1.0
"""How long an acknowledged commit shows that the node leads, counted from its begin."""
PROOF_WAIT_S: Final = 2.0
"""How long a reader waits for a proof. A quorum answers within one round trip to its nearest standby."""
WATCH_EVERY_S: Final = 0.25
"""How often a known leader is asked whether it still leads: it bounds how late an idle server learns of a silent death."""
SEARCH_EVERY_S: Final = 0.05
PROBE_S: Final = 0.6
"""How long one node may take to say what it is before it counts as silent: twice a round trip around the world."""
PROBE_GIVE_UP_S: Final = 3.0
"""How long an answer is waited for on one connection. Making one takes six round trips, which is more than a probe may take."""
FIRST_LOOK_PROBES: Final = 3
"""How often a node may be silent before the first decision is made without it."""
LOST_AFTER: Final = 2
"""Probes in a row that a leader may leave unanswered before its statements under way are given up."""

WHO_SQL: Final = """
SELECT pg_is_in_recovery(),
       CASE WHEN pg_is_in_recovery() THEN 0
            ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::BIT(32)::BIGINT END,
       pg_is_in_recovery() AND pg_last_wal_receive_lsn() IS NULL"""
"""Whether a node follows; the timeline it writes, which is how its file's name begins (the control file may tell an older one); and whether it
follows without having received anything since it started: it may be a former leader, made a standby of nobody while it was cut off, and then
shows commits that no other node has."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """A node that leads, or that is taken to: its URL, and the timeline it writes (0: not asked for)."""

    url: str
    timeline: int = 0


class Places(Protocol):
    """Where connections are made to."""

    @property
    def current(self) -> Place | None:
        """The place as known now; connections to another one are given up."""
        ...

    async def place(self) -> Place:
        """The place to connect to. Raises ``StoreRetryable`` when none is known in time."""
        ...

    def doubt(self, place: Place) -> None:
        """Hear that a connection to it could not be made or ended."""
        ...


class OnePlace:
    """One URL, and nothing to choose."""

    def __init__(self, url: str) -> None:
        self._place = Place(url)

    @property
    def current(self) -> Place | None:
        return self._place

    async def place(self) -> Place:
        return self._place

    def doubt(self, place: Place) -> None:
        """There is no other."""


Probe = Callable[[], Coroutine[Any, Any, tuple[bool, int]]]
"""Asks one node whether it follows and which timeline it writes. Raises ``StoreRetryable``."""


@dataclass(slots=True)
class _Node:
    """What one node said last: the timeline it leads on (None: it follows, or has not answered), and how often it has been silent since."""

    leads_on: int | None = None
    silent: int = 0
    answered: bool = False
    asking: "asyncio.Task[tuple[bool, int]] | None" = None
    asked_s: float = 0.0

    @property
    def looked_at(self) -> bool:
        return self.answered or self.silent >= FIRST_LOOK_PROBES


class Leadership:
    """The leader among several nodes. ``run()`` is its only task. Listeners are told when another one leads, or none is known to."""

    def __init__(self, probes: Mapping[str, Probe]) -> None:
        self._probes = dict(probes)
        self._nodes = {url: _Node() for url in probes}
        self._current: Place | None = None
        self._newest_timeline = 0
        self._found = asyncio.Event()
        self._doubted = asyncio.Event()
        self._listeners: list[Callable[[Place | None], None]] = []

    @property
    def current(self) -> Place | None:
        return self._current

    def on_change(self, listener: Callable[[Place | None], None]) -> None:
        """Have it called with the new leader, or None."""
        self._listeners.append(listener)

    async def place(self) -> Place:
        if self._current is None:
            try:
                async with asyncio.timeout(PROBE_S):
                    await self._found.wait()
            except TimeoutError:
                raise StoreRetryable("no node leads", ambiguous=False) from None
        assert self._current is not None
        return self._current

    def doubt(self, place: Place) -> None:
        if place == self._current:
            self._doubted.set()

    async def run(self) -> None:
        """Watch every node, each at its own pace, until cancelled: a silent one keeps nobody from hearing of the next leader."""
        try:
            async with asyncio.TaskGroup() as watching:
                for url in self._probes:
                    watching.create_task(self._watch(url))
        finally:
            for node in self._nodes.values():
                if node.asking is not None:
                    node.asking.cancel()

    async def _watch(self, url: str) -> None:
        node = self._nodes[url]
        while True:
            await self._ask(url, node)
            self._decide()
            await self._pause()

    async def _ask(self, url: str, node: _Node) -> None:
        """Wait for an answer as long as a probe may take. One that is late still counts when it comes, for it may be about to connect."""
        if node.asking is None:
            node.asking = asyncio.ensure_future(self._probes[url]())
            node.asked_s = time.monotonic()
        await asyncio.wait([node.asking], timeout=PROBE_S)
        if not node.asking.done():
            node.silent += 1
            if time.monotonic() - node.asked_s > PROBE_GIVE_UP_S:
                node.asking.cancel()
                node.asking = None
            return
        asked, node.asking = node.asking, None
        try:
            follows, timeline = asked.result()
        except StoreRetryable:
            node.silent += 1
        else:
            node.silent, node.answered, node.leads_on = 0, True, None if follows else timeline

    async def _pause(self) -> None:
        if self._current is None:
            await asyncio.sleep(SEARCH_EVERY_S)
            return
        try:
            async with asyncio.timeout(WATCH_EVERY_S):
                await self._doubted.wait()
        except TimeoutError:
            return
        await asyncio.sleep(SEARCH_EVERY_S)  # everybody that waits is woken before the doubt is taken as answered
        self._doubted.clear()

    def _decide(self) -> None:
        if not all(node.looked_at for node in self._nodes.values()):
            return  # the first look is at all of them: the one that answers first need not be the one that leads
        leading = [
            Place(url, node.leads_on)
            for url, node in self._nodes.items()
            if node.leads_on is not None and node.silent < LOST_AFTER and node.leads_on >= self._newest_timeline
        ]
        if self._current in leading and all(place.timeline <= self._newest_timeline for place in leading):
            return
        self._become(max(leading, key=lambda place: place.timeline, default=None))

    def _become(self, place: Place | None) -> None:
        if place == self._current:
            return
        self._current = place
        if place is None:
            self._found.clear()
            log.warning("no node leads")
        else:
            self._newest_timeline = place.timeline
            self._found.set()
            log.info("a node leads", timeline=place.timeline)
        for listener in self._listeners:
            listener(place)


class QuorumProof:
    """When the leader last acknowledged a commit with its quorum. Shared by all readers of one process."""

    def __init__(self, barrier: Callable[[], Awaitable[None]], *, holds_s: float = PROOF_HOLDS_S) -> None:
        self._barrier = barrier
        self._holds_s = holds_s
        self._newest_s = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self._reign = 0
        self._timeline: int | None = None

    def check_timeline(self, timeline: int) -> None:
        """Refuse a node that leads on another timeline than the one whose commits prove anything. Raises ``StoreRetryable``."""
        if self._timeline is not None and timeline != self._timeline:
            raise StoreRetryable("this node leads on a timeline that has been left", ambiguous=False)

    def acknowledged(self, begun_s: float) -> None:
        """Take a commit that was begun then (``time.monotonic``), and has been acknowledged, as a proof."""
        self._newest_s = max(self._newest_s, begun_s)

    def forget(self, leader: Place | None) -> None:
        """Another node leads: what the former one proved says nothing."""
        self._timeline = None if leader is None else leader.timeline
        self._newest_s = float("-inf")
        self._asking = None
        self._reign += 1

    def begin(self, since_s: float) -> None:
        """Ask already for what ``need`` will wait for: so the commit is on its way beside the read that needs it, not behind it."""
        if not self._holds(since_s) and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self._commit(self._reign), name="proof of leadership")
            self._asking.add_done_callback(_heard)

    async def need(self, since_s: float) -> None:
        """Return once there is a proof that still holds and was begun after ``since_s``. Raises ``StoreRetryable``."""
        if self._holds(since_s):
            return
        try:
            async with asyncio.timeout(PROOF_WAIT_S):
                while not self._holds(since_s):
                    self.begin(since_s)
                    assert self._asking is not None
                    await asyncio.shield(self._asking)
        except TimeoutError:
            raise StoreRetryable("the leader does not prove that it leads", ambiguous=False) from None

    def _holds(self, since_s: float) -> bool:
        return self._newest_s >= since_s and time.monotonic() - self._newest_s < self._holds_s

    async def _commit(self, reign: int) -> None:
        begun_s = time.monotonic()
        await self._barrier()
        if reign == self._reign:
            self.acknowledged(begun_s)


def _heard(asking: "asyncio.Task[None]") -> None:
    """A failure that nobody waits for is no news: whoever needs the proof next asks again."""
    if not asking.cancelled():
        asking.exception()
