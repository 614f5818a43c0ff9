"""Record what a model answered. The first record of its place counts, whoever asked again."""

from isoline_server.domain.errors import LeaseLost
from isoline_server.domain.ids import Tenant
from isoline_server.domain.invocation import Invocation
from isoline_server.operations.carry_out import carry_out
from isoline_server.operations.execution_ports import InvocationStore


async def put_invocation(
    store: InvocationStore, tenant: Tenant, invocation: Invocation, lease_epoch: int, timeout_s: float
) -> tuple[Invocation, bool]:
    """The record that counts, and whether an earlier call made it. Raises ``LeaseLost``, ``OutcomeUnknown`` or ``StoreUnavailable``."""

    async def once() -> tuple[Invocation, bool]:
        while True:
            held, recorded = await store.insert(tenant, invocation, lease_epoch)
            if not held:
                raise LeaseLost(invocation.place.run_id, lease_epoch)
            if recorded:
                return invocation, False
            earlier = await store.load(invocation.place)
            if earlier is not None:
                return earlier, True

    return await carry_out(once, timeout_s)
