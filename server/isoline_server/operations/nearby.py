"""Learn from this region's own replica that a statement at a far leader has landed, when it shows so before the leader's answer is here.

With a leader at distance d and its nearest other standby at distance e, the leader's answer takes d + e: there, to the quorum, and back. A
replica here that counts towards the quorum has what was written after d, and having it on its disk makes it two. So a far append costs
one round trip, whoever else is slow. What the replica does not show says nothing: then the leader's answer counts.

Not here: what is written (``lane``), whether the replica counts (the configuration says so).
"""

import asyncio
import math
from collections import deque
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from isoline_server.domain.ids import Region, RunId
from isoline_server.operations.ports import NearReceipts, StoreRetryable

FAR_S: Final = 0.005
"""An answer that comes sooner than this is not worth looking elsewhere for."""
LOOK_EVERY_S: Final = 0.002
REMEMBERED: Final = 16
"""Answers remembered, to know when the next one can be here at the earliest."""


class Nearby:
    """Looks at one replica for all lanes of a server. ``close()`` ends what it left running."""

    def __init__(self, replica: NearReceipts) -> None:
        self._replica = replica
        self._shown_s: deque[float] = deque(maxlen=REMEMBERED)
        self._told_s: deque[float] = deque(maxlen=REMEMBERED)
        self._left: set[asyncio.Task[frozenset[RunId]]] = set()

    async def first(
        self,
        statement: Coroutine[Any, Any, frozenset[RunId]],
        home: Region,
        receipts: Mapping[bytes, bytes],
        runs: frozenset[RunId],
    ) -> frozenset[RunId]:
        """The runs that the statement moved: as it says itself, or all of ``runs`` once the replica shows all ``receipts``
        (key → last digest). Raises what the statement raises."""
        if not self._replica.follows:
            return await statement
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        asking = asyncio.create_task(statement, name="append")
        try:
            await asyncio.wait([asking], timeout=self._earliest_s())
            while not asking.done():
                if await self._look(asking, home, receipts):
                    self._leave(asking)
                    self._shown_s.append(loop.time() - begun_s)
                    return runs
                await asyncio.wait([asking], timeout=LOOK_EVERY_S)
        except BaseException:
            self._leave(asking)
            raise
        self._told_s.append(loop.time() - begun_s)
        return asking.result()

    async def close(self) -> None:
        """Wait for what was left behind to end: the leader's answers to what the replica had shown already."""
        if self._left:
            await asyncio.wait(self._left)

    def _earliest_s(self) -> float:
        """When it is worth to begin looking: a little before the quickest that the replica was. While the leader is quicker than it ever was, at
        half the time that the leader takes, for the way there and back is the least of it, and the replica has it half-way back."""
        shown_s, told_s = min(self._shown_s, default=math.inf), min(self._told_s, default=0.0)
        return max(FAR_S, 0.9 * shown_s if shown_s < told_s else 0.45 * told_s)

    async def _look(
        self, asking: "asyncio.Task[frozenset[RunId]]", home: Region, receipts: Mapping[bytes, bytes]
    ) -> bool:
        """Look once; a replica that hangs does not hold up the leader's answer."""
        looking = asyncio.create_task(self._shown(home, receipts), name="looking nearby")
        try:
            await asyncio.wait([asking, looking], return_when=asyncio.FIRST_COMPLETED)
            return looking.done() and looking.result()
        finally:
            looking.cancel()

    async def _shown(self, home: Region, receipts: Mapping[bytes, bytes]) -> bool:
        try:
            found = await self._replica.load_receipts(home, list(receipts))
        except StoreRetryable:
            return False
        return all(key in found and found[key].digest == digest for key, digest in receipts.items())

    def _leave(self, asking: "asyncio.Task[frozenset[RunId]]") -> None:
        """Let the leader's answer come for nobody: what it says is known, and its connection must not be lost over it."""
        self._left.add(asking)
        asking.add_done_callback(self._forget)

    def _forget(self, asking: "asyncio.Task[frozenset[RunId]]") -> None:
        self._left.discard(asking)
        if not asking.cancelled():
            asking.exception()
