"""The worker's half of what is said: loads workflows, runs nodes side by side as tasks, and passes their questions on.

Modules are loaded outside of the policy, for importing is no node's doing; whatever runs afterwards and is in no scope, a thread that a module
started for instance, is under the policy of a replay.
"""

import asyncio
import socket
import traceback
from collections.abc import Coroutine, Mapping
from typing import Any

from isoline_client.guard import policy
from isoline_client.guard.channel_host import ChannelHost
from isoline_client.guard.codec import from_json, to_json
from isoline_client.guard.frames import Frames, Message
from isoline_client.guard.guarded import run_guarded
from isoline_client.guard.policy import OUTSIDE, Policy
from isoline_client.guard.raised import raised_from
from isoline_client.workflow.actions import StartNode
from isoline_client.workflow.authoring import load_workflows
from isoline_client.workflow.context import ContextParts
from isoline_client.workflow.definition import Workflow
from isoline_client.workflow.results import Draw, NodeResult


async def serve(channel: socket.socket) -> None:
    """Do what the executor says until its end of the channel is closed."""
    policy.set_floor(Policy.REPLAY)
    await Dispatcher(await Frames.over(channel)).serve()


class Dispatcher:
    """What one worker is doing."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._workflows: dict[str, Workflow] = {}
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._asks: dict[int, asyncio.Future[Any]] = {}
        self._last_ask = 0

    async def serve(self) -> None:
        """Hear messages until there are no more."""
        while (message := await self._frames.receive()) is not None:
            match message["op"]:
                case "load":
                    self._begin(message["id"], self._load(message))
                case "run":
                    self._begin(message["id"], self._run(message))
                case "answer":
                    self._answered(message)
                case "cancel":
                    self._cancel(message["id"])

    def _begin(self, call: int, work: Coroutine[Any, Any, Message]) -> None:
        task = self._calls[call] = asyncio.create_task(self._finish(call, work))
        task.add_done_callback(lambda _task: self._calls.pop(call, None))

    def _cancel(self, call: int) -> None:
        """Cancel a call, and say so once nothing of it is left."""
        task = self._calls.get(call)
        if task is None:
            self._frames.post({"op": "cancelled", "id": call})
        else:
            task.add_done_callback(lambda _task: self._frames.post({"op": "cancelled", "id": call}))
            task.cancel()

    async def _finish(self, call: int, work: Coroutine[Any, Any, Message]) -> None:
        """Send what became of a call. What cannot be said, outputs over the limit for one, is a failure of the call."""
        try:
            await self._frames.send({**await work, "id": call})
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - it is told to the executor, who knows what it means
            why = "".join(traceback.format_exception_only(error)).strip()
            await self._frames.send({"op": "failed", "id": call, "why": why})

    async def _load(self, message: Message) -> Message:
        with policy.within(OUTSIDE):
            found = load_workflows(",".join(message["modules"]))
        self._workflows.update(found)
        return {"op": "loaded", "workflows": sorted(found)}

    async def _run(self, message: Message) -> Message:
        workflow = self._workflows[message["workflow_id"]]
        start: StartNode = from_json(StartNode, message["start"])
        host = ChannelHost(
            role=workflow.node_type(start.node_id).role,
            draws=from_json(tuple[Draw, ...], message["draws"]),
            ask=lambda what, args: self._ask(message["id"], what, args),
        )
        parts = from_json(ContextParts, message["parts"])
        result = await run_guarded(Policy.REPLAY, workflow, start, parts, host)
        return {"op": "done", "result": to_json(NodeResult, result)}

    async def _ask(self, call: int, what: str, args: Mapping[str, Any]) -> Any:
        self._last_ask += 1
        ask = self._last_ask
        answer = self._asks[ask] = asyncio.get_running_loop().create_future()
        try:
            await self._frames.send({"op": "ask", "id": call, "ask": ask, "what": what, "args": dict(args)})
            return await answer
        finally:
            del self._asks[ask]

    def _answered(self, message: Message) -> None:
        answer = self._asks.get(message["ask"])
        if answer is None or answer.done():
            return
        match message["value"]:
            case {"raised": raised}:
                answer.set_exception(raised_from(raised))
            case {"returned": returned}:
                answer.set_result(returned)
