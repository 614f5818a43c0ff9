"""The workflow that the demo's executors run: choose a lamp, order it over HTTP, write the receipt. Run again by replays, without the order.

It draws from every kind of source and has one external effect, so that a replay has something to reproduce and something to hold back.
"""

from collections.abc import Mapping
from typing import Any, Final

from isoline_client.workflow import Context, Workflow

ORDER_ID: Final = "example.order"

lamp: Final = Workflow.define(ORDER_ID, version=1)


@lamp.node(role="pure")
async def choose(ctx: Context, _inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Draws: a replay that begins before it executes it again, and draws the same."""
    quantity = 1 if await ctx.random() < 0.5 else 2
    return {"sku": "lamp-desk", "quantity": quantity, "reference": await ctx.new_id()}


@lamp.node(role="side-effect", after=[choose])
async def order(ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The external effect: a replay serves its recorded outcome."""
    answer = await ctx.http.post(f"{inputs['run']['shop']}/orders", json=inputs["choose"])
    answer.raise_for_status()
    return {"orderId": answer.json()["orderId"], "totalCents": answer.json()["totalCents"]}


@lamp.node(role="pure", after=[order])
async def receipt(ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Executed again by a replay, with what was recorded of the order and of the clock."""
    ctx.set_variable("spentCents", inputs["order"]["totalCents"])
    return {"text": f"{inputs['order']['orderId']} at {(await ctx.now()).isoformat()}"}
