"""Verify that 10,000 events are the same in three regions: the primary and two hot standbys, each behind a server of its own.

Two ways: the client reads every record from every region and recomputes each chain itself; or each region's server recomputes the chain over
its own replica and only the digests travel. Both end with the comparison of the three positions.
"""

import asyncio
from contextlib import AsyncExitStack, aclosing

import isoline_client
from benchmarks import read
from benchmarks.harness import Row, interleave, row, timed_ms, value_at_most
from benchmarks.sides import OurRun, Ours
from benchmarks.stage import Stage
from benchmarks.topology import HOME
from benchmarks.topology import STANDBYS as REGIONS

NAME = "verify"
STANDBYS = REGIONS

EVENTS = read.EVENTS
BOUND_MS = 300


async def measure(stage: Stage) -> list[Row]:
    async with AsyncExitStack() as stack:
        clients = await _clients(stage, stack)
        source = await read.filled_run(Ours(clients[0]), EVENTS)
        assert isinstance(source, OurRun)
        await asyncio.to_thread(stage.topology.wait_replicated)
        runs = [client.run(source.run.run_id) for client in clients]
        await _check_sources(runs)
        found = await interleave(
            {
                "client": lambda: timed_ms(lambda: _verify(runs, _read_through)),
                "server": lambda: timed_ms(lambda: _verify(runs, _recomputed)),
            },
            stage.effort.rounds,
        )
    name = f"verify {EVENTS:,} events from three regions"
    return [
        row(f"{name}: read and recomputed by the client", "ms", found["client"], target=value_at_most(BOUND_MS, "ms")),
        row(f"{name}: recomputed by each region", "ms", found["server"], target=value_at_most(BOUND_MS, "ms")),
    ]


async def _clients(stage: Stage, stack: AsyncExitStack) -> list[isoline_client.Client]:
    """One client a region, the primary's first."""
    database = stage.topology.migrated_database()
    stage.topology.wait_replicated()
    servers = [stack.enter_context(stage.topology.isoline(database, region)) for region in (HOME, *REGIONS)]
    return [await stack.enter_async_context(isoline_client.Client(server.address)) for server in servers]


async def _verify(runs: list[isoline_client.Run], position_of) -> None:
    positions = await asyncio.gather(*(position_of(run) for run in runs))
    if len(set(positions)) != 1 or positions[0].seq != EVENTS - 1:
        raise RuntimeError(f"the regions differ: {positions}")


async def _read_through(run: isoline_client.Run) -> isoline_client.Position:
    position = isoline_client.START
    async with aclosing(run.read_pages(0, EVENTS)) as pages:
        async for page in pages:
            position = page.last
    return position


async def _recomputed(run: isoline_client.Run) -> isoline_client.Position:
    return (await run.prefix(EVENTS, recompute=True)).last


async def _check_sources(runs: list[isoline_client.Run]) -> None:
    """Each region must answer from its own replica, or the benchmark would measure something else."""
    found = []
    for run in runs:
        async with aclosing(run.read_pages(0, EVENTS)) as pages:
            found.append({page.source async for page in pages})
    if found != [{"leader"}, {"local"}, {"local"}]:
        raise RuntimeError(f"the regions did not read their own replicas: {found}")
