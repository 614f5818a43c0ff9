"""G6: a replay performs no external effect. Each rule of OpenWOP v2 replay.md, Suppression, under its number; what counts is what reached a
server of ours that counts, not what a log says."""

from typing import Any

import pytest

from isoline_client import Run
from isoline_client.events import Event
from isoline_client.executor.replaying import Replaying
from isoline_client.workflow.events import CANCEL_REQUESTED
from support.counting import Counting
from support.executing import Floor, answer, find, log, say, seq_of


def outcomes(events: list[Event]) -> list[tuple[str, bytes]]:
    """What a replay must hold as its source does."""
    return [(event.type, event.payload_bytes) for event in events]


async def diverged(run: Run) -> list[dict[str, Any]]:
    return [event.payload for event in await find(run, "replay.diverged")]


async def test_rule_1_a_replay_does_not_perform_the_effect(eu: Floor, outside: Counting) -> None:
    run = await eu.run("order", {"url": outside.url})
    fork = await eu.fork(run)
    assert (await log(fork))[-1].type == "run.completed"
    assert outside.count == 1
    assert await eu.effects(fork) == []


async def test_rule_1_holds_from_every_seq(eu: Floor, outside: Counting) -> None:
    run = await eu.run("order", {"url": outside.url})
    source = await log(run)
    for from_seq in range(len(source)):
        fork = await eu.fork(run, from_seq=from_seq)
        events = await log(fork)
        assert events[-1].type == "run.completed", (from_seq, events)
        assert await diverged(fork) == [], from_seq
    assert outside.count == 1


async def test_rule_2_each_execution_gets_the_outcome_of_its_number(eu: Floor, outside: Counting) -> None:
    run = await eu.run("loop", {"url": outside.url})
    fork = await eu.fork(run)
    recorded, served = await find(run, "node.completed", "mail"), await find(fork, "node.completed", "mail")
    assert len({event.payload["outputs"]["count"] for event in recorded}) == 3
    assert outcomes(served) == outcomes(recorded)
    assert await diverged(fork) == []


async def test_rule_2_counts_the_inherited_prefix(eu: Floor, outside: Counting) -> None:
    run = await eu.run("loop", {"url": outside.url})
    second = (await find(run, "node.started", "mail"))[1]
    fork = await eu.fork(run, from_seq=second.seq)
    served = await find(fork, "node.completed", "mail")
    assert outcomes(served) == outcomes(await find(run, "node.completed", "mail"))
    assert outside.count == 3


async def test_rule_2_counts_terminals_and_not_starts(eu: Floor, outside: Counting) -> None:
    """The node suspends, so it began twice and ended once; the fork is cut right behind its start."""
    run = await eu.run("ask-and-charge", {"url": outside.url})
    await answer(run, "ask-and-charge", "yes")
    await eu.work()
    start = await seq_of(run, "node.started", "ask-and-charge")
    fork = await eu.fork(run, from_seq=start + 1)
    assert outcomes(await find(fork, "node.completed", "ask-and-charge")) == outcomes(
        await find(run, "node.completed", "ask-and-charge")
    )
    assert outside.count == 1


async def test_rule_2_a_recorded_failure_replays_as_the_same_failure(eu: Floor, outside: Counting) -> None:
    outside.answer("/fragile", (503, {}), (200, {}))
    run = await eu.run("retry", {"url": outside.url})
    fork = await eu.fork(run)
    for kind in ("node.failed", "node.retried", "node.completed"):
        assert outcomes(await find(fork, kind, "fragile")) == outcomes(await find(run, kind, "fragile"))
    assert outside.count == 2


async def test_rule_2_looks_into_the_source_and_not_into_the_fork(eu: Floor, outside: Counting) -> None:
    """A branch has effects of its own; a replay of it repeats the branch's, not those of the branch's source."""
    run = await eu.run("loop", {"url": outside.url})
    branch = await eu.fork(run, "branch", await seq_of(run, "node.started", "mail"))
    assert outside.count == 6
    replay = await eu.fork(branch)
    assert outcomes(await find(replay, "node.completed", "mail")) == outcomes(
        await find(branch, "node.completed", "mail")
    )
    assert outcomes(await find(branch, "node.completed", "mail")) != outcomes(await find(run, "node.completed", "mail"))
    assert outside.count == 6


async def test_rule_3_without_a_recorded_outcome_the_node_fails_closed(eu: Floor, outside: Counting) -> None:
    """The source waits before its effect: what the replay reaches there was never recorded."""
    run = await eu.run("ask-and-charge", {"url": outside.url})
    fork = await eu.fork(run)
    (failed,) = await find(fork, "node.failed", "ask-and-charge")
    assert failed.payload["error"]["code"] == "replay_source_missing"
    assert (await log(fork))[-1].type == "run.failed"
    assert outside.count == 0


async def test_rule_3_a_cancelled_node_has_no_outcome(eu: Floor, outside: Counting) -> None:
    run = await eu.run("ask-and-charge", {"url": outside.url})
    await say(run, CANCEL_REQUESTED)
    await eu.work()
    assert (await log(run))[-1].type == "run.cancelled"
    fork = await eu.fork(run)
    (failed,) = await find(fork, "node.failed", "ask-and-charge")
    assert failed.payload["error"]["code"] == "replay_source_missing"
    assert outside.count == 0


async def test_rule_4_a_declared_side_effect_is_never_executed(eu: Floor, outside: Counting) -> None:
    """The node would reach nothing but its own outputs, and is served all the same."""
    run = await eu.run("loop", {"url": outside.url})
    outside.answer("/mail/1", (200, {"count": -1}))
    fork = await eu.fork(run)
    assert outcomes(await find(fork, "node.completed", "mail")) == outcomes(await find(run, "node.completed", "mail"))


async def test_rule_4_an_operator_may_add_a_node(eu: Floor, outside: Counting) -> None:
    run = await eu.run("sly", {"url": outside.url})
    fork = await run.fork(mode="replay", home_region="eu")
    await eu.work(also_side_effects=frozenset({"shop.sly"}))
    assert outcomes(await find(fork, "node.completed", "sly")) == outcomes(await find(run, "node.completed", "sly"))
    assert outside.count == 1


async def test_rule_4_adding_takes_nothing_away(eu: Floor, outside: Counting) -> None:
    run = await eu.run("order", {"url": outside.url})
    fork = await run.fork(mode="replay", home_region="eu")
    await eu.work(also_side_effects=frozenset({"shop.sly"}))
    assert (await log(fork))[-1].type == "run.completed"
    assert outside.count == 1


async def test_rule_5_the_guard_denies_what_the_classification_misses(eu: Floor, outside: Counting) -> None:
    """An llm node that leaves past its context: live it may, in a replay nothing gets out."""
    run = await eu.run("sly", {"url": outside.url})
    assert outside.count == 1
    fork = await eu.fork(run)
    (failed,) = await find(fork, "node.failed", "sly")
    assert failed.payload["error"]["code"] == "isoline.effect_denied"
    assert outside.count == 1


async def test_rule_5_the_guard_alone_keeps_the_count(
    eu: Floor, outside: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The classification is taken away: nothing leaves all the same, and the node fails closed."""
    run = await eu.run("order", {"url": outside.url})
    monkeypatch.setattr(Replaying, "_has_effects", lambda *_: False)
    fork = await eu.fork(run)
    assert outside.count == 1
    assert await find(fork, "node.failed", "charge")
    assert (await log(fork))[-1].type == "run.failed"


async def test_rule_6_a_dispatch_is_served_and_nobody_is_contacted(eu: Floor, outside: Counting) -> None:
    run = await eu.run("parent", {"url": outside.url})
    children = [each.run_id async for each in eu.client.list_runs("child")]
    fork = await eu.fork(run)
    assert outcomes(await find(fork, "node.dispatched")) == outcomes(await find(run, "node.dispatched"))
    assert [each.run_id async for each in eu.client.list_runs("child")] == children
    assert outside.count == 1


@pytest.mark.parametrize("workflow_id", ["order", "loop", "side-by-side", "poem", "facts"])
async def test_a_replay_of_a_replay_of_a_replay_is_the_same(eu: Floor, outside: Counting, workflow_id: str) -> None:
    run = await eu.run(workflow_id, {"url": outside.url})
    count = outside.count
    source = outcomes(await log(run))
    for _ in range(3):
        run = await eu.fork(run)
        assert outcomes(await log(run)) == source
    assert outside.count == count
