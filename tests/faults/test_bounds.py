"""Queues and streams have a bound, and what is beyond it is told to come back later."""

import asyncio

from api.wire import SOON_S, event, refused
from faults.holding import writes_held_back
from isoline_server.domain import limits
from support.waiting import eventually


async def test_appends_beyond_the_queue_of_a_lane_are_told_to_come_back(failing, monkeypatch):
    monkeypatch.setattr(limits, "LANE_QUEUE_MAX", 3)
    run_id = await failing.wire.new_run()
    async with writes_held_back(failing.url) as blocked:
        calls = [asyncio.ensure_future(failing.wire.append(run_id, event({"n": 0})))]
        await blocked(1)
        calls += [asyncio.ensure_future(failing.wire.append(run_id, event({"n": n}))) for n in range(1, 4)]
        await eventually(lambda: queued(failing, 3), what="a full queue")
        told = await refused(failing.wire.append(run_id, event({"too": "many"})))
    assert (told.code.name, told.reason) == ("RESOURCE_EXHAUSTED", "TOO_MANY_WAITING")
    assert (told.metadata["limit"], told.metadata["retryable"]) == ("3", "true")
    assert sorted([(await call).first_seq for call in calls]) == [0, 1, 2, 3]


async def queued(failing, many):
    (lane,) = failing.server._lanes._lanes["eu"]
    return len(lane._waiting) == many


async def test_tails_beyond_their_number_are_told_to_come_back(failing, monkeypatch):
    monkeypatch.setattr(limits, "TAIL_STREAMS_MAX", 2)
    run_id = await failing.wire.new_run(1)
    tails = [failing.wire.tail(run_id) for _ in range(2)]
    for tail in tails:
        await tail.read()
    told = await refused(failing.wire.tail(run_id).read())
    assert (told.code.name, told.reason, told.metadata["limit"]) == ("RESOURCE_EXHAUSTED", "TOO_MANY_WAITING", "2")
    for tail in tails:
        tail.cancel()


async def test_an_append_that_gives_up_in_the_queue_never_lands(failing, early):
    run_id = await failing.wire.new_run()
    async with writes_held_back(failing.url) as blocked:
        first = asyncio.ensure_future(failing.wire.append(run_id, event({"n": 0})))
        await blocked(1)
        told = await refused(failing.wire.append(run_id, event({"late": True}), timeout_s=SOON_S))
    assert told.code.name == "UNAVAILABLE"
    assert (await first).first_seq == 0
    assert (await failing.wire.append(run_id, event({"n": 1}))).first_seq == 1
