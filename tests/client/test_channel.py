import asyncio
import contextlib
import socket

import pytest
from grpc import StatusCode

from client.double import RUN_ID, Double, hang, lose, refuse
from isoline_client import (
    Client,
    ClientClosed,
    DeadlineExceeded,
    NewEvent,
    OutcomeUnknown,
    SeqConflict,
    TooManyWaiting,
    Unavailable,
    channel,
    limits,
)

EVENT = NewEvent("node.completed", {"a": 1})
BUSY = refuse(StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_WAITING", {"what": "appends", "limit": "1"})
DRAINING = refuse(StatusCode.UNAVAILABLE, "DRAINING")


@pytest.fixture
def run(client):
    return client.run(RUN_ID)


@pytest.fixture
def nowhere():
    """An address that refuses every connection."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def requests(*doubles, method="Append"):
    return [request for double in doubles for request in double.requests(method)]


async def test_a_lost_answer_is_asked_for_again_with_the_very_same_request(run, near, far, world):
    near.plan("Append", lose())
    appended = await run.append([EVENT, EVENT])
    assert (appended.first_seq, appended.last.seq, appended.repeated) == (0, 1, True)
    first, second = requests(near, far)
    assert first == second
    assert len(world.records) == 2


async def test_every_call_has_a_request_id_of_its_own(run, near):
    for _ in range(3):
        await run.append(EVENT)
    ids = {request.request_id for request in near.requests("Append")}
    assert len(ids) == 3
    assert all(len(each) >= 22 for each in ids)


@pytest.mark.parametrize("call", ["create_run", "append", "fork"])
async def test_a_request_id_of_the_caller_is_kept_over_tries(client, run, near, far, call):
    calls = {
        "create_run": ("CreateRun", lambda: client.create_run("w", request_id="the-callers-own-id")),
        "append": ("Append", lambda: run.append(EVENT, request_id="the-callers-own-id")),
        "fork": ("ForkRun", lambda: run.fork(1, request_id="the-callers-own-id")),
    }
    method, made = calls[call]
    near.plan(method, lose())
    far.plan(method, DRAINING)
    await made()
    assert [each.request_id for each in requests(near, far, method=method)] == ["the-callers-own-id"] * 3


async def test_the_preferred_server_is_asked_first_and_the_next_one_when_it_drains(run, near, far):
    await run.append(EVENT)
    assert (len(requests(near)), len(requests(far))) == (1, 0)
    near.plan("Append", DRAINING)
    await run.append(EVENT)
    assert (len(requests(near)), len(requests(far))) == (2, 1)


async def test_the_server_that_answered_is_remembered(run, near, far):
    near.plan("Append", DRAINING)
    for _ in range(3):
        await run.append(EVENT)
    assert (len(requests(near)), len(requests(far))) == (1, 3)


async def test_the_preferred_server_is_preferred_again_once_it_is_back(run, near, far, until, monkeypatch):
    monkeypatch.setattr(limits, "REST_S", 0.05)
    await near.stop()
    await run.append(EVENT)
    await near.start()
    while not requests(near):
        await run.append(EVENT)
    before = len(requests(far))
    await run.append(EVENT)
    assert len(requests(far)) == before


async def test_coming_back_costs_no_call_a_failed_try(run, near, far, monkeypatch):
    monkeypatch.setattr(limits, "REST_S", 0.0)
    await near.stop()
    for _ in range(5):
        await run.append(EVENT)
    assert len(requests(far)) == 5


async def test_a_refused_connection_sends_the_call_to_the_next_server(nowhere, near):
    async with Client([nowhere, near.address], timeout_s=5) as client:
        assert (await client.run(RUN_ID).append(EVENT)).first_seq == 0


async def test_a_server_that_accepts_but_never_speaks_is_given_up(near, monkeypatch):
    async def silent(reader, writer):
        with contextlib.closing(writer):
            await reader.read()

    quick = [(name, 200 if name == "grpc.min_reconnect_backoff_ms" else value) for name, value in channel._OPTIONS]
    monkeypatch.setattr(channel, "_OPTIONS", tuple(quick))
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server, Client([f"127.0.0.1:{server.sockets[0].getsockname()[1]}", near.address]) as client:
        assert (await client.run(RUN_ID).append(EVENT, timeout_s=8)).first_seq == 0


async def test_a_hanging_server_leaves_time_for_another(near, far, world):
    near.plan("Append", hang())
    async with Client([near.address, far.address], timeout_s=2.5) as client:
        assert (await client.run(RUN_ID).append(EVENT)).repeated
    assert len(world.records) == 1


async def test_a_full_server_is_asked_again_rather_than_another(run, near, far):
    near.plan("Append", BUSY, BUSY)
    await run.append(EVENT)
    assert (len(requests(near)), len(requests(far))) == (3, 0)


async def test_a_server_that_stays_full_is_reported_as_such(run, near):
    near.plan("Append", *[BUSY] * 20)
    with pytest.raises(TooManyWaiting):
        await run.append(EVENT, timeout_s=0.3)


async def test_a_final_answer_is_not_tried_again(run, near, far):
    with pytest.raises(SeqConflict) as conflict:
        await run.append(EVENT, expected_seq=5)
    assert (conflict.value.expected_seq, conflict.value.actual_seq) == (5, 0)
    assert len(requests(near, far)) == 1


async def test_no_answer_in_time_leaves_a_change_unknown_and_the_same_id_tells_later(run, near, far, world):
    near.plan("Append", hang())
    far.plan("Append", *[hang()] * 9)
    with pytest.raises(OutcomeUnknown) as unknown:
        await run.append(EVENT, timeout_s=0.2)
    near.plan("Append")
    assert (await run.append(EVENT, request_id=unknown.value.request_id)).repeated
    assert len(world.records) == 1


async def test_no_answer_in_time_to_a_read_is_just_that(run, near):
    near.plan("GetRun", hang())
    with pytest.raises(DeadlineExceeded):
        await run.info(timeout_s=0.2)


async def test_a_change_that_reached_no_server_is_unavailable_not_unknown(nowhere):
    async with Client(nowhere, timeout_s=0.3) as client:
        with pytest.raises(Unavailable):
            await client.run(RUN_ID).append(EVENT)


async def test_a_restarted_server_is_found_again(near, until):
    async with Client(near.address, timeout_s=10) as client:
        await client.run(RUN_ID).append(EVENT)
        await near.stop()
        appending = asyncio.create_task(client.run(RUN_ID).append(EVENT))
        await asyncio.sleep(0)
        await near.start()
        assert (await appending).first_seq == 1


async def test_the_key_goes_with_every_call(near):
    async with Client(near.address, api_key="secret") as client:
        await client.run(RUN_ID).append(EVENT)
        assert [event async for event in client.run(RUN_ID).read()]
    assert [each["authorization"] for each in near.metadata] == ["Bearer secret"] * 2


async def test_a_closed_client_says_so(near, until):
    client = Client(near.address)
    near.plan("Append", hang())
    appending = asyncio.create_task(client.run(RUN_ID).append(EVENT))
    await until(lambda: requests(near))
    await client.close()
    with pytest.raises(ClientClosed):
        await appending
    with pytest.raises(ClientClosed):
        await client.run(RUN_ID).append(EVENT)


async def test_a_cancelled_call_is_cancelled(run, near, until):
    near.plan("Append", hang())
    appending = asyncio.create_task(run.append(EVENT))
    await until(lambda: requests(near))
    appending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await appending


def test_a_client_needs_an_address():
    with pytest.raises(ValueError, match="address"):
        Client([])


async def test_two_regions_are_one_service(run, near, far, world):
    await run.append(EVENT)
    await near.stop()
    await run.append(EVENT)
    assert [event.seq async for event in run.read()] == [0, 1]
    assert isinstance(far, Double)
