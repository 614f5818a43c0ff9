"""Append, 16 callers on runs of their own: whether writing what waits in one statement pays for the features."""

from benchmarks.appends import Load, contest, latency_rows, rate_rows
from benchmarks.harness import Row, ratio_at_least
from benchmarks.stage import Stage

NAME = "append-many"
STANDBYS: tuple[str, ...] = ()


async def measure(stage: Stage) -> list[Row]:
    load = Load(callers=16, calls=stage.effort.of(150, 20), events_a_call=1)
    rounds = await contest(stage, load)
    name = "append, 16 callers on own runs, 1 event a call"
    return rate_rows(name, rounds, ratio_at_least(1.1)) + latency_rows(name, rounds)
