"""The host of a node in a replay worker: recorded draws were brought along, all else is asked over the channel, and nothing has an effect."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from isoline_client.guard.codec import llm_response_from
from isoline_client.guard.frames import Message
from isoline_client.workflow.context import (
    Draw,
    EffectOutcome,
    EffectRequest,
    EffectTicket,
    LlmRequest,
    LlmResponse,
)
from isoline_client.workflow.definition import Json
from isoline_client.workflow.errors import EffectNotAllowed, UndeclaredSource

Ask = Callable[[str, Message], Awaitable[Any]]
"""Asks the executor; raises what the executor's host raises."""


class ChannelHost:
    """A ``Host`` for one execution."""

    def __init__(self, *, node_id: str, sources: Iterable[str], draws: Iterable[Draw], ask: Ask) -> None:
        self._node_id = node_id
        self._sources = frozenset(sources)
        self._draws = {(draw.source, draw.scope, draw.ordinal): draw.value for draw in draws}
        self._ask = ask

    async def draw(self, source: str, scope: str, ordinal: int, fresh: Callable[[], Json]) -> Json:
        if source not in self._sources:
            raise UndeclaredSource(source)
        at = (source, scope, ordinal)
        return self._draws[at] if at in self._draws else fresh()

    async def invoke(self, request: LlmRequest, key: str, repetition: int) -> LlmResponse:
        answer = await self._ask("invoke", {"request": asdict(request), "key": key, "repetition": repetition})
        return llm_response_from(answer)

    async def interrupt(self, key: str, kind: str, data: Json) -> Json:
        return await self._ask("interrupt", {"key": key, "kind": kind, "data": data})

    async def effect(
        self, request: EffectRequest, send: Callable[[EffectTicket], Awaitable[EffectOutcome]]
    ) -> EffectOutcome:
        del send
        raise EffectNotAllowed(self._node_id, request.seam)

    async def tool(self, name: str, arguments: Mapping[str, Json], ticket: EffectTicket) -> Json:
        del arguments, ticket
        raise EffectNotAllowed(self._node_id, f"the tool {name}")

    async def dispatch(self, workflow_id: str, inputs: Mapping[str, Json], request_key: str) -> Json:
        del inputs, request_key
        raise EffectNotAllowed(self._node_id, f"the sub-run {workflow_id}")
