"""G9: success means committed. Kill a server, the database or a region at any instant: nothing acknowledged is lost, nothing appears twice,
and there is no gap."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import grpc
import pytest
from grpc import aio

from api.wire import Wire, event, events, refusal_of, request_id, wire_to
from guarantees.conftest import serve
from isoline.v1 import common_pb2 as pb
from isoline_server.embedded import EmbeddedCluster
from support.databases import Databases
from support.proxy import Proxy
from support.servers import ServerProcess
from support.waiting import eventually

LATER = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}


@dataclass
class Engine:
    """Appends one event after the other through any of its servers, each until it is acknowledged, as a careful client does."""

    name: str
    wires: list[Wire]
    run_id: str
    acknowledged: dict[int, int] = field(default_factory=dict)
    """Seq by counter."""

    async def write(self, enough):
        while not enough():
            counter = len(self.acknowledged) + 1
            new = event({"engine": self.name, "counter": counter})
            again = {"request_id": request_id(), "engine": self.name, "engine_seq": counter}
            self.acknowledged[counter] = await self._until_told(new, again)

    async def _until_told(self, new, again):
        while True:
            for wire in self.wires:
                try:
                    return (await wire.append(self.run_id, new, timeout_s=5, **again)).first_seq
                except aio.AioRpcError as error:
                    if error.code() not in LATER and refusal_of(error).reason != "HEAD_CONTENDED":
                        raise
            await asyncio.sleep(0)


async def keep_writing(engines, many):
    """Let every engine write until all have ``many`` acknowledged."""
    await asyncio.gather(*(engine.write(lambda engine=engine: len(engine.acknowledged) >= many) for engine in engines))


async def assert_whole(wire, run_id, engines):
    """Every acknowledged event stands where it was said to, once, and nothing else does."""
    log = await wire.read(run_id)
    stands = [(each["engine"], each["counter"]) for each in log.payloads]
    assert len(stands) == len(set(stands)) == log.last.seq + 1
    for engine in engines:
        assert {counter: stands.index((engine.name, counter)) for counter in engine.acknowledged} == engine.acknowledged
    assert len(stands) == sum(len(engine.acknowledged) for engine in engines)


async def reached(engines, many):
    async def enough():
        return all(len(engine.acknowledged) >= many for engine in engines)

    await eventually(enough, what=f"{many} appends of every engine")


# -- a server that dies --------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def a_process_and_a_server(databases):
    """Region ``eu`` as a process to kill, and ``us`` in this process over the same database."""
    url = databases.cluster.primary.url(database=databases.create())
    process = ServerProcess(url, {"eu": url, "us": None}, "eu")
    try:
        await asyncio.to_thread(process.start)
        async with AsyncExitStack() as stack:
            regions = await serve(stack, url, {"us": url, "eu": None}, {"us": "us"})
            yield process, regions["us"]
    finally:
        process.close()


@dataclass
class Lost:
    """Calls whose answers were lost with the server, and what a repeat elsewhere said."""

    wire: Wire
    run_id: str
    appended: object = None
    made: object = None
    forked: object = None


@pytest.fixture(scope="module")
async def lost(databases: Databases):
    """An append, a create and a fork that were committed by a server that was killed before it answered."""
    async with a_process_and_a_server(databases) as (process, other):
        run_id = await other.new_run(3, workflow_id="before")
        async with Proxy(process.address) as proxy, wire_to(proxy.address) as wire:
            await wire.get(run_id)
            proxy.deaf = True
            ids = [request_id() for _ in range(3)]
            calls = [
                asyncio.ensure_future(wire.append(run_id, *events(2), request_id=ids[0], expected_seq=3)),
                asyncio.ensure_future(wire.create(request_id=ids[1], workflow_id="lost")),
                asyncio.ensure_future(wire.fork(run_id, 2, request_id=ids[2])),
            ]
            await eventually(lambda: committed(other, run_id), what="the three commits")
            process.kill()
            proxy.cut()
            told = await asyncio.gather(*calls, return_exceptions=True)
            assert [error.code() for error in told] == [grpc.StatusCode.UNAVAILABLE] * 3
        yield Lost(
            other,
            run_id,
            await other.append(run_id, *events(2), request_id=ids[0], expected_seq=3),
            await other.create(request_id=ids[1], workflow_id="lost"),
            await other.fork(run_id, 2, request_id=ids[2]),
        )


async def committed(wire, run_id):
    runs = (await wire.list()).runs
    forks = [run for run in runs if run.HasField("fork")]
    return forks and any(run.workflow_id == "lost" for run in runs) and (await wire.head(run_id)).seq == 4


@pytest.mark.e2e
async def test_g9_an_append_of_a_killed_server_is_repeated_elsewhere_with_its_first_outcome(lost):
    assert (lost.appended.repeated, lost.appended.first_seq, lost.appended.last.seq) == (True, 3, 4)
    assert len((await lost.wire.read(lost.run_id)).records) == 5


@pytest.mark.e2e
async def test_g9_a_create_of_a_killed_server_is_repeated_elsewhere_with_its_first_outcome(lost):
    assert lost.made.repeated
    assert [run.run_id for run in (await lost.wire.list(workflow_id="lost")).runs] == [lost.made.run.run_id]


@pytest.mark.e2e
async def test_g9_a_fork_of_a_killed_server_is_repeated_elsewhere_with_its_first_outcome(lost):
    assert (lost.forked.repeated, lost.forked.run.head.seq) == (True, 1)
    forks = [run.run_id for run in (await lost.wire.list(workflow_id="before")).runs if run.HasField("fork")]
    assert forks == [lost.forked.run.run_id]


@pytest.mark.e2e
async def test_g9_a_server_killed_under_load_loses_nothing(databases):
    async with a_process_and_a_server(databases) as (process, other), wire_to(process.address) as dying:
        run_id = await other.new_run()
        engines = [Engine(f"e{n}", [dying, other], run_id) for n in range(3)]
        writing = asyncio.ensure_future(keep_writing(engines, 40))
        await reached(engines, 15)
        process.kill()
        await writing
        await assert_whole(other, run_id, engines)


# -- a database that dies ------------------------------------------------------------------------------------------------------------


@dataclass
class Mortal:
    """Two servers over a database of their own."""

    cluster: EmbeddedCluster
    wires: list[Wire]
    servers: list[object]

    async def restart(self):
        """The database dies by SIGKILL and comes back."""
        await asyncio.to_thread(self.cluster.kill, "primary")
        await asyncio.to_thread(self.cluster.restart, "primary")


@pytest.fixture(scope="module")
async def mortal():
    with EmbeddedCluster(None, durable=False) as cluster:
        databases = Databases(cluster)
        databases.prepare()
        url = cluster.primary.url(database=databases.create())
        async with AsyncExitStack() as stack:
            regions = await serve(stack, url, {"eu": url, "us": None})
            yield Mortal(cluster, list(regions.wires.values()), list(regions.servers.values()))


async def test_g9_a_database_killed_under_load_loses_nothing(mortal):
    run_id = await mortal.wires[0].new_run()
    engines = [Engine(f"e{n}", mortal.wires[n % 2 :] + mortal.wires[: n % 2], run_id) for n in range(4)]
    writing = asyncio.ensure_future(keep_writing(engines, 60))
    for acknowledged in (10, 30):
        await reached(engines, acknowledged)
        await mortal.restart()
    await writing
    await assert_whole(mortal.wires[0], run_id, engines)


async def test_g9_what_was_acknowledged_right_before_a_kill_is_there_after_it(mortal):
    run_id = await mortal.wires[0].new_run()
    acknowledged = (await mortal.wires[0].append(run_id, *events(3))).last
    await mortal.restart()
    await eventually(lambda: readable(mortal.wires[1], run_id), what="the database")
    assert (await mortal.wires[1].read(run_id)).last == acknowledged


async def test_g9_reads_outlive_the_connections_that_died_with_the_database(mortal):
    run_id = await mortal.wires[0].new_run(3)
    await asyncio.gather(*(mortal.wires[0].read(run_id) for _ in range(8)))
    await mortal.restart()
    logs = await asyncio.gather(*(mortal.wires[0].read(run_id) for _ in range(8)))
    assert {log.last.seq for log in logs} == {2}


async def readable(wire, run_id):
    try:
        return await wire.read(run_id)
    except aio.AioRpcError as error:
        if error.code() not in LATER:
            raise
        return None


async def test_g9_creates_and_forks_under_way_when_the_database_dies_happen_once(mortal):
    source = await mortal.wires[0].new_run(5, workflow_id="under-way")
    ids = [request_id() for _ in range(10)]

    async def until_told(call):
        while True:
            try:
                return await call()
            except aio.AioRpcError as error:
                if error.code() not in LATER:
                    raise
                await asyncio.sleep(0)

    calls = [
        until_told(lambda i=i, n=n: mortal.wires[n % 2].fork(source, 3, request_id=i, timeout_s=10))
        for n, i in enumerate(ids)
    ]
    calls += [
        until_told(lambda i=i, n=n: mortal.wires[n % 2].create(request_id=i, workflow_id="under-way", timeout_s=10))
        for n, i in enumerate(ids)
    ]
    made, _ = await asyncio.gather(asyncio.gather(*calls), mortal.restart())
    listed = await eventually(lambda: listing(mortal.wires[0]), what="the list")
    assert {run.run_id for run in listed} == {answer.run.run_id for answer in made} | {source}
    assert len(listed) == 21


async def listing(wire):
    try:
        return (await wire.list(workflow_id="under-way", page_size=100)).runs
    except aio.AioRpcError:
        return None


async def test_g9_a_tail_goes_on_across_a_restart_of_the_database(mortal):
    run_id = await mortal.wires[0].new_run(2)
    seen = []

    async def follow():
        """As the client does: resume by seq whenever the stream ends as unavailable."""
        while len(seen) < 5:
            try:
                async for step in mortal.wires[0].tail(run_id, len(seen), timeout_s=60):
                    seen.extend(step.page.records)
                    if len(seen) >= 5:
                        return
            except aio.AioRpcError as error:
                if error.code() not in LATER:
                    raise
                await asyncio.sleep(0)

    following = asyncio.ensure_future(follow())
    await eventually(lambda: has(seen, 2), what="the first events")
    await mortal.restart()
    await eventually(lambda: readable(mortal.wires[1], run_id), what="the database")
    await mortal.wires[1].append(run_id, *events(3))
    await following
    assert seen == (await mortal.wires[1].read(run_id)).records


async def has(seen, many):
    return len(seen) >= many


# -- a region that dies --------------------------------------------------------------------------------------------------------------


@pytest.mark.topology
async def test_g9_a_region_lost_under_load_stops_no_writer_and_loses_nothing(world):
    run_id = await world["eu"].new_run()
    engines = [Engine(f"e{n}", [world["eu"]], run_id) for n in range(2)]
    writing = asyncio.ensure_future(keep_writing(engines, 40))
    await reached(engines, 10)
    await asyncio.to_thread(world.cluster.kill, "us")
    await writing
    await assert_whole(world["ap"], run_id, engines)


@pytest.mark.topology
async def test_g9_a_region_that_comes_back_holds_everything(world):
    run_id = await world["eu"].new_run(5)
    await asyncio.to_thread(world.cluster.kill, "us")
    last = (await world["eu"].append(run_id, *events(5))).last
    await asyncio.to_thread(world.cluster.restart, "us")
    world.caught_up()

    async def local():
        log = await world["us"].read(run_id, freshness=pb.FRESHNESS_LOCAL)
        return log if set(log.sources) == {"LOCAL"} else None

    assert (await eventually(local, what="a local read")).last == last
