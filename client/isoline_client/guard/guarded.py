"""A node's execution under a policy, wherever it runs: the node inside, its host outside, and a denial that was swallowed brought to light."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from isoline_client.guard.errors import EffectDenied
from isoline_client.guard.policy import OUTSIDE, Policy, Scope, enter, within
from isoline_client.workflow.actions import StartNode
from isoline_client.workflow.context import ContextParts
from isoline_client.workflow.definition import Role, Workflow
from isoline_client.workflow.host import (
    DispatchOutcome,
    DispatchRequest,
    EffectOutcome,
    EffectRequest,
    EffectTicket,
    Host,
    InterruptRequest,
    LlmRequest,
    LlmResponse,
)
from isoline_client.workflow.results import Failed, NodeResult
from isoline_client.workflow.running import failure_of, run_node
from isoline_client.workflow.values import Json


def live_policy(role: Role) -> Policy:
    """The policy of a node in a live run."""
    return Policy.PURE if role == "pure" else Policy.EFFECTS


async def run_guarded(
    policy: Policy, workflow: Workflow, start: StartNode, parts: ContextParts, host: Host
) -> NodeResult:
    """Run a node under ``policy``. If an effect was denied, the node has failed, whatever its handler made of the exception."""
    with enter(policy) as scope:
        result = await run_node(workflow, start, parts, OutsideHost(host, scope))
    return _failed(result, scope.denied[0]) if scope.denied else result


def _failed(result: NodeResult, error: EffectDenied) -> NodeResult:
    """A failure keeps what happened, and loses what it wanted to write."""
    return replace(result, outcome=Failed(error=failure_of(error)), variables=(), channels=(), memory=())


class OutsideHost:
    """A host that works outside of the node's policy: it appends to the log, it waits. What the node hands it to call stays inside."""

    def __init__(self, host: Host, scope: Scope) -> None:
        self._host = host
        self._scope = scope

    async def draw(self, source: str, scope: str, ordinal: int, fresh: Callable[[], Json]) -> Json:
        def inside() -> Json:
            with within(self._scope):
                return fresh()

        with within(OUTSIDE):
            return await self._host.draw(source, scope, ordinal, inside)

    async def effect(
        self, request: EffectRequest, send: Callable[[EffectTicket], Awaitable[EffectOutcome]]
    ) -> EffectOutcome:
        async def inside(ticket: EffectTicket) -> EffectOutcome:
            with within(self._scope):
                return await send(ticket)

        with within(OUTSIDE):
            return await self._host.effect(request, inside)

    async def invoke(
        self, request: LlmRequest, key: str, repetition: int, call: Callable[[], Awaitable[LlmResponse]]
    ) -> LlmResponse:
        async def inside() -> LlmResponse:
            with within(self._scope):
                return await call()

        with within(OUTSIDE):
            return await self._host.invoke(request, key, repetition, inside)

    async def interrupt(self, request: InterruptRequest) -> Mapping[str, Json]:
        with within(OUTSIDE):
            return await self._host.interrupt(request)

    async def dispatch(self, request: DispatchRequest) -> DispatchOutcome:
        with within(OUTSIDE):
            return await self._host.dispatch(request)

    async def remaining_ms(self, delay_ms: int) -> int:
        with within(OUTSIDE):
            return await self._host.remaining_ms(delay_ms)
