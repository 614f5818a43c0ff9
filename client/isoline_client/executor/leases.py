"""The leases that this process holds, and the heartbeat that keeps them.

A lease is good until its time is up by this process's own clock, counted from before the call that last lengthened it was sent: that is
never later than the database thinks. Whoever loses one hears of it at once, through ``Held.lost``. The fence that counts is not here: the
server refuses what is written under an older epoch.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from isoline_client.errors import IsolineError
from isoline_client.execution import ExecutionClient, Lease

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Held:
    """A lease in this process's hands."""

    run_id: str
    workflow_id: str
    epoch: int
    good_until: float
    """Monotonic seconds."""
    lost: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_good(self) -> bool:
        """Whether it can still be relied on: asked last before something leaves, for a process may have stood still since it was renewed."""
        return not self.lost.is_set() and time.monotonic() < self.good_until


class Leases:
    """Takes claimed leases, renews them a few times within their lifetime, and says which are gone."""

    def __init__(self, execution: ExecutionClient, *, ttl_ms: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._execution = execution
        self._ttl_ms = ttl_ms
        self._clock = clock
        self._held: dict[str, Held] = {}

    def take(self, lease: Lease, asked_at: float) -> Held:
        """Hold a lease that was claimed by a call sent at ``asked_at``."""
        held = Held(lease.run_id, lease.workflow_id, lease.epoch, asked_at + lease.ttl_ms / 1000)
        self._held[lease.run_id] = held
        return held

    async def give_back(self, held: Held, *, seen_head_seq: int, wake_in_ms: int | None) -> None:
        """Release a lease; nothing to do when it is gone already."""
        if self._held.get(held.run_id) is held:
            del self._held[held.run_id]
        if not held.lost.is_set():
            await self._execution.release(held.run_id, held.epoch, seen_head_seq=seen_head_seq, wake_in_ms=wake_in_ms)

    def forget(self, held: Held) -> None:
        """Renew it no more: it runs out, and another executor takes the run over."""
        if self._held.get(held.run_id) is held:
            del self._held[held.run_id]

    async def keep(self) -> None:
        """Renew until cancelled."""
        while True:
            await asyncio.sleep(self._ttl_ms / 3000)
            await self.renew()

    async def renew(self) -> None:
        """One heartbeat for all of them."""
        held = list(self._held.values())
        if not held:
            return
        asked_at = self._clock()
        try:
            renewed, lost = await self._execution.renew(
                [(each.run_id, each.epoch) for each in held], lease_ttl_ms=self._ttl_ms, timeout_s=self._ttl_ms / 3000
            )
        except IsolineError as error:
            _log.warning("heartbeat failed", extra={"runs": len(held), "error": str(error)})
            renewed, lost = [], []
        for lease in renewed:
            if (found := self._held.get(lease.run_id)) and found.epoch == lease.epoch:
                found.good_until = asked_at + lease.ttl_ms / 1000
        for each in held:
            if each.run_id in lost or each.good_until <= self._clock():
                self._lose(each)

    def _lose(self, held: Held) -> None:
        self.forget(held)
        held.lost.set()
        _log.warning("lease lost", extra={"run": held.run_id, "epoch": held.epoch})
