"""Newer code for workflows of ``shop``, under the same ids: what a replay is run with after a deployment."""

from collections.abc import Mapping
from typing import Any

from flows.shop import FACTS, ORDER, POEM, bard, poem_request
from isoline_client.workflow.context import Context
from isoline_client.workflow.definition import NodeType, Workflow


async def remember(ctx: Context, _inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Takes a newer branch unless the run is pinned, and remembers something else."""
    version = ctx.get_version("greeting", 1, 3)
    memory_id = await ctx.memory.write("guest", {"name": "Grace", "version": version})
    return {"version": version, "memory": memory_id}


async def undeclared(ctx: Context, _inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"tea": await ctx.draw("x-tea", lambda: "green")}


async def picky(ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Takes no answer of the model's any more."""

    def never(_content: Any) -> None:
        raise ValueError("too short")

    return {"poem": (await ctx.llm(poem_request(inputs), envelope=never)).content}


def _with(workflow: Workflow, **handlers: Any) -> Workflow:
    types = {
        type_id: NodeType(type_id, kind.role, handlers.get(type_id.removeprefix("shop."), kind.handler))
        for type_id, kind in workflow.types.items()
    }
    return Workflow(
        workflow_id=workflow.workflow_id,
        version=2,
        nodes=workflow.nodes,
        edges=workflow.edges,
        settings=workflow.settings,
        types=types,
        models={"bard": bard},
    )


WORKFLOWS = [_with(FACTS, remember=remember), _with(ORDER, basket=undeclared), _with(POEM, poem=picky)]
