"""What people do to a run that is being executed: pause, resume, cancel. A node under way is cut off or let end, a request never is."""

import asyncio

import pytest

from isoline_client.workflow.events import CANCEL_REQUESTED
from support.counting import Counting
from support.executing import Floor, answer, executing, find, log, say, types, until
from support.waiting import eventually


async def test_a_cancel_cuts_off_the_node_under_way(eu: Floor, outside: Counting) -> None:
    async with executing(eu):
        run = await eu.client.start_run("endless", {"url": outside.url}, home_region="eu")
        await until(run, "node.started", "endless")
        await say(run, CANCEL_REQUESTED, {"reason": "enough"})
        await until(run, "run.cancelled")
    assert (await types(run))[-3:] == ["example.cancel-requested", "node.cancelled endless", "run.cancelled"]


async def test_an_immediate_pause_leaves_no_terminal_of_the_node(eu: Floor, outside: Counting) -> None:
    run = await eu.client.start_run("endless", {"url": outside.url}, home_region="eu")
    async with executing(eu):
        await until(run, "node.started", "endless")
        await say(run, "run.paused", {"drainPolicy": "immediate"})
    assert (await types(run))[-1] == "run.paused"
    await say(run, "run.resumed")
    async with executing(eu):

        async def begun_again() -> bool:
            return len(await find(run, "node.started", "endless")) == 2

        await eventually(begun_again, what="a fresh start of the node")
        await say(run, CANCEL_REQUESTED)
        await until(run, "run.cancelled")
    assert [event.payload["attempt"] for event in await find(run, "node.started", "endless")] == [0, 0]


async def test_a_pause_lets_the_node_under_way_end(eu: Floor, outside: Counting) -> None:
    outside.hold()
    async with executing(eu):
        run = await eu.client.start_run("order", {"url": outside.url}, home_region="eu")
        await asyncio.to_thread(outside.wait_for, 1)
        await say(run, "run.paused", {"drainPolicy": "drain-current-node"})
        outside.release()
        await until(run, "node.completed", "charge")
    assert (await types(run))[-2:] == ["run.paused", "node.completed charge"]
    await say(run, "run.resumed")
    await eu.work()
    assert (await log(run))[-1].type == "run.completed"
    assert outside.count == 1


async def test_a_request_under_way_is_waited_for_by_a_cancel(
    eu: Floor, outside: Counting, caplog: pytest.LogCaptureFixture
) -> None:
    """Its outcome is recorded, so nothing is in doubt."""
    outside.hold()
    with caplog.at_level("INFO", "isoline_client"):
        async with executing(eu):
            run = await eu.client.start_run("order", {"url": outside.url}, home_region="eu")
            await asyncio.to_thread(outside.wait_for, 1)
            await say(run, CANCEL_REQUESTED)
            await noticed(caplog)
            outside.release()
            await until(run, "run.cancelled")
    (effect,) = await eu.effects(run)
    assert effect.state == "completed"
    assert not await find(run, "node.completed", "charge")


async def test_an_immediate_pause_does_not_send_it_twice(
    eu: Floor, outside: Counting, caplog: pytest.LogCaptureFixture
) -> None:
    """The cut node begins anew, makes the same request and finds its outcome."""
    outside.hold()
    with caplog.at_level("INFO", "isoline_client"):
        async with executing(eu):
            run = await eu.client.start_run("order", {"url": outside.url}, home_region="eu")
            await asyncio.to_thread(outside.wait_for, 1)
            await say(run, "run.paused", {"drainPolicy": "immediate"})
            await noticed(caplog)
            outside.release()
    assert (await types(run))[-1] == "run.paused"
    await say(run, "run.resumed")
    await eu.work()
    assert (await log(run))[-1].type == "run.completed"
    assert outside.count == 1


async def noticed(caplog: pytest.LogCaptureFixture) -> None:
    """Wait until the executor has heard that the node is to be cut off."""

    async def said() -> bool:
        return any(record.getMessage() == "cut off" for record in caplog.records)

    await eventually(said, what="the executor's notice")


async def test_whoever_answers_wakes_the_run(eu: Floor, outside: Counting) -> None:
    async with executing(eu):
        run = await eu.client.start_run("approval", {"url": outside.url}, home_region="eu")
        await until(run, "node.suspended")
        await answer(run, "ask", True)
        await until(run, "run.completed")


async def test_a_lost_answer_leaves_the_effect_in_doubt(eu: Floor, outside: Counting) -> None:
    """The executor lives; only the answer was lost. Nobody can know, so nobody sends it again."""
    outside.hang_up("/charge")
    run = await eu.run("order", {"url": outside.url})
    (effect,) = await eu.effects(run)
    assert effect.state == "in_doubt"
    assert outside.count == 1
    assert (await types(run))[-1] == "node.started charge"
    outside.hang_up("/charge", on=False)
    await eu.client.execution().resolve_effect(run.run_id, effect.effect_id, to="failed", resolved_by="ada")
    await eu.work()
    assert [hit.key for hit in outside.hits] == [effect.effect_id] * 2
    assert (await log(run))[-1].type == "run.completed"


async def test_a_gateway_that_got_no_answer_knows_nothing(eu: Floor, outside: Counting) -> None:
    outside.answer("/fragile", (504, {}), (200, {}))
    run = await eu.run("retry", {"url": outside.url})
    (effect,) = await eu.effects(run)
    assert (effect.state, outside.count) == ("in_doubt", 1)


async def test_what_the_other_side_does_once_is_sent_again_a_few_times(eu: Floor, outside: Counting) -> None:
    outside.hang_up("/book")
    run = await eu.run("book", {"url": outside.url})
    (effect,) = await eu.effects(run)
    assert effect.state == "in_doubt"
    assert [hit.key for hit in outside.hits] == [effect.effect_id] * 3
