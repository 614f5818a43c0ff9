"""What the append benchmarks share: one round of appends on one side, and the rows that come of the rounds."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.harness import Row, Target, interleave, quantile, row
from benchmarks.payloads import payloads
from benchmarks.sides import Log, LogRun
from benchmarks.stage import FLOOR, FLOOR_UVLOOP, OURS, Stage

_WARM_CALLS = 20
"""Calls on a fresh run that are not counted: they find the plan and the head."""


@dataclass(frozen=True)
class Load:
    """How a round appends: so many callers at once, each on a run of its own, so many calls, so many events a call."""

    callers: int
    calls: int
    events_a_call: int


@dataclass
class Rate:
    """One round: events a second, and how long every call took."""

    events_per_s: float
    latencies_ms: list[float] = field(default_factory=list)


async def one_round(log: Log, load: Load) -> Rate:
    """Append to fresh runs."""
    runs = [await log.new_run() for _ in range(load.callers)]
    supply = [payloads(load.events_a_call, seed=seed) for seed in range(min(load.calls, 64))]
    warm = min(_WARM_CALLS, load.calls)
    await asyncio.gather(*(_calls(run, supply, warm) for run in runs))
    started = time.perf_counter()
    latencies = await asyncio.gather(*(_calls(run, supply, load.calls) for run in runs))
    seconds = time.perf_counter() - started
    events = load.callers * load.calls * load.events_a_call
    return Rate(events / seconds, [each for caller in latencies for each in caller])


async def _calls(run: LogRun, supply: Sequence[Sequence[bytes]], count: int) -> list[float]:
    taken_ms: list[float] = []
    for number in range(count):
        started = time.perf_counter()
        await run.append(supply[number % len(supply)])
        taken_ms.append((time.perf_counter() - started) * 1_000)
    return taken_ms


async def contest(stage: Stage, load: Load) -> dict[str, list[Rate]]:
    """The rounds of all sides, in turns."""
    async with stage.contest() as contestants:
        return await interleave(
            {name: (lambda log=log: one_round(log, load)) for name, log in contestants.items()}, stage.effort.rounds
        )


def rate_rows(name: str, rounds: dict[str, list[Rate]], target: Target) -> list[Row]:
    """The row that was asked for, and the one beside the floor on uvloop."""
    rates = {side: [each.events_per_s for each in found] for side, found in rounds.items()}
    return [
        row(name, "events/s", rates[OURS], rates[FLOOR], target),
        row(f"{name}; floor on uvloop", "events/s", rates[OURS], rates[FLOOR_UVLOOP]),
    ]


def latency_rows(name: str, rounds: dict[str, list[Rate]], evenness: Target | None = None) -> list[Row]:
    """Over the calls of all rounds together: a p99 of one round would rest on a few calls."""
    p50, p99 = {}, {}
    for side in (OURS, FLOOR):
        latencies = [latency for each in rounds[side] for latency in each.latencies_ms]
        p50[side], p99[side] = quantile(latencies, 0.5), quantile(latencies, 0.99)
    return [
        Row(f"{name}: p99 / p50", p99[OURS] / p50[OURS], "", p99[FLOOR] / p50[FLOOR], evenness),
        Row(f"{name}: p50", p50[OURS], "ms", p50[FLOOR]),
        Row(f"{name}: p99", p99[OURS], "ms", p99[FLOOR]),
    ]
