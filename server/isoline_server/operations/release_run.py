"""Give a run back. A repeat does nothing that the first call did not: only a claim ends an epoch."""

from isoline_server.domain.lease import ReleaseCommand
from isoline_server.operations.carry_out import carry_out
from isoline_server.operations.execution_ports import LeaseStore


async def release_run(store: LeaseStore, command: ReleaseCommand, timeout_s: float) -> bool:
    """Whether it was still the caller's to give. Raises ``OutcomeUnknown`` or ``StoreUnavailable``."""
    return await carry_out(lambda: store.release(command), timeout_s)
