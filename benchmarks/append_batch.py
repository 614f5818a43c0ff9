"""Append, one caller, one run, 100 events a call: what the features cost an event when the commit is shared."""

from benchmarks.appends import Load, contest, rate_rows
from benchmarks.harness import Row, ratio_at_least
from benchmarks.stage import Stage

NAME = "append-batch"
STANDBYS: tuple[str, ...] = ()


async def measure(stage: Stage) -> list[Row]:
    load = Load(callers=1, calls=stage.effort.of(150, 10), events_a_call=100)
    return rate_rows("append, 1 caller, 100 events a call", await contest(stage, load), ratio_at_least(0.5))
