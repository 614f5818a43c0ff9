"""Clients that die in the middle of a stream leave nothing behind, and what they had appended is a prefix of what they sent."""

import asyncio

import pytest
from grpc import aio

from api.wire import event, events, request_id, wire_to
from isoline.v1 import log_service_pb2 as log_pb
from support.proxy import Proxy
from support.waiting import eventually


@pytest.fixture
async def dying(failing):
    """A client behind a proxy, and how it dies."""
    async with Proxy(failing.server.address) as proxy, wire_to(proxy.address) as wire:
        yield wire, proxy


@pytest.fixture(params=["cancels", "vanishes"])
def end(request, dying):
    """Ends a call from the client's side: politely, or by a lost connection."""

    def by(call):
        call.cancel() if request.param == "cancels" else dying[1].cut()

    return by


async def rests(server):
    """No tail is open, and every database connection is free."""
    hub = server._tails
    return (
        hub._streams == 0 and not hub._watched and not any(database._busy for database in server._replicas._databases)
    )


async def test_a_tail_whose_client_dies_is_forgotten(failing, dying, end):
    wire, _ = dying
    run_id = await wire.new_run(2)
    calls = [wire.tail(run_id, timeout_s=None) for _ in range(5)]
    for call in calls:
        assert (await call.read()).page.last.seq == 1
    assert failing.server._tails._streams == 5
    for call in calls:
        end(call)
    await eventually(lambda: rests(failing.server), what="the end of the tails")
    assert (await failing.other.append(run_id, event())).first_seq == 2


async def test_a_tail_that_waits_for_events_is_forgotten_too(failing, dying, end):
    wire, _ = dying
    run_id = await wire.new_run()
    call = wire.tail(run_id, timeout_s=None)
    await call.read()
    end(call)
    await eventually(lambda: rests(failing.server), what="the end of the tail")


async def test_a_read_whose_client_dies_between_pages_leaves_nothing(failing, dying, end):
    wire, _ = dying
    run_id = await wire.new_run()
    for n in range(12):
        await wire.append(run_id, event({"n": n, "filler": "x" * 900_000}))
    call = wire.call("ReadEvents", log_pb.ReadEventsRequest(run_id=run_id))
    assert (await call.read()).first_seq == 0
    end(call)
    await eventually(lambda: rests(failing.server), what="the end of the read")
    assert len((await failing.wire.read(run_id)).records) == 12


def requests_to(run_id, ids):
    async def requests():
        for n, each in enumerate(ids):
            yield log_pb.AppendStreamRequest(
                append=log_pb.AppendRequest(request_id=each, run_id=run_id, events=[event({"n": n})])
            )
        await asyncio.Event().wait()

    return requests()


async def test_what_a_dead_client_appended_is_a_prefix_of_what_it_sent(failing, dying, end):
    wire, _ = dying
    run_id, ids = await wire.new_run(), [request_id() for _ in range(300)]
    call = wire.append_stream(requests_to(run_id, ids), timeout_s=None)
    for n in range(20):
        assert (await call.read()).appended.first_seq == n
    end(call)
    await eventually(lambda: rests(failing.server), what="the end of the stream")
    landed = [each["n"] for each in (await failing.other.read(run_id)).payloads]
    assert landed == list(range(len(landed)))
    assert 20 <= len(landed) <= 300


async def test_an_idle_stream_of_appends_whose_client_dies_leaves_nothing(failing, dying, end):
    wire, _ = dying
    run_id = await wire.new_run()
    call = wire.append_stream(requests_to(run_id, [request_id()]), timeout_s=None)
    await call.read()
    await eventually(lambda: serving(failing, 1), what="the stream")
    end(call)
    await eventually(lambda: serving(failing, 0), what="the end of the stream")


async def serving(failing, many):
    """Whether so many streams of appends wait for their next request."""
    return sum(task.get_coro().__qualname__ == "Queue.get" for task in asyncio.all_tasks()) == many


async def test_a_dead_clients_stream_is_sent_again_elsewhere_and_completed(failing, dying, end):
    wire, _ = dying
    run_id, ids = await wire.new_run(), [request_id() for _ in range(100)]
    call = wire.append_stream(requests_to(run_id, ids), timeout_s=None)
    await call.read()
    end(call)
    again = failing.other.append_stream(requests_to(run_id, ids), timeout_s=20)
    assert sorted([(await again.read()).appended.first_seq for _ in ids]) == list(range(100))
    again.cancel()
    assert sorted(each["n"] for each in (await failing.other.read(run_id)).payloads) == list(range(100))


async def test_an_append_whose_client_dies_is_carried_out(failing, dying):
    wire, proxy = dying
    run_id, once = await wire.new_run(), {"request_id": request_id()}
    proxy.deaf = True
    call = asyncio.ensure_future(wire.append(run_id, *events(2), **once))

    async def landed():
        return (await failing.other.head(run_id)).seq == 1

    await eventually(landed, what="the append")
    proxy.cut()
    with pytest.raises(aio.AioRpcError):
        await call
    assert (await failing.other.append(run_id, *events(2), **once)).repeated


async def test_a_stream_that_ends_without_a_word_is_answered_to_its_end(failing):
    run_id = await failing.wire.new_run()

    async def requests():
        for n in range(10):
            yield log_pb.AppendStreamRequest(
                append=log_pb.AppendRequest(request_id=request_id(), run_id=run_id, events=[event({"n": n})])
            )

    assert [answer.appended.first_seq async for answer in failing.wire.append_stream(requests())] == list(range(10))
