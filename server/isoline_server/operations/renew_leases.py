"""Lengthen leases: the heartbeat of an executor.

A lease is lost only when the database says so. Whatever else happens to a heartbeat, the lease is what it was.
"""

import asyncio
from collections.abc import Sequence

from isoline_server.domain.ids import RunId, home_of
from isoline_server.domain.lease import Lease, LeaseRef
from isoline_server.operations.carry_out import carry_out
from isoline_server.operations.execution_ports import LeaseStore

PAUSE_S = 0.01
"""Before rows that were in use are asked for again: an append holds its run's row about as long."""


async def renew_leases(
    store: LeaseStore, leases: Sequence[LeaseRef], ttl_ms: int, timeout_s: float
) -> tuple[list[Lease], list[RunId]]:
    """The leases as they are now, and the runs whose leases are lost. Raises ``OutcomeUnknown`` or ``StoreUnavailable``."""
    waiting = list(leases)
    renewed: dict[RunId, Lease] = {}
    lost: list[RunId] = []

    async def rounds() -> None:
        while waiting:
            region = home_of(waiting[0].run_id)
            here = [lease for lease in waiting if home_of(lease.run_id) == region]
            found = await store.renew(region, here, ttl_ms)
            renewed.update((lease.run_id, lease) for lease in found.leases)
            still = {lease.run_id for lease in found.waiting}
            lost.extend(lease.run_id for lease in here if lease.run_id not in still and lease.run_id not in renewed)
            waiting[:] = [lease for lease in waiting if lease not in here] + list(found.waiting)
            if still:
                await asyncio.sleep(PAUSE_S)

    await carry_out(rounds, timeout_s)
    return list(renewed.values()), lost
