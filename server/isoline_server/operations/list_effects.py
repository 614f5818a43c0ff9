"""List effects, oldest first, in pages (AIP-158): of one run, or of the tenant by state."""

from collections.abc import Sequence

from isoline_server.domain.effect import Effect
from isoline_server.domain.errors import StoreUnavailable
from isoline_server.operations.execution_ports import EffectListing, EffectQuery, EffectStore
from isoline_server.operations.ports import StoreRetryable


async def list_effects(
    store: EffectStore, query: EffectQuery, after: EffectListing | None, page_size: int
) -> tuple[Sequence[Effect], EffectListing | None]:
    """One page, and where the next one begins (None on the last)."""
    try:
        effects = await store.page(query, after, page_size + 1)
    except StoreRetryable as error:
        raise StoreUnavailable(error.reason) from error
    page = effects[:page_size]
    if len(effects) <= page_size:
        return page, None
    last = page[-1]
    following = EffectListing(
        first_claimed_at_us=last.first_claimed_at_us, run_id=last.run_id, effect_id=last.effect_id
    )
    return page, following
