"""The workflow that the demo's executors run: choose a lamp, order it over HTTP, write the receipt. Run again by replays, without the order.

It draws from every kind of source and has one external effect, so that a replay has something to reproduce and something to hold back.
"""

from collections.abc import Mapping
from typing import Any, Final

from isoline_client.workflow.context import Context
from isoline_client.workflow.definition import Edge, NodeOutput, NodeSpec, NodeType, RunInput, Workflow

ORDER_ID: Final = "example.order"


async def choose(ctx: Context, _inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Pure, with draws: a replay executes it again, and draws the same."""
    quantity = 1 if await ctx.random() < 0.5 else 2
    return {"sku": "lamp-desk", "quantity": quantity, "reference": await ctx.new_id()}


async def order(ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The external effect: a replay serves its recorded outcome."""
    answer = await ctx.http.post(f"{inputs['shop']}/orders", json=inputs["choice"])
    answer.raise_for_status()
    return {"orderId": answer.json()["orderId"], "totalCents": answer.json()["totalCents"]}


async def receipt(ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Pure again."""
    ctx.set_variable("spentCents", inputs["order"]["totalCents"])
    return {"text": f"{inputs['order']['orderId']} at {(await ctx.now()).isoformat()}"}


WORKFLOWS: Final = [
    Workflow(
        workflow_id=ORDER_ID,
        version=1,
        nodes=(
            NodeSpec(id="choose", type_id="example.choose"),
            NodeSpec(
                id="order", type_id="example.order", inputs={"shop": RunInput("shop"), "choice": NodeOutput("choose")}
            ),
            NodeSpec(id="receipt", type_id="example.receipt", inputs={"order": NodeOutput("order")}),
        ),
        edges=(
            Edge(id="choose-order", source="choose", target="order"),
            Edge(id="order-receipt", source="order", target="receipt"),
        ),
        types={
            each.type_id: each
            for each in (
                NodeType("example.choose", "pure", choose),
                NodeType("example.order", "side-effect", order),
                NodeType("example.receipt", "pure", receipt),
            )
        },
    )
]
