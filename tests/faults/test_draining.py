"""A server that is told to end finishes what is under way, sends its followers elsewhere, and is gone in order."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from api.wire import event, events, refused, request_id, wire_to
from faults.holding import writes_held_back
from isoline.v1 import log_service_pb2 as log_pb
from support.databases import Databases
from support.servers import ServerProcess, settings_for, start_region


@dataclass
class Ended:
    """What clients of a process were told while it was ended by SIGTERM, and how it ended."""

    append: Any
    tail: Any
    exit_code: int
    log: str


@pytest.fixture(scope="module")
async def ended(databases: Databases):
    """A process that is told to end while an append is held back in the database and a tail is open."""
    url = databases.cluster.primary.url(database=databases.create())
    process = ServerProcess(url, {"eu": url}, "eu")
    try:
        await asyncio.to_thread(process.start)
        async with wire_to(process.address) as wire:
            run_id = await wire.new_run(1)
            tail = wire.tail(run_id)
            await tail.read()
            async with writes_held_back(url) as blocked:
                append = asyncio.ensure_future(wire.append(run_id, *events(2)))
                await blocked(1)
                ending = asyncio.ensure_future(asyncio.to_thread(process.terminate))
                told = await refused(tail.read())
            yield Ended(await append, told, await ending, process.log.read_text())
    finally:
        process.close()


@pytest.mark.e2e
def test_an_append_under_way_is_finished_when_its_server_is_told_to_end(ended):
    assert (ended.append.first_seq, ended.append.last.seq) == (1, 2)


@pytest.mark.e2e
def test_a_tail_is_told_that_its_server_drains(ended):
    assert (ended.tail.code.name, ended.tail.reason, ended.tail.metadata["retryable"]) == (
        "UNAVAILABLE",
        "DRAINING",
        "true",
    )


@pytest.mark.e2e
def test_a_server_that_drained_ends_well(ended):
    assert ended.exit_code == 0
    assert "Traceback" not in ended.log
    assert "never retrieved" not in ended.log


@pytest.fixture
async def mine(pg_url):
    """A server to stop, its stubs, and its database."""
    server = await start_region(settings_for(pg_url, {"eu": pg_url}, drain_grace_s=5.0), "eu")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.stop)
        yield server, await stack.enter_async_context(wire_to(server.address)), pg_url


async def test_appends_of_an_open_stream_are_answered_while_the_server_drains(mine):
    server, wire, url = mine
    run_id, done = await wire.new_run(), asyncio.Event()

    async def requests():
        for n in range(20):
            yield log_pb.AppendStreamRequest(
                append=log_pb.AppendRequest(request_id=request_id(), run_id=run_id, events=[event({"n": n})])
            )
        await done.wait()

    async with writes_held_back(url) as blocked:
        stream = wire.append_stream(requests())
        await blocked(1)
        stopping = asyncio.ensure_future(server.stop())
    assert [(await stream.read()).appended.first_seq for _ in range(20)] == list(range(20))
    done.set()
    await stopping


async def test_an_idle_stream_is_cut_when_the_grace_is_over_and_leaves_nothing(pg_url):
    server = await start_region(settings_for(pg_url, {"eu": pg_url}, drain_grace_s=0.1), "eu")
    async with wire_to(server.address) as wire:
        run_id, never = await wire.new_run(), asyncio.Event()

        async def requests():
            yield log_pb.AppendStreamRequest(
                append=log_pb.AppendRequest(request_id=request_id(), run_id=run_id, events=[event()])
            )
            await never.wait()

        stream = wire.append_stream(requests())
        await stream.read()
        await server.stop()
        assert (await refused(stream.read())).code.name in {"UNAVAILABLE", "CANCELLED"}


async def test_a_server_that_has_stopped_takes_no_call(mine):
    server, wire, _ = mine
    run_id = await wire.new_run()
    await server.stop()
    assert (await refused(wire.append(run_id, event(), timeout_s=1))).code.name in {"UNAVAILABLE", "DEADLINE_EXCEEDED"}


async def test_a_tail_that_comes_while_the_server_drains_is_sent_elsewhere(mine):
    server, wire, _ = mine
    run_id = await wire.new_run(1)
    server._tails.close()
    told = await refused(read_all(wire.tail(run_id)))
    assert (told.code.name, told.reason) == ("UNAVAILABLE", "DRAINING")


async def read_all(stream):
    return [step async for step in stream]


async def test_stopping_twice_is_harmless(mine):
    server, _, _ = mine
    await server.stop()
