"""A live node under the guard: a pure one may not leave either, its host may, and a denial cannot be swallowed."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from isoline_client.guard import Policy, current
from isoline_client.guard.guarded import live_policy, run_guarded
from isoline_client.workflow.actions import StartNode
from isoline_client.workflow.context import Context, ContextParts
from isoline_client.workflow.definition import NodeSpec, NodeType, Role, Settings, Workflow
from isoline_client.workflow.host import EffectOutcome, EffectTicket
from isoline_client.workflow.results import Completed, Failed, NodeResult


class LiveHost:
    """Does what it is asked, and remembers under which policy it was."""

    def __init__(self) -> None:
        self.policies: list[Policy] = []

    async def draw(self, source, scope, ordinal, fresh) -> Any:
        self.policies.append(current().policy)
        return fresh()

    async def effect(self, request, send) -> EffectOutcome:
        self.policies.append(current().policy)
        return await send(EffectTicket(effect_id=request.effect_id, attempt=1))


async def run(
    role: Role, handler: Any, inputs: Mapping[str, Any] | None = None, host: LiveHost | None = None
) -> NodeResult:
    workflow = Workflow(
        workflow_id="live",
        version=1,
        nodes=(NodeSpec(id="n", type_id="t"),),
        settings=Settings(sources=("x-own", "random")),
        types={"t": NodeType("t", role, handler)},
    )
    start = StartNode(node_id="n", type_id="t", visit=1, attempt=0, execution=1, inputs=inputs or {})
    parts = ContextParts(run_id="acme/eu-01JZZZZZZZZZZZZZZZZZZZZZZZ")
    return await run_guarded(live_policy(role), workflow, start, parts, host or LiveHost())


async def get(context: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    async with httpx.AsyncClient() as client:
        return {"status": (await client.get(inputs["url"])).status_code}


async def get_and_swallow(context: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    context.set_variable("written", 1)
    await context.random()
    try:
        return await get(context, inputs)
    except Exception:
        return {"status": "unknown"}


def get_in_a_thread(context: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"status": httpx.get(inputs["url"]).status_code}


@pytest.fixture
def url(outside) -> dict[str, str]:
    return {"url": f"http://127.0.0.1:{outside.port}/"}


@pytest.mark.parametrize("handler", [get, get_and_swallow, get_in_a_thread])
async def test_a_live_pure_node_that_tries_to_leave_fails(handler, url, outside):
    result = await run("pure", handler, url)

    assert isinstance(result.outcome, Failed)
    assert result.outcome.error.code == "isoline.effect_denied"
    assert result.outcome.error.details == {"seam": "http.request"}
    assert outside.reached == 0


async def test_what_it_wanted_to_write_is_lost_and_what_it_drew_is_kept(url):
    result = await run("pure", get_and_swallow, url)

    assert result.variables == ()
    assert [draw.at.source for draw in result.draws] == ["random"]


@pytest.mark.parametrize("role", ["side-effect", "llm"])
async def test_a_live_node_of_another_role_may_leave(role, url, outside):
    result = await run(role, get, url)

    assert result.outcome == Completed(outputs={"status": 200})
    assert outside.reached > 0


async def test_the_host_is_outside_and_what_it_calls_of_the_node_is_inside():
    inside = []

    async def draws(context: Context, inputs: Mapping[str, Any]) -> None:
        await context.draw("x-own", lambda: inside.append(current().policy))

    host = LiveHost()
    await run("pure", draws, host=host)

    assert host.policies == [Policy.OPEN]
    assert inside == [Policy.PURE]


async def test_an_effect_is_sent_inside_of_the_node():
    inside = []

    async def send(ticket: EffectTicket) -> EffectOutcome:
        inside.append(current().policy)
        return EffectOutcome(state="completed")

    async def effect(context: Context, inputs: Mapping[str, Any]) -> None:
        await context.effect("http.request", "POST shop", {}, send)

    host = LiveHost()
    await run("side-effect", effect, host=host)

    assert host.policies == [Policy.OPEN]
    assert inside == [Policy.EFFECTS]
    assert current().policy is Policy.OPEN
