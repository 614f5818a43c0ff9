"""How the answering region stands: who leads, and how far the local replica is behind."""

import asyncio
from dataclasses import dataclass

from isoline_server.operations.ports import LogReader, ReplicaStatus, StoreRetryable


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionStatus:
    """``lag_*`` are None when unknown."""

    leader_reachable: bool
    local_reachable: bool
    local_is_leader: bool
    lag_bytes: int | None
    lag_ms: int | None


async def region_status(local: LogReader | None, leader: LogReader, timeout_s: float) -> RegionStatus:
    """Ask both replicas, neither longer than ``timeout_s``."""
    at_leader, at_local = await asyncio.gather(_ask(leader, timeout_s), _ask(local, timeout_s))
    return RegionStatus(
        leader_reachable=at_leader is not None,
        local_reachable=at_local is not None,
        local_is_leader=at_local is not None and at_local.is_leader,
        lag_bytes=_lag_bytes(at_leader, at_local),
        lag_ms=None if at_local is None else at_local.lag_ms,
    )


def _lag_bytes(leader: ReplicaStatus | None, local: ReplicaStatus | None) -> int | None:
    if leader is None or local is None or leader.position is None or local.position is None:
        return None
    return max(0, leader.position - local.position)


async def _ask(reader: LogReader | None, timeout_s: float) -> ReplicaStatus | None:
    if reader is None:
        return None
    try:
        async with asyncio.timeout(timeout_s):
            return await reader.status()
    except (StoreRetryable, TimeoutError):
        return None
