"""Claim runs that want an executor.

Not repeated when its fate is unknown: a claim that landed keeps its runs until their leases end, and another would take more.
"""

from isoline_server.domain.errors import OutcomeUnknown
from isoline_server.domain.lease import ClaimCommand, Claimed
from isoline_server.operations.carry_out import carry_out
from isoline_server.operations.execution_ports import LeaseStore
from isoline_server.operations.ports import StoreRetryable


async def claim_runs(store: LeaseStore, command: ClaimCommand, timeout_s: float) -> Claimed:
    """Claim up to ``runs_max`` runs. Raises ``OutcomeUnknown`` or ``StoreUnavailable``."""

    async def once() -> Claimed:
        try:
            return await store.claim(command)
        except StoreRetryable as error:
            if error.ambiguous:
                raise OutcomeUnknown from error
            raise

    return await carry_out(once, timeout_s)
