"""A workflow to try the executors with: ``isoline run start example.greeting --inputs '{"name": "you"}'``."""

from collections.abc import Mapping
from typing import Any

from isoline_client.workflow import Context, Workflow

greeting = Workflow.define("example.greeting", version=1)


@greeting.node(role="pure")
async def greet(ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Draws a number that a replay draws again."""
    return {"text": f"hello, {inputs['run']['name']}", "number": await ctx.new_id()}
