"""A region's server: the real lanes, ladder and maker of runs over simulated ports, in a process that may die at any await.

What belongs here: building, calling and killing it. What does not: what is asked of it (``clients``, ``executors``).
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from isoline_server import codec
from isoline_server.domain.errors import IsolineError
from isoline_server.domain.ids import RUN_ENTROPY_BYTES, Region, RunId
from isoline_server.domain.run import Source
from isoline_server.operations.append import Lanes
from isoline_server.operations.append_replay import ReplayComparer
from isoline_server.operations.lane import Lane
from isoline_server.operations.make_run import RunMaker
from isoline_server.operations.nearby import Nearby
from isoline_server.operations.reading import Reading
from simulation.adapters import SimEffects, SimLeases, SimReader, SimWriter, replica_reader
from simulation.database import Database, Replica
from simulation.link import Link, Weather
from simulation.trace import Trace

T = TypeVar("T")

LOCAL_DEADLINE_S = 0.15
LEADER_DEADLINE_S = 1.0
_ULID_RANDOM_BITS = 80


class Unreachable(Exception):
    """No server took the call: nothing was done."""


class ConnectionLost(Exception):
    """The server went away, or its answer did: the call may have been carried out, or still be."""


class SimIds:
    """``IdSource``: the seed's."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._next_event_id = 0

    def run_entropy(self) -> bytes:
        return self._rng.randbytes(RUN_ENTROPY_BYTES)

    def event_ids(self, now_us: int, count: int) -> int:
        fresh = (now_us // 1_000) << _ULID_RANDOM_BITS | self._rng.getrandbits(_ULID_RANDOM_BITS - 1)
        first = max(fresh, self._next_event_id)
        self._next_event_id = first + count
        return first


class Process:
    """One life of a server: everything in it is gone when it dies."""

    def __init__(self, server: "Server") -> None:
        world, rng = server.world, server.world.rng
        self.links = [Link(f"{server.region}.{node}", world.weather, rng, world.trace) for node in ("leader", "local")]
        to_leader, to_local = self.links
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.writer = SimWriter(to_leader, world.database)
        leader = SimReader(to_leader, lambda: world.database.tables, source=Source.LEADER)
        local = replica_reader(to_local, world.replicas[server.region], world.weather, rng)
        older = replica_reader(to_local, world.replicas[server.region], world.weather, rng)
        self.reading = Reading(
            local=local,
            leader=leader,
            older=(older,),
            local_deadline_s=LOCAL_DEADLINE_S,
            leader_deadline_s=LEADER_DEADLINE_S,
            on_damage=lambda broken: world.trace.add(server.region, "damage", broken),
        )
        ids = SimIds(rng)
        replays = ReplayComparer(reading=self.reading, decode=codec.decode, clock=server.now_us, ids=ids)
        lanes = {
            home: [
                Lane(
                    home=home,
                    region=server.region,
                    writer=self.writer,
                    encode=codec.encode,
                    spell_v1=lambda record: record,
                    replays=replays,
                    clock=server.now_us,
                    ids=ids,
                    notify=_nobody,
                    near=Nearby(local) if world.near else None,
                )
            ]
            for home in world.regions
        }
        self.lanes = Lanes(lanes, replays)
        self.maker = RunMaker(
            writer=self.writer,
            reading=self.reading,
            lanes=self.lanes,
            homes=world.regions,
            clock=server.now_us,
            ids=ids,
        )
        self.leases = SimLeases(to_leader, world.database, rng)
        self.effects = SimEffects(to_leader, world.database)
        for task in self.lanes.start():
            self.tasks[task] = None

    def die(self) -> None:
        """Cancel everything, wherever it stands. What was sent to the database is on its way all the same."""
        for link in self.links:
            link.dead = True
        for task in list(self.tasks):
            task.cancel()


def _nobody(moved: Iterable[tuple[RunId, int]]) -> None:
    """No tail and no snapshot is simulated."""
    for _ in moved:
        pass


class Server:
    """The server of one region, through all its lives. Its clock jumps."""

    def __init__(self, world: "Premises", region: Region) -> None:
        self.world = world
        self.region = region
        self.clock_offset_us = 0
        self.process: Process | None = None

    def now_us(self) -> int:
        return self.world.epoch_us() + self.clock_offset_us

    def start(self) -> None:
        if self.process is None:
            self.process = Process(self)
            self.world.trace.add(self.region, "starts")

    def kill(self) -> None:
        if self.process is not None:
            self.world.trace.add(self.region, "dies")
            self.process.die()
            self.process = None

    async def call(self, who: str, what: str, carry_out: Callable[[Process], Coroutine[Any, Any, T]]) -> T:
        """Carry a call out in the server as it is now. Raises ``Unreachable``, ``ConnectionLost``, or what the call raises."""
        rng, weather, trace = self.world.rng, self.world.weather, self.world.trace
        await asyncio.sleep(rng.random() * weather.way_s)
        process = self.process
        if process is None:
            raise Unreachable
        task = asyncio.create_task(carry_out(process))
        process.tasks[task] = None
        try:
            await asyncio.wait([task])
        finally:
            process.tasks.pop(task, None)
            task.cancel()
        if task.cancelled():
            trace.add(who, what, f"{self.region} died")
            raise ConnectionLost
        error = task.exception()
        trace.add(who, what, task.result() if error is None else error)
        await asyncio.sleep(rng.random() * weather.way_s)
        if rng.random() < weather.told_nothing:
            trace.add(who, what, "answer lost")
            raise ConnectionLost
        if error is not None and not isinstance(error, IsolineError):
            self.world.report("defect", f"{what} raised {type(error).__name__}: {error}")
        return task.result()


class Premises:
    """What servers stand on, and what everybody shares. ``near``: the region's replica counts towards the quorum."""

    def __init__(self, *, rng: random.Random, weather: Weather, regions: tuple[Region, ...], near: bool) -> None:
        self.rng = rng
        self.weather = weather
        self.regions = regions
        self.near = near
        self.findings: list[str] = []
        self.database_offset_us = 0
        loop = asyncio.get_running_loop()
        self.trace = Trace(loop.time)
        self.now_s = loop.time
        self.database: Database
        self.replicas: dict[Region, Replica]
        self.commit_times_s: list[float] = []

    def epoch_us(self) -> int:
        """True time, as it were: where the virtual time stands behind some morning."""
        return 1_790_000_000_000_000 + int(self.now_s() * 1_000_000)

    def database_now_us(self) -> int:
        return self.epoch_us() + self.database_offset_us

    def report(self, guarantee: str, what: str) -> None:
        """A guarantee is broken."""
        self.findings.append(f"{guarantee}: {what}")
        self.trace.add("CHECK", guarantee, what)
