"""Live runs, driven from their logs."""

from isoline_client.workflow.events import CANCEL_REQUESTED
from support.counting import Counting
from support.executing import Floor, answer, find, log, say, types


async def test_a_run_is_driven_to_its_end(eu: Floor, outside: Counting) -> None:
    run = await eu.run("order", {"url": outside.url})
    assert await types(run) == [
        "run.started",
        "node.started basket",
        "node.completed basket",
        "node.started charge",
        "node.completed charge",
        "node.started receipt",
        "variable.changed receipt",
        "channel.written receipt",
        "node.completed receipt",
        "run.completed",
    ]
    assert outside.count == 1


async def test_an_effect_carries_its_id_and_its_draws(eu: Floor, outside: Counting) -> None:
    run = await eu.run("order", {"url": outside.url})
    (effect,) = await eu.effects(run)
    assert effect.state == "completed"
    assert outside.hits[0].key == effect.effect_id
    assert b'"source":"id"' in effect.draws


async def test_draws_are_declared_as_masked(eu: Floor, outside: Counting) -> None:
    run = await eu.run("order", {"url": outside.url})
    (basket,) = await find(run, "node.completed", "basket")
    assert [draw["source"] for draw in basket.payload["x-isoline-draws"]] == ["clock", "env", "id", "random"]
    assert basket.masked == tuple(f"/x-isoline-draws/{place}/value" for place in range(4))


async def test_a_loop_enters_its_nodes_again(eu: Floor, outside: Counting) -> None:
    run = await eu.run("loop", {"url": outside.url})
    assert [hit.path for hit in outside.hits] == ["/mail/1", "/mail/2", "/mail/3"]
    assert len({hit.key for hit in outside.hits}) == 3
    assert (await log(run))[-1].type == "run.completed"


async def test_a_run_waits_for_an_answer_and_goes_on(eu: Floor, outside: Counting) -> None:
    run = await eu.run("approval", {"url": outside.url})
    assert (await types(run))[-2:] == ["interrupt.requested ask", "node.suspended ask"]
    await answer(run, "ask", {"ok": True})
    await eu.work()
    (asked,) = await find(run, "node.completed", "ask")
    assert asked.payload["outputs"] == {"answer": {"ok": True}}
    assert (await log(run))[-1].type == "run.completed"


async def test_what_was_drawn_before_a_question_is_drawn_again_behind_its_answer(eu: Floor) -> None:
    run = await eu.run("ask-number")
    (asked,) = await find(run, "interrupt.requested")
    await answer(run, "ask-number", "yes")
    await eu.work()
    (done,) = await find(run, "node.completed")
    assert done.payload["outputs"] == {"number": asked.payload["data"]["number"], "answer": "yes"}
    fork = await eu.fork(run)
    assert (await find(fork, "node.completed"))[0].payload == done.payload


async def test_a_refused_request_is_sent_again_under_the_same_id(eu: Floor, outside: Counting) -> None:
    outside.answer("/fragile", (503, {}), (200, {"fine": True}))
    run = await eu.run("retry", {"url": outside.url})
    assert await types(run) == [
        "run.started",
        "node.started fragile",
        "node.failed fragile",
        "node.retried fragile",
        "node.started fragile",
        "node.completed fragile",
        "node.started basket",
        "node.completed basket",
        "run.completed",
    ]
    assert len({hit.key for hit in outside.hits}) == 1
    (effect,) = await eu.effects(run)
    assert (effect.state, effect.attempt) == ("completed", 2)


async def test_retries_come_to_an_end(eu: Floor) -> None:
    run = await eu.run("failing")
    (*_, last) = await log(run)
    assert len(await find(run, "node.failed")) == 2
    assert (last.type, last.payload["failedNodeId"]) == ("run.failed", "fail-always")


async def test_nothing_left_when_nobody_listens(eu: Floor) -> None:
    from support.servers import free_port

    run = await eu.run("order", {"url": f"http://127.0.0.1:{free_port()}"})
    (effect,) = await eu.effects(run)
    assert effect.state == "failed"
    (failed,) = await find(run, "node.failed", "charge")
    assert failed.payload["error"]["retryable"] is True


async def test_a_node_that_takes_too_long_fails(eu: Floor) -> None:
    run = await eu.run("timeout")
    (failed,) = await find(run, "node.failed")
    assert failed.payload["error"]["code"] == "isoline.node_timeout"


async def test_a_run_that_takes_too_long_fails(eu: Floor) -> None:
    run = await eu.run("run-timeout")
    (*_, last) = await log(run)
    assert (last.type, last.payload["error"]["code"]) == ("run.failed", "run_timeout")


async def test_a_dispatched_run_is_started_once(eu: Floor, outside: Counting) -> None:
    run = await eu.run("parent", {"url": outside.url})
    (dispatched,) = await find(run, "node.dispatched")
    assert dispatched.payload["childStatus"] == "completed"
    child = await log(eu.client.run(dispatched.payload["childRunId"]))
    assert child[-1].type == "run.completed"
    assert outside.count == 1


async def test_a_cancelled_run_ends(eu: Floor) -> None:
    run = await eu.client.start_run("endless", {}, home_region="eu")
    await say(run, CANCEL_REQUESTED, {"reason": "enough", "cancelledBy": "ada"})
    await eu.work()
    (*_, last) = await log(run)
    assert (last.type, last.payload) == ("run.cancelled", {"reason": "enough", "cancelledBy": "ada"})


async def test_a_model_is_asked_once_and_its_answer_recorded(eu: Floor, outside: Counting) -> None:
    run = await eu.run("poem", {"url": outside.url})
    (poem,) = await find(run, "node.completed", "poem")
    assert poem.payload["outputs"]["poem"]["verse"]["path"] == "/model"
    assert [hit.path for hit in outside.hits] == ["/model", "/charge"]
