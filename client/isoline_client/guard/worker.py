"""Replay workers as the executor uses them: one that runs nodes, and a pool of them.

A worker runs many nodes at a time. When its process dies, every node that ran there raises ``WorkerDied``, and the next one starts a new
process: a pure node has done nothing, so it may simply be run again.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from isoline_client.guard.codec import from_json, to_json
from isoline_client.guard.conversation import Conversation
from isoline_client.guard.errors import IsolationUnavailable, WorkerFailed
from isoline_client.guard.frames import Message
from isoline_client.guard.isolation import NOT_ISOLATED, IsolationReport
from isoline_client.guard.policy import OUTSIDE, within
from isoline_client.guard.process import WorkerProcess
from isoline_client.guard.raised import raised_document
from isoline_client.workflow.actions import StartNode
from isoline_client.workflow.context import ContextParts
from isoline_client.workflow.errors import Interruption, NodeError
from isoline_client.workflow.host import Host, InterruptRequest, LlmRequest, LlmResponse
from isoline_client.workflow.results import Draw, NodeResult


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """One execution of a node in a replay: what it starts with, and the values that the source drew in it."""

    workflow_id: str
    start: StartNode
    parts: ContextParts
    draws: Sequence[Draw] = ()


class ReplayWorker:
    """One process at a time, started when it is first needed."""

    def __init__(self, *, modules: Sequence[str], require_isolation: bool = False) -> None:
        self._modules = tuple(modules)
        self._require_isolation = require_isolation
        self._conversation: Conversation | None = None
        self._starting = asyncio.Lock()
        self.isolation: IsolationReport = NOT_ISOLATED
        self.workflows: tuple[str, ...] = ()
        self.pid = 0

    @property
    def busy(self) -> int:
        """Nodes that run there now."""
        return 0 if self._conversation is None else self._conversation.busy

    async def start(self) -> None:
        """Start the process, shut in, with the workflows loaded; nothing if it runs. Raises ``IsolationUnavailable``, ``WorkerFailed``."""
        await self._running()

    async def stop(self) -> None:
        """End the process. What runs there raises ``WorkerDied``."""
        if self._conversation is not None:
            await self._conversation.close()
            self._conversation = None

    async def run_node(self, run: NodeRun, host: Host) -> NodeResult:
        """Run a node there. ``host`` answers what it asks: recorded calls of models and resolutions of interrupts.

        Cancelling this cancels the node. What ``host`` raises, other than what ends an execution, ends the node and is raised here.
        """
        conversation = await self._running()
        answer = await conversation.call(
            {
                "op": "run",
                "workflow_id": run.workflow_id,
                "start": to_json(StartNode, run.start),
                "parts": to_json(ContextParts, run.parts),
                "draws": to_json(tuple[Draw, ...], run.draws),
            },
            lambda what, args: _answer(host, what, args),
        )
        if answer["op"] == "failed":
            raise WorkerFailed(answer["why"])
        result: NodeResult = from_json(NodeResult, answer["result"])
        return result

    async def _running(self) -> Conversation:
        async with self._starting:
            if self._conversation is not None and self._conversation.ended:
                await self.stop()
            if self._conversation is None:
                with within(OUTSIDE):
                    self._conversation = await self._begin()
            return self._conversation

    async def _begin(self) -> Conversation:
        process = await WorkerProcess.start()
        self.isolation, self.pid = process.isolation, process.pid
        conversation = Conversation(process)
        try:
            if self._require_isolation and not process.isolation.complete:
                raise IsolationUnavailable(process.isolation.reasons)
            answer = await conversation.call({"op": "load", "modules": list(self._modules)})
            if answer["op"] == "failed":
                raise WorkerFailed(answer["why"])
        except BaseException:
            await conversation.close()
            raise
        self.workflows = tuple(answer["workflows"])
        return conversation


async def _answer(host: Host, what: str, args: Message) -> Message:
    try:
        with within(OUTSIDE):
            return {"returned": await _asked(host, what, args)}
    except (NodeError, Interruption) as error:
        return {"raised": raised_document(error)}


async def _asked(host: Host, what: str, args: Message) -> Any:
    match what:
        case "invoke":
            request = from_json(LlmRequest, args["request"])
            response = await host.invoke(request, args["key"], args["repetition"], _no_model)
            return to_json(LlmResponse, response)
        case "interrupt":
            return dict(await host.interrupt(from_json(InterruptRequest, args)))
        case "remaining_ms":
            return await host.remaining_ms(args["delay_ms"])
        case _:
            raise WorkerFailed(f"a node asked for {what}, which nobody answers")


async def _no_model() -> LlmResponse:
    """A replay asks no model: its host serves what is recorded, or raises."""
    raise NodeError("replay_source_missing", "the source run has no recorded answer of the model", retryable=False)


class WorkerPool:
    """Some workers; a node runs where the fewest run."""

    def __init__(self, size: int, *, modules: Sequence[str], require_isolation: bool = False) -> None:
        self._workers = [ReplayWorker(modules=modules, require_isolation=require_isolation) for _ in range(size)]

    async def start(self) -> None:
        """Start them all, so that the first replay need not wait."""
        await asyncio.gather(*(each.start() for each in self._workers))

    async def stop(self) -> None:
        """End them all."""
        await asyncio.gather(*(each.stop() for each in self._workers))

    @property
    def isolation(self) -> IsolationReport:
        """What holds them in: the same host gives all of them the same."""
        return self._workers[0].isolation

    async def run_node(self, run: NodeRun, host: Host) -> NodeResult:
        """Run a node in one of them."""
        return await min(self._workers, key=lambda each: each.busy).run_node(run, host)
