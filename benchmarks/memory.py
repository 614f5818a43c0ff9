"""How much a server's memory grows over idle while it streams a run of 1 GiB, to a client that reads as fast as it can and to a slow one.

Every stream has a server process of its own, fresh and idle, so that its peak is the stream's alone. The highest of all rounds counts,
not their median.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

import isoline_client
from benchmarks import sides
from benchmarks.harness import Row, value_under
from benchmarks.payloads import EVENT_TYPE, payloads
from benchmarks.processes import PeakMemory
from benchmarks.stage import Stage

NAME = "memory"
STANDBYS: tuple[str, ...] = ()

MIB = 1024 * 1024
EVENT_BYTES = 512 * 1024
EVENTS_A_CALL = 8
RUN_MIB = 1024
BOUND_MB = 200
PAUSE_S = 0.005
"""What the slow client does for each page of one event: three or four times what the fast one takes."""


async def measure(stage: Stage) -> list[Row]:
    run_mib = stage.effort.of(RUN_MIB, 64)
    database = stage.topology.migrated_database()
    stage.say(f"  appending {run_mib} MiB")
    run_id, appending_mb = await _fill(stage, database, run_mib * MIB // EVENT_BYTES)
    fast: list[float] = []
    slow: list[float] = []
    for _ in range(stage.effort.rounds):
        fast.append(await _stream(stage, database, run_id, pause_s=0.0))
        slow.append(await _stream(stage, database, run_id, pause_s=PAUSE_S))
    size = "1 GiB" if run_mib == RUN_MIB else f"{run_mib} MiB"
    return [
        _row(f"server memory over idle, streaming {size}, fast client", fast, bound=True),
        _row(f"server memory over idle, streaming {size}, slow client", slow, bound=True),
        _row(f"server memory over idle, appending {size}", [appending_mb], bound=False),
    ]


def _row(name: str, peaks_mb: list[float], *, bound: bool) -> Row:
    target = value_under(BOUND_MB, "MB") if bound else None
    return Row(f"{name} (highest)", max(peaks_mb), "MB", None, target, peaks_mb)


async def _fill(stage: Stage, database: str, events: int) -> tuple[str, float]:
    """Append a run, four appends under way at a time; return its id and the peak over idle."""
    async with _watched(stage, database) as (log, peak, idle):
        run = (await log.new_run()).run
        supply = [isoline_client.NewEvent(EVENT_TYPE, payload) for payload in payloads(EVENTS_A_CALL, EVENT_BYTES)]
        room = asyncio.Semaphore(4)

        async def one() -> None:
            async with room:
                await run.append(supply)

        await asyncio.gather(*(one() for _ in range(events // EVENTS_A_CALL)))
    return run.run_id, (peak.peak_bytes - idle) / 1e6


async def _stream(stage: Stage, database: str, run_id: str, *, pause_s: float) -> float:
    """Read the run from a fresh server; return its peak over idle, in MB."""
    async with _watched(stage, database) as (log, peak, idle):
        run = log.client.run(run_id)
        events = 0
        async with aclosing(run.read_pages()) as pages:
            async for page in pages:
                events += len(page)
                await asyncio.sleep(pause_s)
        if events != (await run.info()).head.seq + 1:
            raise RuntimeError("the stream did not bring everything")
    return (peak.peak_bytes - idle) / 1e6


@asynccontextmanager
async def _watched(stage: Stage, database: str) -> AsyncIterator[tuple[sides.Ours, PeakMemory, int]]:
    """A fresh server with a client, its memory when idle, and its peak from then on."""
    async with AsyncExitStack() as stack:
        server = stack.enter_context(stage.topology.isoline(database))
        log = await stack.enter_async_context(sides.ours(server.address))
        await log.client.capabilities()
        await asyncio.sleep(1.0)
        idle = server.child.rss_bytes()
        yield log, stack.enter_context(PeakMemory(server.child.pid)), idle
