"""Look an invocation up: in a run, and, when asked to, in the run it was forked from, and so on to the first."""

from dataclasses import replace

from isoline_server.domain import limits
from isoline_server.domain.errors import StoreUnavailable
from isoline_server.domain.ids import RunId
from isoline_server.domain.invocation import Invocation, InvocationPlace
from isoline_server.domain.run import Freshness
from isoline_server.operations.execution_ports import InvocationStore
from isoline_server.operations.ports import StoreRetryable
from isoline_server.operations.reading import Reading


async def get_invocation(
    store: InvocationStore, reading: Reading, place: InvocationPlace, *, follow_sources: bool
) -> Invocation | None:
    """The nearest record, with the run that it stands in; None when there is none. Raises ``RunNotFound`` or ``StoreUnavailable``."""
    for _ in range(limits.SOURCES_FOLLOWED_MAX):
        try:
            found = await store.load(place)
        except StoreRetryable as error:
            raise StoreUnavailable(error.reason) from error
        source = None if found is not None or not follow_sources else await _source(reading, place.run_id)
        if source is None:
            return found
        place = replace(place, run_id=source)
    return None


async def _source(reading: Reading, run_id: RunId) -> RunId | None:
    # Where a run comes from never changes, so whatever is remembered of it will do.
    run = reading.known_run(run_id) or (await reading.run(run_id, Freshness.LATEST))[0]
    return None if run.fork is None else run.fork.source_run_id
