"""A lane: what is coalesced, what keeps its order, what is joined, and when it gives up."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from isoline_server.domain import limits
from isoline_server.domain.errors import (
    Draining,
    EngineCounterReused,
    HeadContended,
    LeaseLost,
    OutcomeUnknown,
    RequestIdReused,
    RunNotFound,
    SeqConflict,
    StoreUnavailable,
    TooManyWaiting,
)
from isoline_server.operations.ports import StoreRetryable
from support.waiting import eventually
from unit.operations.fake import FakeLog, command, lane_over, run_id

LOST = StoreRetryable("connection lost", ambiguous=True)
ABORTED = StoreRetryable("40001", ambiguous=False)


@pytest.fixture
def log():
    return FakeLog("abc")


@pytest.fixture
async def lane(log):
    lane = lane_over(log)
    task = asyncio.create_task(lane.run())
    yield lane
    log.open.set()
    lane.close()
    await asyncio.wait_for(task, 10)


def send(lane, *commands, give_up_at_s=None):
    return [asyncio.ensure_future(lane.append(each, give_up_at_s)) for each in commands]


@asynccontextmanager
async def held(log, lane):
    """One append stands in the database's door; what is sent meanwhile goes into the next statement."""
    log.open.clear()
    (first,) = send(lane, command("first", run="c"))
    await eventually(lambda: statements(log, 1), what="the first statement")
    yield
    await asyncio.sleep(0)  # one turn of the loop: what was sent stands in the queue
    log.open.set()
    await first


async def statements(log, many):
    return len(log.statements) == many


async def outcomes(futures):
    return await asyncio.gather(*futures, return_exceptions=True)


def in_s(seconds):
    return asyncio.get_running_loop().time() + seconds


# -- coalescing and order ------------------------------------------------------------------------------------------------------------


async def test_what_waits_goes_into_one_statement(log, lane):
    async with held(log, lane):
        sent = send(lane, command("1"), command("2", run="b"), command("3"))
    await outcomes(sent)
    assert [sorted(names) for names in log.statements] == [["first"], ["1", "2", "3"]]


async def test_appends_of_one_run_keep_the_order_in_which_they_came(log, lane):
    async with held(log, lane):
        sent = send(lane, *(command(f"{n:02}") for n in range(20)))
    assert [outcome.first_seq for outcome in await outcomes(sent)] == list(range(20))
    assert log.names() == [f"{n:02}" for n in range(20)]


async def test_a_refused_append_in_the_middle_does_not_change_the_order_of_the_others(log, lane):
    async with held(log, lane):
        sent = send(lane, command("1"), command("2", expected_seq=7), command("3"), command("4"))
    first, second, third, fourth = await outcomes(sent)
    assert (first.first_seq, third.first_seq, fourth.first_seq) == (0, 1, 2)
    assert (type(second), second.expected_seq, second.actual_seq) == (SeqConflict, 7, 1)
    assert log.names() == ["1", "3", "4"]


async def test_an_append_that_expects_its_place_behind_one_that_waits_gets_it(log, lane):
    async with held(log, lane):
        sent = send(lane, command("1", expected_seq=0), command("2", expected_seq=1), command("3", expected_seq=2))
    assert [outcome.first_seq for outcome in await outcomes(sent)] == [0, 1, 2]


async def test_a_batch_is_bounded_in_bytes_and_in_number(log, lane, monkeypatch):
    monkeypatch.setattr(limits, "LANE_APPENDS_MAX", 2)
    async with held(log, lane):
        sent = send(lane, *(command(str(n)) for n in range(5)))
    await outcomes(sent)
    assert [len(names) for names in log.statements] == [1, 2, 2, 1]
    monkeypatch.setattr(limits, "LANE_BYTES_MAX", 10)
    async with held_again(log, lane):
        sent = send(lane, command("x" * 6), command("y" * 6), command("z" * 3))
    await outcomes(sent)
    assert [len(names) for names in log.statements[5:]] == [1, 2]


@asynccontextmanager
async def held_again(log, lane):
    log.open.clear()
    (first,) = send(lane, command("again", run="c"))
    await eventually(lambda: statements(log, 5), what="the statement")
    yield
    await asyncio.sleep(0)  # one turn of the loop: what was sent stands in the queue
    log.open.set()
    await first


async def test_a_lost_race_costs_the_others_nothing_but_a_retry(log, lane):
    await lane.append(command("0"), None)
    log.move("a")
    async with held(log, lane):
        sent = send(lane, command("1"), command("2", run="b"), command("3"))
    assert [outcome.first_seq for outcome in await outcomes(sent)] == [2, 0, 3]
    assert log.names() == ["0", "other", "1", "3"]


async def test_a_known_head_is_not_read_again(log, lane):
    for n in range(5):
        await lane.append(command(str(n)), None)
    assert log.loads == 1


async def test_a_conflict_is_said_only_after_the_head_was_read_afresh(log, lane):
    await lane.append(command("0"), None)
    log.move("a")
    assert (await lane.append(command("1", expected_seq=2), None)).first_seq == 2
    with pytest.raises(SeqConflict):
        await lane.append(command("2", expected_seq=1), None)


async def test_an_unknown_run_is_refused_and_its_neighbours_are_not(log, lane):
    async with held(log, lane):
        sent = send(lane, command("1", run="z"), command("2", run="b"))
    unknown, known = await outcomes(sent)
    assert (type(unknown), known.first_seq) == (RunNotFound, 0)


# -- repeats -------------------------------------------------------------------------------------------------------------------------


async def test_a_repeat_while_the_first_is_under_way_joins_it(log, lane):
    async with held(log, lane):
        sent = send(lane, command("1"), command("1"), command("1"))
    answers = await outcomes(sent)
    assert [(answer.first_seq, answer.repeated) for answer in answers] == [(0, False), (0, True), (0, True)]
    assert log.names() == ["1"]


async def test_a_repeat_joins_the_refusal_of_the_first_too(log, lane):
    async with held(log, lane):
        sent = send(lane, command("1", expected_seq=9), command("1", expected_seq=9))
    assert [type(answer) for answer in await outcomes(sent)] == [SeqConflict, SeqConflict]


async def test_another_body_under_a_request_id_in_use_is_refused(log, lane):
    async with held(log, lane):
        sent = send(lane, command("1"), command("2", request_id=command("1").request_id))
    first, second = await outcomes(sent)
    assert (first.first_seq, type(second)) == (0, RequestIdReused)


async def test_other_events_under_a_counter_in_use_are_refused(log, lane):
    async with held(log, lane):
        sent = send(lane, command("1", engine="e", engine_seq=1, events=2), command("2", engine="e", engine_seq=1))
    first, second = await outcomes(sent)
    assert (first.last_seq, type(second), second.expected_engine_seq) == (1, EngineCounterReused, 3)


async def test_counters_may_follow_one_another_within_a_batch(log, lane):
    async with held(log, lane):
        sent = send(lane, *(command(str(n), engine="e", engine_seq=n) for n in range(1, 6)))
    assert [outcome.first_seq for outcome in await outcomes(sent)] == list(range(5))


async def test_a_joined_caller_that_goes_away_does_not_take_the_append_with_it(log, lane):
    async with held(log, lane):
        sent = send(lane, command("1"), command("1"))
        await asyncio.sleep(0)
        sent[0].cancel()
    assert (await outcomes(sent))[1].first_seq == 0


# -- doubt and giving up -------------------------------------------------------------------------------------------------------------


async def test_an_append_that_landed_in_doubt_is_answered_as_the_first(log, lane):
    log.faults.append(("after", LOST))
    outcome = await lane.append(command("1"), None)
    assert (outcome.first_seq, outcome.repeated, log.names()) == (0, False, ["1"])


async def test_an_append_in_doubt_that_did_not_land_is_written_again(log, lane):
    log.faults.append(("before", LOST))
    assert (await lane.append(command("1"), None)).first_seq == 0
    assert log.names() == ["1"]


async def test_an_append_that_gives_up_in_doubt_has_an_unknown_outcome(log, lane):
    log.faults.extend([("before", LOST)] * 1000)
    with pytest.raises(OutcomeUnknown):
        await lane.append(command("1"), in_s(0.1))


async def test_an_append_that_gives_up_and_was_surely_not_done_says_so(log, lane):
    log.faults.extend([("before", ABORTED)] * 1000)
    with pytest.raises(StoreUnavailable):
        await lane.append(command("1"), in_s(0.1))


async def test_an_append_that_gives_up_in_the_queue_was_surely_not_done(log, lane):
    async with held(log, lane):
        sent = send(lane, command("1"), give_up_at_s=in_s(0))
    assert type((await outcomes(sent))[0]) is StoreUnavailable
    assert log.names() == []


async def test_an_append_that_loses_too_often_is_contended(log, lane):
    class Faster(FakeLog):
        async def append(self, region, groups):
            self.move("a")
            return await super().append(region, groups)

    faster = Faster("a")
    crowded = lane_over(faster)
    task = asyncio.create_task(crowded.run())
    with pytest.raises(HeadContended) as raised:
        await crowded.append(command("1"), None)
    crowded.close()
    await task
    assert raised.value.losses == limits.APPEND_RETRY_MAX + 1
    assert "1" not in faster.names()


# -- what the database refuses for good -----------------------------------------------------------------------------------------------


class Picky(FakeLog):
    """Refuses every statement that holds a poisonous append."""

    async def append(self, region, groups):
        if any(b"poison" in record for group in groups for record in group.records):
            self.statements.append(["refused"])
            await self.open.wait()
            raise ValueError("refused for good")
        return await super().append(region, groups)


@pytest.fixture
async def picky():
    log = Picky("abc")
    lane = lane_over(log)
    task = asyncio.create_task(lane.run())
    yield log, lane
    log.open.set()
    lane.close()
    await asyncio.wait_for(task, 10)


@pytest.mark.parametrize("place", range(4))
async def test_one_poisonous_append_fails_alone_in_its_batch_and_in_its_run(picky, place):
    log, lane = picky
    names = ["1", "2", "3"]
    names.insert(place, "poison")
    async with held(log, lane):
        sent = send(lane, *(command(name) for name in names), command("4", run="b"))
    answers = await outcomes(sent)
    assert [type(answer) is ValueError for answer in answers] == [name == "poison" for name in [*names, "4"]]
    assert (log.names(), log.names("b")) == (["1", "2", "3"], ["4"])


async def test_a_refusal_next_to_a_poisonous_append_is_still_right(picky):
    log, lane = picky
    async with held(log, lane):
        sent = send(lane, command("1"), command("poison"), command("2", expected_seq=9), command("3"))
    first, poison, second, third = await outcomes(sent)
    assert (first.first_seq, type(poison), type(second), third.first_seq) == (0, ValueError, SeqConflict, 1)
    assert second.actual_seq == 1


async def test_an_event_that_cannot_be_encoded_fails_alone(log):
    def encode(content, stamp):
        if content.payload == b"poison":
            raise ValueError("no bytes for this")
        return content.payload

    lane = lane_over(log)
    lane._encode = encode
    task = asyncio.create_task(lane.run())
    async with held(log, lane):
        sent = send(lane, command("1"), command("poison"), command("2"), command("3", run="b"))
    answers = await outcomes(sent)
    lane.close()
    await task
    assert [type(answer) is ValueError for answer in answers] == [False, True, False, False]


# -- bounds and the end --------------------------------------------------------------------------------------------------------------


async def test_a_full_queue_refuses(log, lane, monkeypatch):
    monkeypatch.setattr(limits, "LANE_QUEUE_MAX", 2)
    async with held(log, lane):
        sent = send(lane, command("1"), command("2"), command("3"))
    answers = await outcomes(sent)
    assert [type(answer) is TooManyWaiting for answer in answers] == [False, False, True]


async def test_a_repeat_of_what_waits_is_answered_also_when_the_queue_is_full(log, lane, monkeypatch):
    monkeypatch.setattr(limits, "LANE_QUEUE_MAX", 1)
    async with held(log, lane):
        sent = send(lane, command("1"), command("1"))
    assert [answer.repeated for answer in await outcomes(sent)] == [False, True]


async def test_a_lane_that_closes_finishes_what_waits_and_takes_nothing_more(log):
    lane = lane_over(log)
    task = asyncio.create_task(lane.run())
    async with held(log, lane):
        sent = send(lane, command("1"), command("2"))
        await asyncio.sleep(0)
        lane.close()
        with pytest.raises(Draining):
            await lane.append(command("3"), None)
    assert [outcome.first_seq for outcome in await outcomes(sent)] == [0, 1]
    await asyncio.wait_for(task, 10)


async def test_heads_that_moved_are_told(log):
    told = []
    lane = lane_over(log, notify=told.extend)
    task = asyncio.create_task(lane.run())
    await lane.append(command("1", events=3), None)
    lane.close()
    await task
    assert told == [(run_id(), 2)]


# -- leases --------------------------------------------------------------------------------------------------------------------------


async def test_an_append_under_a_lease_that_was_lost_is_refused_though_its_head_is_right(log, lane):
    log.claim()
    await lane.append(command("0", lease_epoch=1), None)
    log.claim()
    with pytest.raises(LeaseLost):
        await lane.append(command("1", lease_epoch=1, expected_seq=1), None)
    assert (await lane.append(command("2", lease_epoch=2, expected_seq=1), None)).first_seq == 1
    assert log.names() == ["0", "2"]


async def test_a_lost_lease_costs_others_in_the_statement_nothing_but_a_retry(log, lane):
    log.claim()
    await lane.append(command("0", lease_epoch=1), None)
    log.claim()
    async with held(log, lane):
        sent = send(
            lane,
            command("1"),
            command("old", lease_epoch=1),
            command("2", run="b"),
            command("new", lease_epoch=2),
            command("3"),
        )
    first, old, other, new, last = await outcomes(sent)
    assert (first.first_seq, other.first_seq, new.first_seq, last.first_seq) == (1, 0, 2, 3)
    assert isinstance(old, LeaseLost)
    assert log.names() == ["0", "1", "new", "3"]


async def test_an_epoch_that_the_lane_has_not_heard_of_is_asked_for_before_it_is_refused(log, lane):
    await lane.append(command("0"), None)
    log.claim()
    assert (await lane.append(command("1", lease_epoch=1), None)).first_seq == 1


async def test_a_statement_says_whose_appends_it_holds(log, lane):
    log.claim()
    log.claim("b")
    groups = []
    append = log.append
    log.append = lambda region, sent: groups.extend(sent) or append(region, sent)
    async with held(log, lane):
        sent = send(lane, command("1", lease_epoch=1), command("2"), command("3", run="b", lease_epoch=1))
    await outcomes(sent)
    assert {group.run_id: (group.lease_epoch, group.wakes) for group in groups} == {
        run_id("c"): (0, True),
        run_id("a"): (1, True),
        run_id("b"): (1, False),
    }


async def test_a_successor_is_not_refused_with_its_predecessor(log, lane):
    """Both ask the same, and the one whose lease is lost was first."""
    log.claim()
    log.claim()
    one = {"request_id": "the-same-request-of-both", "expected_seq": 0}
    async with held(log, lane):
        sent = send(lane, command("1", lease_epoch=1, **one), command("1", lease_epoch=2, **one))
    old, new = await outcomes(sent)
    assert (type(old), new.first_seq, new.repeated) == (LeaseLost, 0, False)


async def test_a_predecessors_repeat_is_answered_from_what_it_did_itself(log, lane):
    log.claim()
    await lane.append(command("1", lease_epoch=1), None)
    log.claim()
    for epoch in (1, 2):
        assert (await lane.append(command("1", lease_epoch=epoch), None)).repeated


async def test_a_successor_that_comes_in_the_moment_of_its_predecessors_refusal_is_not_refused(log, lane):
    """The refusal is said, and the lane has not yet forgotten whom it was said to."""
    log.claim()
    log.claim()
    one = {"request_id": "the-same-request-of-both", "expected_seq": 0}

    async def succeed(pending):
        while not pending.future.done():
            await asyncio.sleep(0)
        assert pending.keys[0] in lane._by_key
        return await lane.append(command("1", lease_epoch=2, **one), None)

    async with held(log, lane):
        (first,) = send(lane, command("1", lease_epoch=1, **one))
        await asyncio.sleep(0)
        (pending,) = lane._waiting
        second = asyncio.ensure_future(succeed(pending))
    old, new = await outcomes([first, second])
    assert (type(old), new.first_seq) == (LeaseLost, 0)
