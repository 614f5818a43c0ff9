"""OpenWOP's own graph for the ordinal of outcomes, from its JSON file, through the executor."""

from pathlib import Path

import pytest

from isoline_client.workflow.authoring import load_workflows
from isoline_client.workflow.events import CANCEL_REQUESTED
from support.executing import Floor, executing, find, log, say, seq_of, until

FIXTURE = Path(__file__).parents[1] / "golden/openwop/conformance-replay-ordinal-loop.json"
WORKFLOW = "conformance-replay-ordinal-loop"


async def test_a_replay_of_the_cut_loop_serves_what_was_recorded_and_fails_closed_behind_it(eu: Floor) -> None:
    """The file's ``wait`` is a ``core.delay``, which is side-effecting: the cancel cut it, so the replay has no outcome for it and fails closed
    there already, before ``effect`` would be executed a second time. With a pure wait (``core.conformance.hold``) it comes that far:
    ``test_what_was_cut_off_left_no_outcome``."""
    modules = str(FIXTURE)
    async with executing(eu, modules):
        run = await eu.client.start_run(WORKFLOW, {"delayMs": 3_600_000}, home_region=eu.region)
        await until(run, "node.started", "wait")
        await say(run, CANCEL_REQUESTED)
        await until(run, "run.cancelled")
    fork = await eu.fork(run, from_seq=await seq_of(run, "node.started", "effect"), modules=modules)
    (served,) = await find(fork, "node.completed", "effect")
    assert served.payload["outputs"] == (await find(run, "node.completed", "effect"))[0].payload["outputs"]
    (failed,) = await find(fork, "node.failed")
    assert (failed.node_id, failed.payload["error"]["code"]) == ("wait", "replay_source_missing")
    assert (await log(fork))[-1].type == "run.failed"
    assert await eu.effects(fork) == []


async def test_the_loop_executes_its_effect_twice_and_a_replay_serves_each_execution_its_own_outcome(eu: Floor) -> None:
    """Nothing is cut here. A delay that forgot when it began would never be over."""
    modules = str(FIXTURE)
    async with executing(eu, modules):
        run = await eu.client.start_run(WORKFLOW, {"delayMs": 50}, home_region=eu.region)
        await until(run, "run.failed")
    first, second = await find(run, "node.completed", "effect")
    assert first.payload["outputs"] != second.payload["outputs"]
    assert [event.node_id for event in await find(run, "node.started")] == ["start", *["effect", "wait"] * 2]
    assert (await log(run))[-1].payload["error"]["code"] == "loop_limit_exceeded"
    fork = await eu.fork(run, from_seq=await seq_of(run, "node.started", "effect"), modules=modules)
    served = await find(fork, "node.completed", "effect")
    assert [event.payload_bytes for event in served] == [first.payload_bytes, second.payload_bytes]
    assert [event.type for event in await log(fork)] == [event.type for event in await log(run)]
    assert (len(await eu.effects(run)), len(await eu.effects(fork))) == (2, 0)


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.json cannot be read"):
        load_workflows(str(tmp_path / "none.json"))
