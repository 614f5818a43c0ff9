"""How much disk 1,000 events of 256 B take, tables and indexes together, beside what their payloads alone would: in one database by hundreds,
in another one by one, where every event pays for a receipt of its own."""

from benchmarks import sides
from benchmarks.harness import Row, value_at_most
from benchmarks.payloads import EVENT_BYTES, payloads
from benchmarks.sides import Log
from benchmarks.stage import FLOOR, Stage

NAME = "disk"
STANDBYS: tuple[str, ...] = ()

EVENTS = 1_000
BOUND = 3
SIZE = """
SELECT sum(pg_total_relation_size(c.oid))::BIGINT FROM pg_class AS c
 WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace"""


async def measure(stage: Stage) -> list[Row]:
    return [await _row(stage, 100, bound=True), await _row(stage, 1, bound=False)]


async def _row(stage: Stage, events_a_call: int, *, bound: bool) -> Row:
    place = stage.topology
    ours, floor = place.migrated_database(), place.new_database()
    with place.isoline(ours) as server:
        async with sides.ours(server.address) as log:
            value = await _growth(stage, ours, log, events_a_call)
    with place.floor(floor, FLOOR) as server:
        async with sides.floor(server.address, place.generated) as log:
            beside = await _growth(stage, floor, log, events_a_call)
    target = value_at_most(BOUND, "x the payload") if bound else None
    name = f"disk for {EVENTS:,} events of {EVENT_BYTES} B, {events_a_call} a call, indexes included"
    return Row(name, value, "x the payload", beside, target)


async def _growth(stage: Stage, database: str, log: Log, events_a_call: int) -> float:
    """What the events added to the database, as a multiple of their payloads."""
    before = _size(stage, database)
    run = await log.new_run()
    for start in range(0, EVENTS, events_a_call):
        await run.append(payloads(events_a_call, seed=start))
    return (_size(stage, database) - before) / (EVENTS * EVENT_BYTES)


def _size(stage: Stage, database: str) -> int:
    ((size,),) = stage.topology.execute(database, SIZE)
    return int(str(size))
