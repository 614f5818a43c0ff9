"""One seed, one world: servers of several regions, clients, executors and a storm over one simulated database; and what came of it.

What belongs here: how a world is drawn from its seed, and its course. What does not: what anybody in it does.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from isoline_server.domain import limits
from isoline_server.domain.ids import Region, RunId
from isoline_server.domain.run import Freshness
from isoline_server.operations import backoff
from isoline_server.operations.read_events import ReadCommand
from simulation import virtual_loop
from simulation.clients import CLIENT_ERRORS, Client, Stage, append
from simulation.database import Commit, Conditions, Database, Replica, Tables
from simulation.executors import Executor
from simulation.history import History, Request
from simulation.link import Weather
from simulation.monitor import Monitor
from simulation.process import Premises, Server

REGIONS = (Region("eu"), Region("us"), Region("ap"))
LAST_TRIES = 2
CROWDED = 0.2
"""How many worlds there are in which everybody wants the same run at once."""
GATHERING_S = 8.0
"""How long executors and the storm go on at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What came of one seed. ``findings``: every guarantee that was broken."""

    seed: int
    findings: tuple[str, ...]
    trace: Callable[[], list[str]]
    commits: int
    acknowledged: int


Plant = Callable[[Conditions, Weather], None]
"""Turns conditions of the simulated database off."""


def simulate(seed: int, plant: Plant | None = None) -> Course:
    """Live one world from its beginning to its end."""
    rng = random.Random(seed)
    with _drawn(rng):
        return virtual_loop.run(rng, _live(seed, rng, plant))


@contextmanager
def _drawn(rng: random.Random) -> Iterator[None]:
    """What the code under test draws or is bounded by comes from the seed, too: small bounds are reached, large ones are not."""
    with (
        patch.object(backoff, "random", rng),
        patch.object(limits, "APPEND_RETRY_MAX", rng.choice((32, 32, 2, 1))),
        patch.object(limits, "LANE_APPENDS_MAX", rng.choice((limits.LANE_APPENDS_MAX, 2))),
        patch.object(limits, "PAGE_EVENTS_MAX", rng.choice((limits.PAGE_EVENTS_MAX, 2))),
    ):
        yield


def _weather(rng: random.Random) -> Weather:
    return Weather(
        refused=rng.choice((0.0, 0.02, 0.15)),
        told_nothing=rng.choice((0.0, 0.03, 0.15)),
        slow=rng.choice((0.0, 0.05, 0.2)),
        way_s=rng.choice((0.002, 0.02, 0.08)),
        damaged=rng.choice((0.0, 0.1, 0.5)),
        lag_s=rng.choice((0.0, 0.05, 0.5, 5.0)),
    )


async def _live(seed: int, rng: random.Random, plant: Plant | None) -> Course:
    regions = REGIONS[: rng.choice((2, 2, 3))]
    premises = Premises(rng=rng, weather=_weather(rng), regions=regions, near=rng.random() < 0.3)
    monitor = Monitor(premises.report)
    replicas: dict[Region, Replica] = {}

    def committed(before: Tables, commit: Commit) -> None:
        monitor(before, commit)
        premises.commit_times_s.append(premises.now_s())
        for replica in replicas.values():
            replica.heard()

    premises.database = Database(premises.database_now_us, committed)
    for region in regions:
        replicas[region] = Replica(premises.database, lambda: rng.random() * premises.weather.lag_s, premises.now_s)
    premises.replicas = replicas
    if plant is not None:
        plant(premises.database.conditions, premises.weather)
    servers = [Server(premises, region) for region in regions]
    stage = Stage(
        premises=premises,
        history=History(premises, monitor),
        servers=servers,
        runs=[],
        tokens=[],
        crowded=rng.random() < CROWDED,
    )
    premises.trace.add("world", "weather", premises.weather)
    try:
        await _course(stage)
    finally:
        premises.trace.end()
    return Course(
        seed=seed,
        findings=tuple(premises.findings),
        trace=premises.trace.lines,
        commits=len(premises.database.commits),
        acknowledged=sum(bool(request.answers) for request in stage.history.requests),
    )


async def _course(stage: Stage) -> None:
    rng = stage.premises.rng
    for server in stage.servers:
        server.start()
    clients = [Client(stage, f"client{number}") for number in range(rng.choice((1, 2, 3)))]
    steps: dict[tuple[RunId, int], Request] = {}
    executors = [Executor(stage, f"executor{number}", steps) for number in range(rng.choice((0, 2, 3)))]
    storm = asyncio.create_task(_storm(stage))
    executing = [asyncio.create_task(executor.work()) for executor in executors]
    working = [asyncio.create_task(_quietly(client.work(rng.choice((4, 8, 14))))) for client in clients]
    await asyncio.gather(*working)
    if executing:
        await asyncio.sleep(GATHERING_S)
    stage.live_executors = False
    storm.cancel()
    await asyncio.gather(*executing)
    await _clear_up(stage)
    await _ask_all_again(stage, clients[0])
    stage.history.check_all()
    for server in stage.servers:
        server.kill()
    await asyncio.sleep(1.0)


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    """A client that gives up ends early, and that is no finding."""
    try:
        await work
    except CLIENT_ERRORS:
        return


async def _storm(stage: Stage) -> None:
    """Processes die, connections are cut, clocks jump, replicas stand still; some worlds are spared."""
    premises, rng = stage.premises, stage.premises.rng
    every_s = rng.choice((1e9, 0.3, 1.0, 3.0))
    while True:
        await asyncio.sleep(rng.random() * every_s)
        server = rng.choice(stage.servers)
        for_s = rng.random() * rng.choice((0.1, 1.0, 4.0))
        match rng.randrange(6):
            case 0:
                server.kill()
                premises.trace.add(server.region, "stays down", for_s)
                asyncio.get_running_loop().call_later(for_s, server.start)
            case 1 | 2:
                if server.process is not None:
                    link = rng.choice(server.process.links)
                    link.cut_until_s = premises.now_s() + for_s
                    premises.trace.add(link.name, "is cut", for_s)
            case 3:
                server.clock_offset_us += int((rng.random() - 0.5) * 20_000_000)
                premises.trace.add(server.region, "clock jumps", server.clock_offset_us)
            case 4:
                premises.database_offset_us += int(rng.random() * 2_000_000)
                premises.trace.add("database", "clock jumps", premises.database_offset_us)
            case _:
                premises.replicas[server.region].stalled_until_s = premises.now_s() + for_s
                premises.trace.add(server.region, "replica stalls", for_s)


async def _clear_up(stage: Stage) -> None:
    """Everything is healed, and whatever is still on its way arrives."""
    stage.premises.weather.calm()
    for server in stage.servers:
        server.start()
    await asyncio.sleep(70.0)


async def _ask_all_again(stage: Stage, client: Client) -> None:
    """Every request is answered now, as it was before; and every region serves every run to its end."""
    for request in stage.history.requests:
        known = bool(request.answers)
        error = await _answered(stage, request)
        if known and error is not None:
            what = f"{request.command.request_id} was acknowledged, and its repeat is told {error!r}"
            stage.premises.report("G8", what)
    for run_id in stage.runs:
        for server in stage.servers:
            freshness = stage.premises.rng.choice((Freshness.LATEST, Freshness.LOCAL))
            command = ReadCommand(run_id=run_id, from_seq=0, until_seq=None, freshness=freshness, known=None)
            if not await client.look(server, command):
                stage.premises.report("G3", f"{run_id} is not served in {server.region} though all is well")


async def _answered(stage: Stage, request: Request) -> Exception | None:
    error: Exception | None = None
    for _ in range(LAST_TRIES):
        try:
            await append(stage, "last", request, request.command, timeouts_s=(10.0,))
            return None
        except CLIENT_ERRORS as failed:
            error = failed
    return error
