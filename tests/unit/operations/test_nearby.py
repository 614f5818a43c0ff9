"""A far append is answered by what the region's own replica shows, when that is its own receipt; by nothing less."""

import asyncio
from dataclasses import replace

import pytest

from isoline_server.domain.errors import OutcomeUnknown
from isoline_server.operations.nearby import Nearby
from isoline_server.operations.ports import StoreRetryable
from support.waiting import eventually
from unit.operations.fake import FakeLog, command, lane_over

LOST = StoreRetryable("connection lost", ambiguous=True)


class Replica:
    """Shows the receipts of a log that it follows, while it does; counts how often it is asked."""

    def __init__(self, log):
        self.log = log
        self.follows = True
        self.shows = True
        self.hangs = False
        self.error = None
        self.shown = lambda receipt: receipt
        self.shows_at_most = None
        self.asked = 0

    async def load_receipts(self, region, keys):
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        found = await self.log.load_receipts(region, keys) if self.shows else {}
        return {key: self.shown(receipt) for key, receipt in list(found.items())[: self.shows_at_most]}


@pytest.fixture
def log():
    return FakeLog("ab")


@pytest.fixture
def replica(log):
    return Replica(log)


@pytest.fixture
async def lane(log, replica):
    near = Nearby(replica)
    lane = lane_over(log, near=near)
    task = asyncio.create_task(lane.run())
    yield lane
    log.answering.set()
    lane.close()
    await asyncio.wait_for(task, 10)
    await asyncio.wait_for(near.close(), 10)


async def asked(replica, many):
    return replica.asked >= many


async def test_what_the_replica_shows_answers_before_the_leader(log, lane):
    log.answering.clear()
    outcome = await asyncio.wait_for(lane.append(command("one", events=2), None), 5)
    assert (outcome.first_seq, outcome.last_seq, outcome.repeated) == (0, 1, False)
    assert log.names() == ["one", "one"]


async def test_the_next_append_goes_on_from_there(log, lane):
    log.answering.clear()
    first = await asyncio.wait_for(lane.append(command("one"), None), 5)
    second = await asyncio.wait_for(lane.append(command("two"), None), 5)
    assert (first.last_seq, second.first_seq) == (0, 1)
    assert log.loads == 1  # the head was known from what the replica showed


async def test_a_quick_leader_is_not_doubled(lane, replica):
    await lane.append(command("one"), None)
    assert replica.asked == 0


@pytest.mark.parametrize("silence", ["shows not", "fails"])
async def test_a_replica_that_shows_nothing_leaves_the_word_to_the_leader(log, lane, replica, silence):
    log.answering.clear()
    replica.shows = silence != "shows not"
    replica.error = LOST if silence == "fails" else None
    sent = asyncio.create_task(lane.append(command("one"), None))
    await eventually(lambda: asked(replica, 3))
    assert not sent.done()
    log.answering.set()
    assert (await sent).last_seq == 0


async def test_a_replica_that_hangs_does_not_hold_up_the_leaders_answer(log, lane, replica):
    log.answering.clear()
    replica.hangs = True
    sent = asyncio.create_task(lane.append(command("one"), None))
    await eventually(lambda: asked(replica, 1))
    log.answering.set()
    assert (await asyncio.wait_for(sent, 5)).last_seq == 0


async def test_a_receipt_with_another_digest_is_no_answer(log, lane, replica):
    log.answering.clear()
    replica.shown = lambda receipt: replace(receipt, digest=b"another's")
    sent = asyncio.create_task(lane.append(command("one"), None))
    await eventually(lambda: asked(replica, 3))
    assert not sent.done()
    log.answering.set()
    assert (await sent).last_seq == 0


async def test_every_run_of_a_statement_must_be_shown(log, lane, replica):
    log.open.clear()
    first = asyncio.create_task(lane.append(command("first"), None))
    await eventually(lambda: asked(replica, 1))
    both = [asyncio.create_task(lane.append(command(name, run=run), None)) for name, run in (("a", "a"), ("b", "b"))]
    await asyncio.sleep(0)
    log.answering.clear()
    log.open.set()
    await first
    replica.shows_at_most, before = 1, replica.asked
    await eventually(lambda: asked(replica, before + 3))
    assert [each.done() for each in both] == [False, False]
    replica.shows_at_most = None
    assert [(await asyncio.wait_for(each, 5)).last_seq for each in both] == [1, 0]


async def test_an_error_of_the_leader_after_the_replicas_word_changes_nothing(log, lane):
    log.answering.clear()
    log.faults.append(("after", LOST))
    outcome = await asyncio.wait_for(lane.append(command("one"), None), 5)
    log.answering.set()
    assert outcome.last_seq == 0
    assert (await lane.append(command("two"), None)).first_seq == 1


async def test_an_error_of_the_leader_before_the_replicas_word_is_looked_into(log, lane, replica):
    replica.shows = False
    log.faults.append(("after", LOST))
    assert (await asyncio.wait_for(lane.append(command("one"), None), 5)).last_seq == 0
    assert log.names() == ["one"]


async def test_a_leader_that_never_answers_leaves_what_no_replica_shows_unknown(log, lane, replica):
    replica.shows = False
    log.faults.extend([("before", LOST)] * 100)
    with pytest.raises(OutcomeUnknown):
        await lane.append(command("one"), asyncio.get_running_loop().time() + 0.2)


async def test_a_replica_that_leads_is_not_asked(log, lane, replica):
    replica.follows = False
    log.answering.clear()
    sent = asyncio.create_task(lane.append(command("one"), None))
    await eventually(lambda: written(log))
    log.answering.set()
    assert (await sent).last_seq == 0
    assert replica.asked == 0


async def written(log):
    return log.names() == ["one"]
