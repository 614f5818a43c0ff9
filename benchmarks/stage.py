"""What a benchmark is given: the topology, how much to measure, and both sides of a comparison with fresh databases."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from benchmarks import sides
from benchmarks.harness import Effort
from benchmarks.sides import Log
from benchmarks.topology import FLOOR_LOOPS, Topology

OURS = "ours"
FLOOR, FLOOR_UVLOOP = FLOOR_LOOPS


@dataclass(frozen=True)
class Stage:
    """Given to every benchmark."""

    topology: Topology
    effort: Effort
    say: Callable[[str], None]

    @asynccontextmanager
    async def contest(self) -> AsyncIterator[dict[str, Log]]:
        """Ours and the floor on both loops, by name, each a server process over a database of its own in the same PostgreSQL."""
        place = self.topology
        async with AsyncExitStack() as stack:
            contestants: dict[str, Log] = {}
            server = stack.enter_context(place.isoline(place.migrated_database()))
            contestants[OURS] = await stack.enter_async_context(sides.ours(server.address))
            for loop in FLOOR_LOOPS:
                server = stack.enter_context(place.floor(place.new_database(), loop))
                contestants[loop] = await stack.enter_async_context(sides.floor(server.address, place.generated))
            place.checkpoint()
            yield contestants
