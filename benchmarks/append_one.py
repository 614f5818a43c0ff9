"""Append, one caller, one run, one event a call: what the features cost a lone writer, and how even its latencies are."""

from benchmarks.appends import Load, contest, latency_rows, rate_rows
from benchmarks.harness import Row, ratio_at_least, value_under
from benchmarks.stage import Stage

NAME = "append-one"
STANDBYS: tuple[str, ...] = ()


async def measure(stage: Stage) -> list[Row]:
    load = Load(callers=1, calls=stage.effort.of(1_000, 100), events_a_call=1)
    rounds = await contest(stage, load)
    name = "append, 1 caller, 1 event a call"
    return rate_rows(name, rounds, ratio_at_least(0.8)) + latency_rows(name, rounds, value_under(4, ""))
