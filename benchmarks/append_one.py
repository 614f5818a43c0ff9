"""Append, one caller, one run, one event a call: what the features cost a lone writer, and how even its latencies are."""

from benchmarks.appends import Load, Rate, contest, rate_rows
from benchmarks.harness import Row, quantile, ratio_at_least, value_under
from benchmarks.stage import FLOOR, OURS, Stage

NAME = "append-one"
STANDBYS: tuple[str, ...] = ()


async def measure(stage: Stage) -> list[Row]:
    load = Load(callers=1, calls=stage.effort.of(1_000, 100), events_a_call=1)
    rounds = await contest(stage, load)
    rows = rate_rows("append, 1 caller, 1 event a call", rounds, ratio_at_least(0.8))
    return rows + _latency_rows(rounds)


def _latency_rows(rounds: dict[str, list[Rate]]) -> list[Row]:
    """Over the calls of all rounds together: a p99 of one round would rest on ten calls."""
    p50, p99 = {}, {}
    for side in (OURS, FLOOR):
        latencies = [latency for each in rounds[side] for latency in each.latencies_ms]
        p50[side], p99[side] = quantile(latencies, 0.5), quantile(latencies, 0.99)
    name = "append, 1 caller, 1 event a call"
    spread = {side: p99[side] / p50[side] for side in p50}
    return [
        Row(f"{name}: p99 / p50", spread[OURS], "", spread[FLOOR], value_under(4, "")),
        Row(f"{name}: p50", p50[OURS], "ms", p50[FLOOR]),
        Row(f"{name}: p99", p99[OURS], "ms", p99[FLOOR]),
    ]
