"""G6: each determinism caveat of OpenWOP v2 replay.md under its number, and what a replay makes of declared nondeterminism."""

from flows.shop import ORDER
from guarantees.test_g6_no_second_effect import diverged, outcomes
from support.counting import Counting
from support.executing import Floor, answer, find, log, say, types

LATER = "flows.later"


async def test_caveat_1_the_other_system_is_not_called_twice(eu: Floor, outside: Counting) -> None:
    """Neither a shop nor a model."""
    run = await eu.run("poem", {"url": outside.url})
    for mode, count in (("replay", 2), ("replay", 2), ("branch", 4), ("replay", 4)):
        await eu.fork(run, mode, 0)
        assert outside.count == count


async def test_caveat_2_an_interrupt_is_answered_from_the_log(eu: Floor, outside: Counting) -> None:
    run = await eu.run("approval", {"url": outside.url})
    await answer(run, "ask", {"ok": True})
    await eu.work()
    fork = await eu.fork(run)
    assert await find(fork, "interrupt.requested") == []
    assert await find(fork, "node.suspended") == []
    assert outcomes(await find(fork, "interrupt.resolved")) == outcomes(await find(run, "interrupt.resolved"))
    assert (await log(fork))[-1].type == "run.completed"
    assert await diverged(fork) == []


async def test_caveat_2_holds_for_a_fork_between_question_and_answer(eu: Floor, outside: Counting) -> None:
    run = await eu.run("approval", {"url": outside.url})
    await answer(run, "ask", {"ok": True})
    await eu.work()
    for event in await log(run):
        fork = await eu.fork(run, from_seq=event.seq)
        assert (await log(fork))[-1].type == "run.completed", event.seq
        assert await diverged(fork) == [], event.seq
    assert outside.count == 1


async def test_caveat_3_a_pinned_version_is_taken_again(eu: Floor) -> None:
    run = await eu.run("facts")
    newer = await eu.run("facts", modules=LATER)
    assert (await find(newer, "version.pinned"))[0].payload["version"] == 3
    fork = await eu.fork(run, modules=LATER)
    assert outcomes(await find(fork, "version.pinned")) == outcomes(await find(run, "version.pinned"))
    (remembered,) = await find(fork, "node.completed", "remember")
    assert remembered.payload["outputs"]["version"] == 2


async def test_caveat_4_time_is_what_it_was(eu: Floor, outside: Counting) -> None:
    run = await eu.run("order", {"url": outside.url})
    fork = await eu.fork(run)
    assert outcomes(await find(fork, "node.completed", "basket")) == outcomes(
        await find(run, "node.completed", "basket")
    )


async def test_caveat_5_memory_is_written_as_it_was(eu: Floor) -> None:
    """Newer code remembers something else: what was remembered is history all the same, with its id."""
    run = await eu.run("facts")
    for modules in ("flows.shop", LATER):
        fork = await eu.fork(run, modules=modules)
        assert outcomes(await find(fork, "memory.written")) == outcomes(await find(run, "memory.written"))


async def test_caveat_5_a_branch_writes_its_own(eu: Floor) -> None:
    run = await eu.run("facts")
    fork = await eu.fork(run, "branch", 1)
    (old,), (new,) = await find(run, "memory.written"), await find(fork, "memory.written")
    assert old.payload["memoryId"] != new.payload["memoryId"]


async def test_caveat_6_who_answered_is_not_asked_again(eu: Floor, outside: Counting) -> None:
    ada = {
        "issuer": "https://id.example",
        "subjectId": "ada",
        "tenant": "local",
        "lane": "oidc",
        "kind": "user",
    }
    run = await eu.run("approval", {"url": outside.url})
    await answer(run, "ask", 1, resolvedBy=ada, action="accept")
    await eu.work()
    fork = await eu.fork(run)
    (resolved,) = await find(fork, "interrupt.resolved")
    assert resolved.payload["resolvedBy"] == ada


async def test_an_undeclared_source_is_a_reported_defect(eu: Floor, outside: Counting) -> None:
    assert "x-tea" not in ORDER.settings.sources
    run = await eu.run("order", {"url": outside.url})
    fork = await eu.fork(run, modules=LATER)
    (failed,) = await find(fork, "node.failed", "basket")
    assert failed.payload["error"]["code"] == "isoline.undeclared_source"
    assert len(await diverged(fork)) >= 1


async def test_concurrency_inside_a_node_is_no_difference(eu: Floor, outside: Counting) -> None:
    run = await eu.run("side-by-side", {"url": outside.url})
    for _ in range(5):
        assert await diverged(await eu.fork(run)) == []


async def test_pauses_and_backoffs_of_the_source_are_not_repeated(eu: Floor, outside: Counting) -> None:
    run = await eu.client.start_run("order", {"url": outside.url}, home_region="eu")
    await say(run, "run.paused", {"drainPolicy": "drain-current-node"})
    await eu.work()
    assert outside.count == 0
    await say(run, "run.resumed")
    await eu.work()
    fork = await eu.fork(run)
    assert "run.paused" not in await types(fork)
    assert (await log(fork))[-1].type == "run.completed"
    assert await diverged(fork) == []
    inside = await eu.fork(run, from_seq=2)  # the pause is inherited
    assert (await log(inside))[-1].type == "run.completed"
