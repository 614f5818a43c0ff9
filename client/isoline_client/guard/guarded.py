"""A node's execution under a policy, wherever it runs: the node inside, its host outside, and a denial that was swallowed brought to light."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from isoline_client.guard.errors import EffectDenied
from isoline_client.guard.policy import OUTSIDE, Policy, Scope, enter, within
from isoline_client.workflow.context import (
    EffectOutcome,
    EffectRequest,
    EffectTicket,
    Failed,
    Host,
    LlmRequest,
    LlmResponse,
    NodeResult,
)
from isoline_client.workflow.definition import Json, Role, Workflow
from isoline_client.workflow.plan import StartNode


def live_policy(role: Role) -> Policy:
    """The policy of a node in a live run."""
    return Policy.PURE if role == "pure" else Policy.EFFECTS


async def run_guarded(policy: Policy, workflow: Workflow, start: StartNode, parts: Parts, host: Host) -> NodeResult:
    """Run a node under ``policy``. If an effect was denied, the node has failed, whatever its handler made of the exception."""
    with enter(policy) as scope:
        result = await run_node(workflow, start, parts, OutsideHost(host, scope))
    return _denied(result, scope.denied[0]) if scope.denied else result


def _denied(result: NodeResult, error: EffectDenied) -> NodeResult:
    return replace(result, ending=Failed(error=error_object(error)), facts=())


class OutsideHost:
    """A host that works outside of the node's policy: it appends to the log, it sends. What the node hands it to call stays inside."""

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

    async def invoke(self, request: LlmRequest, key: str, repetition: int) -> LlmResponse:
        with within(OUTSIDE):
            return await self._host.invoke(request, key, repetition)

    async def interrupt(self, key: str, kind: str, data: Json) -> Json:
        with within(OUTSIDE):
            return await self._host.interrupt(key, kind, data)

    async def tool(self, name: str, arguments: Mapping[str, Json], ticket: EffectTicket) -> Json:
        with within(OUTSIDE):
            return await self._host.tool(name, arguments, ticket)

    async def dispatch(self, workflow_id: str, inputs: Mapping[str, Json], request_key: str) -> Json:
        with within(OUTSIDE):
            return await self._host.dispatch(workflow_id, inputs, request_key)
