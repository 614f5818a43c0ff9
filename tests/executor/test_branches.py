"""Branches: a run of its own from a state, whose effects happen, and what is said about them before."""

from isoline_client.executor.forecast import effects_from
from support.counting import Counting
from support.executing import Floor, answer, find, log, seq_of, types


async def test_a_branch_fires_what_lies_behind_its_boundary(eu: Floor, outside: Counting) -> None:
    run = await eu.run("loop", {"url": outside.url})
    second = (await find(run, "node.started", "mail"))[1]
    fork = await eu.fork(run, "branch", second.seq)
    assert [hit.path for hit in outside.hits] == ["/mail/1", "/mail/2", "/mail/3", "/mail/2", "/mail/3"]
    assert len({hit.key for hit in outside.hits}) == 5
    assert [effect.run_id for effect in await eu.effects(fork)] == [fork.run_id] * 2
    assert (await log(fork))[-1].type == "run.completed"


async def test_an_overlay_is_recorded_once_as_variables(eu: Floor, outside: Counting) -> None:
    run = await eu.run("order", {"url": outside.url})
    start = await seq_of(run, "node.started", "charge")
    overlay = {"inputs": {"note": "again"}, "variables": {"colour": "red"}, "configurable": {"version": 1}}
    fork = await eu.fork(run, "branch", start, overlay=overlay)
    changed = [event.payload for event in await find(fork, "variable.changed") if "x-isoline-overlay" in event.payload]
    assert [(each["name"], each["next"]) for each in changed] == [
        ("colour", "red"),
        ("configurable", {"version": 1}),
        ("note", "again"),
    ]
    assert (await fork.state()).variables["colour"] == "red"
    assert outside.count == 2


async def test_an_overlay_is_not_recorded_again_when_the_branch_goes_on(eu: Floor, outside: Counting) -> None:
    run = await eu.run("approval", {"url": outside.url})
    fork = await eu.fork(run, "branch", 2, overlay={"variables": {"colour": "red"}})
    await answer(fork, "ask", 1)
    await eu.work()
    assert (await log(fork))[-1].type == "run.completed"
    assert len(await find(fork, "variable.changed")) == 1


async def test_a_branch_from_the_start_gets_inputs_of_its_own(eu: Floor, outside: Counting) -> None:
    run = await eu.run("order", {"url": outside.url, "note": "once"})
    fork = await eu.fork(run, "branch", 0, overlay={"inputs": {"note": "again"}})
    (started,) = await find(fork, "run.started")
    assert started.payload["inputs"] == {"url": outside.url, "note": "again"}
    assert (await log(fork))[-1].type == "run.completed"


async def test_an_overlay_that_nobody_understands_fails_the_branch(eu: Floor, outside: Counting) -> None:
    run = await eu.run("order", {"url": outside.url})
    fork = await eu.fork(run, "branch", 1, overlay={"imputs": {}})
    (*_, last) = await log(fork)
    assert (last.type, last.payload["error"]["code"]) == ("run.failed", "validation_error")
    assert "imputs" in last.payload["error"]["message"]
    assert outside.count == 1


async def test_a_branch_of_a_cut_node_runs_it_from_its_start(eu: Floor, outside: Counting) -> None:
    run = await eu.run("order", {"url": outside.url})
    fork = await eu.fork(run, "branch", 1 + await seq_of(run, "node.started", "charge"))
    assert (await types(fork))[4:6] == ["node.completed charge", "node.started receipt"]
    assert outside.count == 2


async def test_a_forecast_lists_what_a_branch_would_fire_again(eu: Floor, outside: Counting) -> None:
    run = await eu.run("loop", {"url": outside.url})
    second = (await find(run, "node.started", "mail"))[1]
    found = await effects_from(eu.client, run.run_id, second.seq)
    assert [(effect.node_id, effect.visit, effect.seam) for effect in found] == [
        ("mail", 2, "http.request"),
        ("mail", 3, "http.request"),
    ]
    assert len(await effects_from(eu.client, run.run_id, 0)) == 3
    assert outside.count == 3


async def test_a_forecast_sees_through_forks(eu: Floor, outside: Counting) -> None:
    run = await eu.run("loop", {"url": outside.url})
    second = (await find(run, "node.started", "mail"))[1]
    replay = await eu.fork(run, from_seq=second.seq)
    branch = await eu.fork(run, "branch", second.seq)
    for fork in (replay, branch):
        found = await effects_from(eu.client, fork.run_id, 0)
        assert [(effect.node_id, effect.visit) for effect in found] == [("mail", 1), ("mail", 2), ("mail", 3)]
    owners = [effect.run_id for effect in await effects_from(eu.client, branch.run_id, 0)]
    assert owners == [run.run_id, branch.run_id, branch.run_id]
