"""What the drill's executors run: three orders one after the other, each a real effect on the shop of the executor's region.

An effect is named by its run and its node, so the shop's ledger tells when one was carried out twice. A replay must not reach the shop; a
branch is a run of its own, and its effects are its own.
"""

import os
from collections.abc import Mapping
from typing import Any, Final

from isoline_client.workflow import Context, Workflow

ORDERS_ID: Final = "drill.orders"
SHOP_ENV: Final = "ISOLINE_DRILL_SHOP"
"""The URL of the shop: the environment of the executor says it, for a run may be forked into another region than its own."""

orders: Final = Workflow.define(ORDERS_ID, version=1)


@orders.node(role="pure")
async def choose(ctx: Context, _inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Draws, so that a replay has something to reproduce."""
    return {"quantity": 1 + int(10 * await ctx.random()), "at": (await ctx.now()).isoformat()}


@orders.node(role="side-effect", after=[choose])
async def first(ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Order."""
    return await _order(ctx, inputs["choose"]["quantity"])


@orders.node(role="side-effect", after=[first])
async def second(ctx: Context, _inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Order again."""
    return await _order(ctx, 1)


@orders.node(role="side-effect", after=[second])
async def third(ctx: Context, _inputs: Mapping[str, Any]) -> dict[str, Any]:
    """And again."""
    return await _order(ctx, 1)


async def _order(ctx: Context, quantity: int) -> dict[str, Any]:
    effect = f"{ctx.run_id} {ctx.node_id}"
    answer = await ctx.http.post(f"{os.environ[SHOP_ENV]}/orders", json={"effect": effect, "quantity": quantity})
    answer.raise_for_status()
    return {"carriedOut": answer.json()["carriedOut"]}
