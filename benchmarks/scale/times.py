"""How long calls take on what is loaded: each kind in turns with the others, medians and 99th percentiles of the calls of all rounds."""

import random
import statistics
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import isoline_client
from benchmarks.harness import quantile, timed_ms
from benchmarks.payloads import EVENT_TYPE, payloads
from benchmarks.scale.load import EVENTS_A_RUN, WORKFLOW, copy_id
from benchmarks.topology import HOME, Topology
from isoline_server.domain.ids import Region
from isoline_server.store.sql_reader import head_seqs_sql

WATCHED = 1_000
PAGE_EVENTS = 1_000
LEASE_MS = 600_000
RARE_WORKFLOW = "list, a workflow of one run"
SELDOM = frozenset({RARE_WORKFLOW})
"""Measured in every tenth round: it takes long where there is much."""


@dataclass(frozen=True)
class Timed:
    """Milliseconds of one kind of call."""

    median_ms: float
    p99_ms: float
    calls: int


@dataclass(frozen=True)
class Loaded:
    """What is in the database: the seeds, how many copies of each, and one long run."""

    seeds: tuple[str, ...]
    copies: int
    long_run: str
    long_events: int


class Picker:
    """Runs at random, by arithmetic: no query that would warm what is measured."""

    def __init__(self, loaded: Loaded, seed: int) -> None:
        self._loaded = loaded
        self._dice = random.Random(seed)

    def run_id(self) -> str:
        number = self._dice.randint(0, self._loaded.copies)
        seed = self._dice.choice(self._loaded.seeds)
        return copy_id(seed, number) if number else seed

    def seq(self, below: int) -> int:
        return self._dice.randrange(below)


async def measure(
    place: Topology, database: str, client: isoline_client.Client, loaded: Loaded, rounds: int
) -> dict[str, Timed]:
    """Every kind once a round, in an order that the dice give; the first ten rounds warm up."""
    picker = Picker(loaded, seed=loaded.copies)
    kinds = await _kinds(client, loaded, picker)
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    order = list(kinds)
    for number in range(-10, rounds):
        random.Random(number).shuffle(order)
        for name in order:
            if name in SELDOM and number % 10:
                continue
            ms = await timed_ms(kinds[name])
            if number >= 0:
                taken[name].append(ms)
    taken["poll of 1,000 watched heads (SQL)"] = await _polls(place, database, picker, max(5, rounds // 10))
    return {name: Timed(statistics.median(each), quantile(each, 0.99), len(each)) for name, each in taken.items()}


async def _kinds(
    client: isoline_client.Client, loaded: Loaded, picker: Picker
) -> dict[str, Callable[[], Awaitable[object]]]:
    event = isoline_client.NewEvent(EVENT_TYPE, payloads(1)[0])
    hot = await client.create_run("hot")
    long = client.run(loaded.long_run)

    async def read(run: isoline_client.Run, first: int, until: int | None) -> None:
        if not [True async for _ in run.read(first, until)]:
            raise RuntimeError("a read brought nothing")

    async def first_page(workflow_id: str) -> None:
        left = 50
        async for _ in client.list_runs(workflow_id):
            left -= 1
            if not left:
                return

    def page() -> Awaitable[object]:
        first = picker.seq(loaded.long_events - PAGE_EVENTS)
        return read(long, first, first + PAGE_EVENTS)

    return {
        "append to one hot run": lambda: hot.append([event]),
        "append to a random old run": lambda: client.run(picker.run_id()).append([event]),
        "read a random run (10 events)": lambda: read(client.run(picker.run_id()), 0, EVENTS_A_RUN),
        "read 1,000 events of the long run": page,
        "fork a random run": lambda: client.run(picker.run_id()).fork(EVENTS_A_RUN // 2),
        "state of a random run": lambda: client.run(picker.run_id()).state(),
        "state of the long run at a random seq": lambda: long.state(picker.seq(loaded.long_events)),
        "list, first page of all": lambda: first_page(""),
        "list, first page of the common workflow": lambda: first_page(WORKFLOW),
        RARE_WORKFLOW: lambda: first_page("long"),
    }


async def _polls(place: Topology, database: str, picker: Picker, times: int) -> list[float]:
    """The statement of the tails' poll, each time for other runs."""
    sql = head_seqs_sql(Region(HOME))
    taken = []
    for _ in range(times):
        ids = "ARRAY[" + ",".join(f"'{picker.run_id()}'" for _ in range(WATCHED)) + "]"
        query = sql.replace("%(run_ids)s", ids)

        async def poll(query: str = query) -> None:
            place.execute(database, query)

        taken.append(await timed_ms(poll))
    return taken


async def claims(
    place: Topology, database: str, client: isoline_client.Client, waiting: int, times: int
) -> dict[str, Timed]:
    """Claims of one run: with so many due, behind so many that others lease, and behind so many of another workflow."""
    found: dict[str, Timed] = {}
    for name, change in (
        ("due", ""),
        (
            "leased by others before it",
            ", lease_owner = 'other', lease_expires_at = now() + INTERVAL '1 hour', lease_epoch = 1",
        ),
        ("due of another workflow before it", ", workflow_id = 'other'"),
    ):
        place.execute(database, _WAIT.format(change=change, waiting=waiting, age="1 hour"))
        if change:
            place.execute(database, _WAIT.format(change="", waiting=times + 10, age="1 minute"))
        place.execute(database, "ANALYZE runs")
        taken = [
            await timed_ms(lambda: client.execution().claim([WORKFLOW], owner="bench", lease_ttl_ms=LEASE_MS))
            for _ in range(times)
        ]
        found[f"claim, {waiting:,} {name}"] = Timed(statistics.median(taken), quantile(taken, 0.99), len(taken))
        place.execute(database, _CALM)
    return found


_WAIT = """
UPDATE runs SET executed = true, wake_at = now() - INTERVAL '{age}'{change}
 WHERE region = 'eu' AND run_id IN (SELECT run_id FROM runs WHERE workflow_id = 'bench' AND wake_at IS NULL LIMIT {waiting})"""
_CALM = """
UPDATE runs SET executed = false, wake_at = NULL, lease_owner = NULL, lease_expires_at = NULL,
       workflow_id = CASE workflow_id WHEN 'other' THEN 'bench' ELSE workflow_id END WHERE wake_at IS NOT NULL"""


async def wal_per_append(
    place: Topology, database: str, client: isoline_client.Client, loaded: Loaded, appends: int
) -> dict[str, float]:
    """WAL bytes of an append of one event: to one run, and to random ones (each of which changes pages that nobody changed lately)."""
    event = isoline_client.NewEvent(EVENT_TYPE, payloads(1)[0])
    hot = await client.create_run("hot")
    picker = Picker(loaded, seed=-1 - loaded.copies)
    found: dict[str, float] = {}
    for name in ("hot", "random"):
        place.checkpoint()
        before = _wal_bytes(place, database)
        for _ in range(appends):
            run = hot if name == "hot" else client.run(picker.run_id())
            await run.append([event])
        found[name] = (_wal_bytes(place, database) - before) / appends
    return found


def _wal_bytes(place: Topology, database: str) -> int:
    return int(str(place.execute(database, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::BIGINT")[0][0]))
