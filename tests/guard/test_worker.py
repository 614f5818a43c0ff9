"""Replay workers: nodes run in them, side by side; what they ask is answered here; and they die without doing harm."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from guard.processes import environment, without_user_namespaces
from guard.test_isolation import requires_isolation, requires_unshare
from isoline_client.guard import IsolationUnavailable, WorkerDied, WorkerFailed
from isoline_client.guard.worker import NodeRun, ReplayWorker, WorkerPool
from isoline_client.workflow.actions import StartNode
from isoline_client.workflow.context import ContextParts
from isoline_client.workflow.errors import NodeError, Suspend
from isoline_client.workflow.host import LlmResponse
from isoline_client.workflow.results import Completed, Draw, DrawAt, Failed, NodeResult, Suspended, VariableChange
from support.waiting import eventually, wait_until

MODULES = ["guard.leaving"]
RUN_ID = "acme/eu-01JZZZZZZZZZZZZZZZZZZZZZZZ"


class Answers:
    """A host that answers what it was given, and remembers what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers
        self.asked: list[str] = []

    async def _answer(self, what: str) -> Any:
        self.asked.append(what)
        answer = self._answers.get(what)
        if callable(answer):
            answer = await answer()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def invoke(self, request, key, repetition, call) -> LlmResponse:
        return await self._answer("invoke")

    async def interrupt(self, request) -> Any:
        self.request = request
        return await self._answer("interrupt")


def node(name: str, inputs: dict[str, Any] | None = None, *, draws=(), variables=None) -> NodeRun:
    start = StartNode(node_id=name, type_id=f"test.{name}", visit=1, attempt=0, execution=1, inputs=inputs or {})
    parts = ContextParts(run_id=RUN_ID, variables=variables or {})
    return NodeRun(workflow_id="leaving", start=start, parts=parts, draws=draws)


def outputs(result: NodeResult) -> Any:
    assert isinstance(result.outcome, Completed), result.outcome
    return result.outcome.outputs


@pytest_asyncio.fixture(scope="module")
async def worker() -> AsyncIterator[ReplayWorker]:
    made = ReplayWorker(modules=MODULES)
    await made.start()
    yield made
    await made.stop()


@pytest_asyncio.fixture
async def doomed() -> AsyncIterator[ReplayWorker]:
    """A worker of the test's own."""
    made = ReplayWorker(modules=MODULES)
    await made.start()
    yield made
    await made.stop()


async def test_a_node_runs_there_with_what_it_is_given(worker):
    result = await worker.run_node(node("echo", {"a": [1, None, "ä"]}, variables={"v": 1}), Answers())

    assert outputs(result) == {"inputs": {"a": [1, None, "ä"]}, "variables": {"v": 1, "seen": {"a": [1, None, "ä"]}}}
    assert result.variables == (VariableChange(name="seen", next={"a": [1, None, "ä"]}),)


async def test_recorded_draws_are_drawn_again_and_others_anew(worker):
    at = DrawAt(scope="", source="random", ordinal=0)

    result = await worker.run_node(node("draw", draws=[Draw(at=at, value=0.25)]), Answers())

    assert outputs(result)["random"] == 0.25
    assert outputs(result)["pid"] == worker.pid != os.getpid()
    assert {draw.at.source: draw.value for draw in result.draws} == {"random": 0.25, "id": outputs(result)["id"]}


async def test_what_a_node_asks_is_answered_by_its_host(worker):
    host = Answers(invoke=LlmResponse(content="42"), interrupt={"resumeValue": "yes"})

    assert outputs(await worker.run_node(node("ask"), host)) == {"content": "42"}
    assert outputs(await worker.run_node(node("interrupt"), host)) == {"answer": "yes"}
    assert host.asked == ["invoke", "interrupt"]
    assert host.request.data == {"a": 1}


async def test_what_a_host_raises_for_the_node_ends_the_node(worker):
    missing = NodeError("replay_source_missing", "nothing recorded", retryable=False)

    result = await worker.run_node(node("ask"), Answers(invoke=missing))

    assert isinstance(result.outcome, Failed)
    assert (result.outcome.error.code, result.outcome.error.retryable) == ("replay_source_missing", False)


async def test_an_interrupt_without_an_answer_suspends(worker):
    host = Answers()
    host._answers["interrupt"] = lambda: suspend(host)

    async def suspend(host: Answers) -> Suspend:
        return Suspend(host.request, requested=True)

    result = await worker.run_node(node("interrupt"), host)

    assert result.outcome == Suspended(interrupt=host.request, requested=True)


async def test_what_else_a_host_raises_is_the_executors(worker):
    with pytest.raises(KeyError):
        await worker.run_node(node("ask"), Answers(invoke=KeyError("lease lost")))
    assert outputs(await worker.run_node(node("echo"), Answers()))


async def test_many_nodes_run_there_at_once(worker):
    met = asyncio.Barrier(50)

    async def meet() -> dict[str, Any]:
        await met.wait()
        return {"resumeValue": 1}

    results = await asyncio.gather(*(worker.run_node(node("interrupt"), Answers(interrupt=meet)) for _ in range(50)))

    assert [outputs(each) for each in results] == [{"answer": 1}] * 50
    assert worker.busy == 0


async def test_the_executors_messages_may_be_large(worker):
    text = "x" * 3_000_000

    assert outputs(await worker.run_node(node("echo", {"text": text}), Answers()))["inputs"] == {"text": text}


async def test_a_node_finds_nothing_of_the_executor(worker, monkeypatch):
    found = outputs(await worker.run_node(node("inside"), Answers()))

    kinds = {each.partition(":")[0] for each in found["descriptors"]}
    assert kinds <= {"/dev/null", "pipe", "socket", "anon_inode"}
    assert len([each for each in found["descriptors"] if each.startswith("pipe")]) == 1  # its standard error
    assert (
        len([each for each in found["descriptors"] if each.startswith("socket")]) == 3
    )  # its channel, and asyncio's own pair
    assert "ISOLINE_API_KEY" not in found["environment"]
    assert found["parent"] == os.getpid()
    assert set(found["interfaces"]) <= {"lo"}


async def test_a_thread_that_a_module_started_may_not_leave_either(worker):
    assert outputs(await worker.run_node(node("inside"), Answers()))["thread"] == "EffectDenied"


async def test_a_key_in_the_environment_is_not_handed_on(monkeypatch):
    monkeypatch.setenv("ISOLINE_API_KEY", "secret")
    worker = ReplayWorker(modules=MODULES)
    try:
        found = outputs(await worker.run_node(node("inside"), Answers()))
    finally:
        await worker.stop()
    assert "ISOLINE_API_KEY" not in found["environment"]


# Dying


async def test_a_worker_that_dies_says_why_and_the_next_node_starts_another(doomed):
    first = doomed.pid

    async with waiting_in(doomed) as waiting:
        with pytest.raises(WorkerDied, match="ended with 3: last words"):
            await doomed.run_node(node("die"), Answers())
        with pytest.raises(WorkerDied):
            await waiting
    assert outputs(await doomed.run_node(node("echo"), Answers()))
    assert doomed.pid != first


async def test_a_worker_that_is_killed_is_replaced_too(doomed):
    async with waiting_in(doomed) as waiting:
        os.kill(doomed.pid, signal.SIGKILL)
        with pytest.raises(WorkerDied, match="killed by SIGKILL"):
            await waiting
    assert outputs(await doomed.run_node(node("echo"), Answers()))


@contextlib.asynccontextmanager
async def waiting_in(worker: ReplayWorker) -> AsyncIterator[asyncio.Task[NodeResult]]:
    """A node that waits for an answer which never comes."""
    asked = asyncio.Event()

    async def never() -> Any:
        asked.set()
        await asyncio.Event().wait()

    waiting = asyncio.create_task(worker.run_node(node("interrupt"), Answers(interrupt=never)))
    await asked.wait()
    yield waiting


async def test_a_cancelled_node_is_cancelled_there(doomed):
    reached = asyncio.Event()

    async def answer() -> dict[str, Any]:
        reached.set()
        return {}

    running = asyncio.create_task(doomed.run_node(node("hang"), Answers(interrupt=answer)))
    await reached.wait()
    first = doomed.pid
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert outputs(await doomed.run_node(node("draw"), Answers()))["pid"] == first


async def test_a_worker_that_hears_no_cancellation_is_killed(doomed):
    first = doomed.pid
    running = asyncio.create_task(doomed.run_node(node("spin"), Answers()))
    await eventually(lambda: spins(doomed))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await eventually(lambda: gone(first))
    await eventually(lambda: ended(doomed))

    assert outputs(await doomed.run_node(node("draw"), Answers()))["pid"] != first


async def spins(worker: ReplayWorker) -> bool:
    return worker._conversation._process._last_words == b"spinning"


async def ended(worker: ReplayWorker) -> bool:
    return worker._conversation.ended


async def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


async def test_stopping_ends_the_process_and_removes_its_scratch_folder(doomed):
    first = doomed.pid
    await doomed.stop()

    assert await gone(first)


EXECUTOR = """
import asyncio
from guard.test_worker import Answers, node, spins
from isoline_client.guard.worker import ReplayWorker
from support.waiting import eventually
async def main():
    worker = ReplayWorker(modules=["guard.leaving"])
    await worker.start()
    running = asyncio.create_task(worker.run_node(node("spin"), Answers()))
    await eventually(lambda: spins(worker))
    print(worker.pid, flush=True)
    await running
asyncio.run(main())
"""


def test_a_worker_never_outlives_its_executor():
    """Not even one whose node lets it hear nothing."""
    with subprocess.Popen([sys.executable, "-c", EXECUTOR], stdout=subprocess.PIPE, env=environment()) as executor:
        assert executor.stdout is not None
        pid = int(executor.stdout.readline())
        executor.send_signal(signal.SIGKILL)
    wait_until(lambda: asyncio.run(gone(pid)), what="the end of the worker")


async def test_a_module_that_does_not_import_is_said():
    worker = ReplayWorker(modules=["guard.no_such_module"])
    with pytest.raises(WorkerFailed, match="no_such_module"):
        await worker.start()


# Isolation


@requires_isolation
async def test_what_holds_it_in_is_told(worker):
    assert worker.isolation.complete
    assert worker.isolation.reasons == ()


@requires_isolation
@pytest.mark.parametrize("fence", ["namespaces", "landlock", "call_filter"])
async def test_isolation_that_is_required_and_not_there_is_refused(fence, switches):
    switches.fences = replace_fence(switches.fences, fence)
    worker = ReplayWorker(modules=MODULES, require_isolation=True)

    with pytest.raises(IsolationUnavailable):
        await worker.run_node(node("echo"), Answers())


def replace_fence(fences, name):
    import dataclasses

    return dataclasses.replace(fences, **{name: False})


REFUSED = """
import asyncio
from isoline_client.guard import IsolationUnavailable, probe
from isoline_client.guard.worker import ReplayWorker
async def main(required):
    worker = ReplayWorker(modules=["guard.leaving"], require_isolation=required)
    try:
        await worker.start()
        print("started", worker.isolation.netns)
    except IsolationUnavailable as error:
        print(error)
    await worker.stop()
asyncio.run(main(True))
asyncio.run(main(False))
print(probe().complete)
"""


@requires_isolation
@requires_unshare
def test_a_host_that_forbids_namespaces_replays_only_when_that_is_allowed():
    command = [*without_user_namespaces(), sys.executable, "-c", REFUSED]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)

    required, allowed, probed = done.stdout.splitlines()
    assert "network namespace" in required
    assert allowed == "started False"
    assert probed == "False"


async def test_a_pool_uses_all_its_workers():
    pool = WorkerPool(2, modules=MODULES)
    await pool.start()
    met = asyncio.Barrier(4)

    async def meet() -> dict[str, Any]:
        await met.wait()
        return {}

    with contextlib.suppress(BrokenPipeError):
        await asyncio.gather(*(pool.run_node(node("interrupt"), Answers(interrupt=meet)) for _ in range(4)))
    pids = {each.pid for each in pool._workers}
    found = {outputs(await pool.run_node(node("draw"), Answers()))["pid"]}
    await pool.stop()

    assert len(pids) == 2
    assert found <= pids
