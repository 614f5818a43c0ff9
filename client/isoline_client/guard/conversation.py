"""The executor's half of what is said to a replay worker: calls that run side by side, and the questions a node asks meanwhile.

Every message of the worker names the call it belongs to. What a call is about is not known here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from isoline_client.guard.errors import WorkerDied
from isoline_client.guard.frames import Message
from isoline_client.guard.process import WorkerProcess
from isoline_client.limits import WORKER_CANCEL_TIMEOUT_S

Answer = Callable[[str, Message], Awaitable[Message]]
"""Answers a question of a node: what it asks, and with which arguments. Whatever this raises ends the call, in the worker as well."""


async def no_answer(what: str, _arguments: Message) -> Message:
    """For calls in which nothing is asked."""
    raise AssertionError(f"nobody answers {what}")


@dataclass(slots=True, eq=False)
class _Call:
    answer: Answer
    result: asyncio.Future[Message]
    asked: set[asyncio.Task[None]] = field(default_factory=set)


class Conversation:
    """Calls to one worker process, from any number of tasks. It ends with the process."""

    def __init__(self, process: WorkerProcess) -> None:
        self._process = process
        self._calls: dict[int, _Call] = {}
        self._cancelled: dict[int, asyncio.TimerHandle] = {}
        self._last_id = 0
        self._ended: WorkerDied | None = None
        self._hearing = asyncio.create_task(self._hear())

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self._ended is not None

    @property
    def busy(self) -> int:
        """Calls without a result."""
        return len(self._calls)

    async def call(self, message: Message, answer: Answer = no_answer) -> Message:
        """Send a message and wait for its result. Cancelling this cancels the call in the worker."""
        if self._ended is not None:
            raise self._ended
        self._last_id += 1
        own_id = self._last_id
        call = self._calls[own_id] = _Call(answer, asyncio.get_running_loop().create_future())
        try:
            await self._send({**message, "id": own_id})
            return await call.result
        except BaseException:
            self._cancel(own_id)
            raise
        finally:
            self._calls.pop(own_id, None)
            for each in call.asked:
                each.cancel()

    async def close(self) -> None:
        """End the process and what still waits for it."""
        await self._process.stop()
        await self._hearing

    def _cancel(self, call: int) -> None:
        """Cancel a call in the worker. A node that lets nothing else run there does not hear it; then the whole process must go."""
        if self._ended is None:
            self._process.frames.post({"op": "cancel", "id": call})
            self._cancelled[call] = asyncio.get_running_loop().call_later(WORKER_CANCEL_TIMEOUT_S, self._process.kill)

    async def _send(self, message: Message) -> None:
        try:
            await self._process.frames.send(message)
        except ConnectionError:
            await self._hearing
            raise self._ended or WorkerDied("its channel is closed") from None

    async def _hear(self) -> None:
        while (message := await self._process.frames.receive()) is not None:
            call = self._calls.get(message["id"])
            if message["op"] != "ask" and (killing := self._cancelled.pop(message["id"], None)) is not None:
                killing.cancel()
            match message["op"]:
                case "ask" if call is not None:
                    asked = asyncio.create_task(self._respond(call, message))
                    call.asked.add(asked)
                    asked.add_done_callback(call.asked.discard)
                case "ask":
                    pass  # of a call that was cancelled
                case _ if call is not None and not call.result.done():
                    call.result.set_result(message)
        for killing in self._cancelled.values():
            killing.cancel()
        self._process.kill()
        self._ended = WorkerDied(await self._process.why())
        for call in self._calls.values():
            if not call.result.done():
                call.result.set_exception(self._ended)

    async def _respond(self, call: _Call, message: Message) -> None:
        try:
            value: Any = await call.answer(message["what"], message["args"])
            await self._send({"op": "answer", "id": message["id"], "ask": message["ask"], "value": value})
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the caller's, who waits for the result
            if not call.result.done():
                call.result.set_exception(error)
