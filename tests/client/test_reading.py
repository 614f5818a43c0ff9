import asyncio
import random
from contextlib import aclosing

import pytest
from grpc import StatusCode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client.double import RUN_ID, alter, hang, refuse
from isoline_client import Client, NewEvent, Position, PrefixMismatch, Unavailable, VerificationFailed, limits

EVENT = NewEvent("node.completed", {"a": 1})


@pytest.fixture
def run(client):
    return client.run(RUN_ID)


async def take(events, count):
    async with aclosing(events):
        return [await anext(events) for _ in range(count)]


async def seqs(events):
    return [event.seq async for event in events]


async def test_a_range_is_half_open(run, world):
    world.fill(10)
    assert await seqs(run.read()) == list(range(10))
    assert await seqs(run.read(2, 7)) == [2, 3, 4, 5, 6]
    assert await seqs(run.read(4, 4)) == []


async def test_pages_stand_between_two_positions(run, world):
    world.fill(5)
    first, second = [page async for page in run.read_pages()]
    assert (first.before.seq, len(first), second.first_seq, second.last.seq) == (-1, 3, 3, 4)
    assert (first.last, first.source) == (second.before, "local")
    assert [event.seq for event in second.events] == [3, 4]


async def test_every_event_is_a_position_to_go_on_from(run, world):
    world.fill(8)
    third = (await take(run.read(), 3))[-1]
    assert third.position == Position(2, world.digests[2])
    assert await seqs(run.read(3, known=third.position)) == [3, 4, 5, 6, 7]


async def test_a_read_goes_on_where_a_server_broke_off(run, near, far, world):
    world.fill(20)
    near.cut_streams_after(2)
    far.cut_streams_after(1)
    assert await seqs(run.read(0, 20)) == list(range(20))
    asked = near.requests("ReadEvents") + far.requests("ReadEvents")
    assert {(each.from_seq, each.known.seq) for each in asked} >= {(0, 0), (6, 5)}


@pytest.mark.parametrize("position", ["before", "last"])
async def test_a_server_that_lies_about_a_digest_is_found_out(run, world, monkeypatch, position):
    world.fill(6)
    page = world.page

    def lie(*args):
        lying = page(*args)
        getattr(lying, position).digest = b"x" * 32
        return lying

    monkeypatch.setattr(world, "page", lie)
    with pytest.raises(VerificationFailed):
        await seqs(run.read())


async def test_a_changed_record_is_found_before_its_page_is_handed_out(run, world):
    world.fill(9)
    world.records[4] = world.records[3]
    events = run.read()
    assert [(await anext(events)).seq for _ in range(3)] == [0, 1, 2]
    with pytest.raises(VerificationFailed, match="seq 5: the records do not have"):
        await anext(events)


async def test_verification_can_be_switched_off_and_only_explicitly(near, world):
    world.fill(9)
    world.records[4] = world.records[3]
    async with Client(near.address, verify=False) as client:
        events = [event async for event in client.run(RUN_ID).read()]
    assert [event.seq for event in events] == list(range(9))
    assert events[0].position is None


async def test_a_position_of_another_run_ends_the_read(run, near, world):
    world.fill(5)
    with pytest.raises(VerificationFailed, match="extends another prefix"):
        await seqs(run.read(2, known=Position(1, b"x" * 32)))
    near.plan("ReadEvents", refuse(StatusCode.FAILED_PRECONDITION, "PREFIX_MISMATCH", {"seq": "1"}))
    with pytest.raises(PrefixMismatch):
        await seqs(run.read(2, known=Position(1, b"x" * 32)))


async def test_a_server_that_stops_early_is_not_believed(run, world):
    world.fill(5)
    with pytest.raises(VerificationFailed, match="ended early"):
        await seqs(run.read(0, 9))


async def test_a_tail_goes_on_live(run, world):
    world.fill(4)
    tail = run.tail()
    async with aclosing(tail):
        assert [(await anext(tail)).seq for _ in range(4)] == [0, 1, 2, 3]
        world.fill(2)
        assert [(await anext(tail)).seq for _ in range(2)] == [4, 5]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
async def test_a_tail_has_no_gap_and_no_duplicate_wherever_streams_are_cut(near, far, world, monkeypatch, seed):
    monkeypatch.setattr(limits, "PAUSE_FIRST_S", 0.001)
    dice = random.Random(seed)
    for double in (near, far):
        double.cut_streams_after(*(dice.randrange(4) for _ in range(6)))
    start, count = len(world.records), dice.randrange(1, 30)

    async def write():
        for _ in range(count):
            world.fill(dice.randrange(1, 4))
            await asyncio.sleep(0)

    writing = asyncio.create_task(write())
    async with Client([near.address, far.address], timeout_s=5) as client:
        events = await take(client.run(RUN_ID).tail(start), count)
    await writing
    assert [event.seq for event in events] == list(range(start, start + count))
    assert [event.record for event in events] == world.records[start : start + count]


async def test_a_tail_survives_the_restart_of_its_only_server(near, world):
    world.fill(4)
    async with Client(near.address) as client:
        tail = client.run(RUN_ID).tail()
        async with aclosing(tail):
            await anext(tail)
            await near.stop()
            world.fill(4)
            await near.start()
            assert [(await anext(tail)).seq for _ in range(7)] == [1, 2, 3, 4, 5, 6, 7]
    again = near.requests("TailEvents")[-1]
    assert again.known == world.position(again.from_seq - 1)


async def test_a_tail_moves_to_the_other_region_and_back(run, near, far, world, monkeypatch, until):
    monkeypatch.setattr(limits, "REST_S", 0.05)
    world.fill(1)
    tail = run.tail()
    async with aclosing(tail):
        await anext(tail)
        moving = asyncio.ensure_future(anext(tail))
        await near.stop()
        await until(lambda: far.requests("TailEvents"))
        await near.start()
        await until(lambda: len(near.requests("TailEvents")) == 2)
        world.fill(1)
        assert (await moving).seq == 1


async def test_a_silent_server_is_left_for_another(run, near, far, world, monkeypatch):
    monkeypatch.setattr(limits, "TAIL_SILENCE_S", 0.1)
    world.fill(1)
    near.plan("TailEvents", hang())
    assert [event.seq for event in await take(run.tail(), 1)] == [0]
    assert far.requests("TailEvents")


async def test_heartbeats_keep_a_quiet_tail_open(run, near, world, monkeypatch, until):
    monkeypatch.setattr(limits, "TAIL_SILENCE_S", 0.5)
    near.heartbeat_s = 0.01
    tail = run.tail()
    async with aclosing(tail):
        waiting = asyncio.ensure_future(anext(tail))
        await asyncio.sleep(0.7)
        world.fill(1)
        assert (await waiting).seq == 0
    assert len(near.requests("TailEvents")) == 1


async def test_a_tail_stops_at_the_terminal_event_when_asked_to(run, world):
    world.fill(4)
    world.end()
    assert await seqs(run.tail(stop_at_terminal=True)) == [0, 1, 2, 3, 4]
    assert await seqs(run.tail(5, stop_at_terminal=True)) == []


async def test_a_stream_that_ends_before_the_terminal_event_is_opened_again(run, near, far, world, monkeypatch):
    def running(answer):
        answer.run.ClearField("terminal_seq")
        return answer

    world.fill(4)
    world.end()
    near.plan("GetRun", alter(running))
    assert await seqs(run.tail(stop_at_terminal=True)) == [0, 1, 2, 3, 4]
    assert [request.from_seq for request in far.requests("TailEvents")] == [5]


async def test_a_tail_gives_up_when_no_server_answers_for_long(near, world):
    world.fill(1)
    async with Client(near.address) as client:
        tail = client.run(RUN_ID).tail(patience_s=0.3)
        await anext(tail)
        await near.stop()
        with pytest.raises(Unavailable):
            await anext(tail)


async def test_a_tail_goes_on_from_a_known_position_or_fails(run, world):
    world.fill(6)
    known = Position(3, world.digests[3])
    assert [event.seq for event in await take(run.tail(4, known=known), 2)] == [4, 5]
    with pytest.raises(VerificationFailed):
        await take(run.tail(4, known=Position(3, b"x" * 32)), 1)
