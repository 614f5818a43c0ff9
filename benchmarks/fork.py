"""Fork at the middle of runs of three lengths: constant time, and little more than one append. Its floor is one append of ours, made in
turns with the forks: the floor's server has no forks."""

import statistics

from benchmarks import read, sides
from benchmarks.harness import Row, interleave, ratio_at_most, row, timed_ms, value_at_most
from benchmarks.payloads import payloads
from benchmarks.sides import OurRun, Ours
from benchmarks.stage import Stage

NAME = "fork"
STANDBYS: tuple[str, ...] = ()

LENGTHS = (10, 1_000, 100_000)
APPEND = "append"


async def measure(stage: Stage) -> list[Row]:
    lengths = LENGTHS[:2] if stage.effort.quick else LENGTHS
    place = stage.topology
    with place.isoline(place.migrated_database()) as server:
        async with sides.ours(server.address) as log:
            sources = {length: await _source(log, length) for length in lengths}
            place.checkpoint()
            rounds = await interleave(
                {"all": lambda: _one_round(log, sources, stage.effort.of(40, 10))}, stage.effort.rounds
            )
    found = {what: [each[what] for each in rounds["all"]] for what in (APPEND, *lengths)}
    rows = [_row(length, found[length], found[APPEND]) for length in lengths]
    return [*rows, _flatness(found, lengths[0], lengths[-1])]


async def _source(log: Ours, length: int) -> OurRun:
    run = await read.filled_run(log, length)
    assert isinstance(run, OurRun)
    return run


async def _one_round(log: Ours, sources: dict[int, OurRun], times: int) -> dict[str | int, float]:
    """Medians of one round. Call by call in turns: an append, then a fork of each source."""
    target, (event,) = await log.new_run(), payloads(1)
    taken: dict[str | int, list[float]] = {what: [] for what in (APPEND, *sources)}
    for _ in range(times):
        taken[APPEND].append(await timed_ms(lambda: target.append([event])))
        for length, source in sources.items():
            taken[length].append(await timed_ms(lambda run=source.run, at=length // 2: run.fork(at)))
    return {what: statistics.median(each) for what, each in taken.items()}


def _row(length: int, forks_ms: list[float], appends_ms: list[float]) -> Row:
    return row(
        f"fork at the middle of {length:,} events; floor: one append", "ms", forks_ms, appends_ms, ratio_at_most(2)
    )


def _flatness(found: dict[str | int, list[float]], shortest: int, longest: int) -> Row:
    """The longest beside the shortest; over whole medians, as the rows above show them."""
    value = statistics.median(found[longest]) / statistics.median(found[shortest])
    return Row(f"fork: median of {longest:,} events / median of {shortest:,}", value, "", None, value_at_most(1.3, ""))
