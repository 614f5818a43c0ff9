"""The host of a node in a replay worker: recorded draws were brought along, all else is asked over the channel, and nothing has an effect."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from isoline_client.guard.codec import from_json, to_json
from isoline_client.workflow.definition import Role
from isoline_client.workflow.errors import EffectNotAllowed
from isoline_client.workflow.host import (
    DispatchOutcome,
    DispatchRequest,
    EffectOutcome,
    EffectRequest,
    EffectTicket,
    InterruptRequest,
    LlmRequest,
    LlmResponse,
)
from isoline_client.workflow.results import Draw, DrawAt
from isoline_client.workflow.values import Json

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Asks the executor; raises what the executor's host raises."""


class ChannelHost:
    """A ``Host`` for one execution."""

    def __init__(self, *, role: Role, draws: Iterable[Draw], ask: Ask) -> None:
        self._role = role
        self._draws = {draw.at: draw.value for draw in draws}
        self._ask = ask

    async def draw(self, source: str, scope: str, ordinal: int, fresh: Callable[[], Json]) -> Json:
        at = DrawAt(source=source, scope=scope, ordinal=ordinal)
        return self._draws[at] if at in self._draws else fresh()

    async def invoke(
        self, request: LlmRequest, key: str, repetition: int, call: Callable[[], Awaitable[LlmResponse]]
    ) -> LlmResponse:
        del call  # a model is never asked again
        asked = {"request": to_json(LlmRequest, request), "key": key, "repetition": repetition}
        response: LlmResponse = from_json(LlmResponse, await self._ask("invoke", asked))
        return response

    async def interrupt(self, request: InterruptRequest) -> Mapping[str, Json]:
        resolved: Mapping[str, Json] = await self._ask("interrupt", to_json(InterruptRequest, request))
        return resolved

    async def remaining_ms(self, delay_ms: int) -> int:
        return int(await self._ask("remaining_ms", {"delay_ms": delay_ms}))

    async def effect(
        self, request: EffectRequest, send: Callable[[EffectTicket], Awaitable[EffectOutcome]]
    ) -> EffectOutcome:
        del send
        raise EffectNotAllowed(request.seam, self._role)

    async def dispatch(self, request: DispatchRequest) -> DispatchOutcome:
        raise EffectNotAllowed(f"dispatch of {request.workflow_id}", self._role)
