"""Read 10,000 events through gRPC, until the client has every payload in hand; ours recomputes the chain of digests as well."""

import statistics
from collections.abc import Awaitable, Callable

from benchmarks.harness import Row, interleave, ratio_at_most, row, timed_ms
from benchmarks.payloads import EVENT_BYTES, payloads
from benchmarks.sides import Log, LogRun
from benchmarks.stage import FLOOR, FLOOR_UVLOOP, OURS, Stage

NAME = "read"
STANDBYS: tuple[str, ...] = ()

EVENTS = 10_000
BATCH = 1_000
READS_A_ROUND = 3
PAGES = "ours, records only"


async def filled_run(log: Log, events: int = EVENTS) -> LogRun:
    """A run with so many events."""
    run = await log.new_run()
    for start in range(0, events, BATCH):
        await run.append(payloads(min(BATCH, events - start), seed=start))
    return run


async def measure(stage: Stage) -> list[Row]:
    name = f"read {EVENTS:,} events, verified"
    async with stage.contest() as contestants:
        runs = {side: await filled_run(log) for side, log in contestants.items()}
        works: dict[str, Callable[[], Awaitable[float]]] = {
            side: (lambda run=run: _reads_ms(run.read, EVENTS * EVENT_BYTES)) for side, run in runs.items()
        }
        works[PAGES] = lambda: _reads_ms(runs[OURS].read_records, EVENTS)
        found = await interleave(works, stage.effort.rounds)
    return [
        row(name, "ms", found[OURS], found[FLOOR], ratio_at_most(2)),
        row(f"{name}; floor on uvloop", "ms", found[OURS], found[FLOOR_UVLOOP]),
        row(f"{name}; records left unparsed", "ms", found[PAGES], found[FLOOR]),
    ]


async def _reads_ms(read: Callable[[], Awaitable[int]], expected: int) -> float:
    """The median of some reads, each of which must bring everything."""

    async def once() -> None:
        if await read() != expected:
            raise RuntimeError("the read did not bring everything")

    return statistics.median([await timed_ms(once) for _ in range(READS_A_ROUND)])
