"""List a tenant's runs, newest first, in pages (AIP-158)."""

from collections.abc import Sequence

from isoline_server.domain.errors import StoreUnavailable
from isoline_server.domain.ids import Tenant
from isoline_server.domain.run import Run
from isoline_server.operations.ports import LogReader, RunListing, StoreRetryable


async def list_runs(
    leader: LogReader, tenant: Tenant, workflow_id: str, after: RunListing | None, page_size: int
) -> tuple[Sequence[Run], RunListing | None]:
    """One page, and where the next one begins (None on the last)."""
    try:
        runs = await leader.list_runs(tenant, workflow_id, after, page_size + 1)
    except StoreRetryable as error:
        raise StoreUnavailable(error.reason) from error
    page = runs[:page_size]
    if len(runs) <= page_size:
        return page, None
    return page, RunListing(created_at_us=page[-1].created_at_us, run_id=page[-1].run_id)
