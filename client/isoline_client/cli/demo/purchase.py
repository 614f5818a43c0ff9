"""The demo's own workflow: an agent that buys office supplies in the shop over HTTP, and tells a log what it does as it does it.

A call is told before it goes out and its answer when it is there. Payloads are OpenWOP v2's (runStarted, agentToolCalled and so on); clock
and entropy values are declared as masked. No reading back, no judging: those are ``steps``' business.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Self

import httpx

from isoline_client.events import NewEvent

Tell = Callable[[NewEvent], Awaitable[None]]

WORKFLOW_ID: Final = "example.purchase"
SHOPPING_LIST: Final = {"paper": 3, "lamp": 2, "chair": 4}

_AGENT: Final = "example.buyer"
_CALL_S: Final = 10.0


async def buy_supplies(shop_url: str, tell: Tell) -> None:
    """Run the workflow to its end."""
    async with httpx.AsyncClient(base_url=shop_url, timeout=_CALL_S, trust_env=False) as http:
        await _Purchase(http, tell).run()


@dataclass(slots=True)
class _Purchase:
    http: httpx.AsyncClient
    tell: Tell
    orders: list[str] = field(default_factory=list)
    spent_cents: int = 0
    calls: int = 0

    async def run(self) -> None:
        started_s = time.monotonic()
        inputs = {"shoppingList": SHOPPING_LIST, "currency": "EUR"}
        await self.tell(NewEvent("run.started", {"workflowId": WORKFLOW_ID, "inputs": inputs, "transport": "rest"}))
        for want, quantity in SHOPPING_LIST.items():
            skus = await self._search(want)
            quotes = await self._price(want, skus, quantity)
            await self._order(want, sorted(quotes, key=quotes.__getitem__), quantity)
        outputs = {"orders": self.orders, "spentCents": self.spent_cents}
        ended = {"outputs": outputs, "durationMs": _since_ms(started_s)}
        await self.tell(NewEvent("run.completed", ended, masked=("/durationMs", "/outputs/orders")))

    async def _search(self, want: str) -> list[str]:
        async with _Node(self.tell, f"search-{want}", "example.catalogue-search") as node:
            found = await self._call(node, "catalogue.search", "GET", "/catalogue", {"search": want})
            skus = [item["sku"] for item in found.json()["items"]]
            node.outputs = {"skus": skus}
        return skus

    async def _price(self, want: str, skus: list[str], quantity: int) -> dict[str, int]:
        quotes: dict[str, int] = {}
        async with _Node(self.tell, f"price-{want}", "example.price-quotes") as node:
            for sku in skus:
                answer = await self._call(node, "price.quote", "GET", "/quotes", {"sku": sku, "quantity": quantity})
                quotes[sku] = answer.json()["unitCents"]
                quote = {"sku": sku, "unitCents": quotes[sku]}
                await self._tell_of(node, "channel.written", {"channel": "quotes", "reducer": "append", "value": quote})
            node.outputs = {"unitCents": quotes}
        return quotes

    async def _order(self, want: str, cheapest_first: list[str], quantity: int) -> None:
        """Order the cheapest that the shop has enough of."""
        async with _Node(self.tell, f"order-{want}", "example.place-order") as node:
            for sku in cheapest_first:
                answer = await self._call(node, "order.place", "POST", "/orders", {"sku": sku, "quantity": quantity})
                if answer.is_success:
                    await self._book(node, want, sku, answer.json())
                    return

    async def _book(self, node: "_Node", want: str, sku: str, order: dict[str, Any]) -> None:
        self.orders.append(order["orderId"])
        self.spent_cents += order["totalCents"]
        spent = {"channel": "spent-cents", "reducer": "counter", "value": order["totalCents"]}
        await self._tell_of(node, "channel.written", spent)
        bought = {"name": f"bought-{want}", "next": {"sku": sku, "orderId": order["orderId"]}, "nodeId": node.node_id}
        await self._tell_of(node, "variable.changed", bought, masked=("/next/orderId",))
        node.outputs = {"sku": sku, "totalCents": order["totalCents"]}

    async def _call(
        self, node: "_Node", tool: str, method: str, path: str, arguments: dict[str, Any]
    ) -> httpx.Response:
        """Call a tool of the shop, telling before and after."""
        self.calls += 1
        call = {"agentId": _AGENT, "toolName": tool, "callId": f"call-{self.calls}"}
        await self._tell_of(node, "agent.tool-called", {**call, "inputs": arguments, "transport": "http"})
        started_s = time.monotonic()
        if method == "GET":
            answer = await self.http.get(path, params=arguments)
        else:
            answer = await self.http.post(path, json=arguments)
        returned = {**call, **_outcome(answer), "durationMs": _since_ms(started_s)}
        clocks = [f"/outcome/{name}" for name in ("quotedAt", "orderId") if name in returned.get("outcome", ())]
        await self._tell_of(node, "agent.tool-returned", returned, masked=("/durationMs", *clocks))
        return answer

    async def _tell_of(
        self, node: "_Node", event_type: str, payload: dict[str, Any], *, masked: tuple[str, ...] = ()
    ) -> None:
        await self.tell(NewEvent(event_type, payload, node_id=node.node_id, masked=masked))


class _Node:
    """One node of the workflow: told when it starts and when it is done."""

    def __init__(self, tell: Tell, node_id: str, type_id: str) -> None:
        self.node_id = node_id
        self.outputs: dict[str, Any] = {}
        self._tell = tell
        self._type_id = type_id
        self._started_s = 0.0

    async def __aenter__(self) -> Self:
        self._started_s = time.monotonic()
        started = {"nodeId": self.node_id, "typeId": self._type_id, "attempt": 0}
        await self._tell(NewEvent("node.started", started, node_id=self.node_id))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            done = {"nodeId": self.node_id, "outputs": self.outputs, "durationMs": _since_ms(self._started_s)}
            await self._tell(NewEvent("node.completed", done, node_id=self.node_id, masked=("/durationMs",)))


def _outcome(answer: httpx.Response) -> dict[str, Any]:
    if answer.is_success:
        return {"outcome": answer.json(), "status": "ok"}
    error = {"code": "example.shop_refused", "message": f"HTTP {answer.status_code}", "details": answer.json()}
    return {"error": error, "status": "error"}


def _since_ms(started_s: float) -> int:
    return round((time.monotonic() - started_s) * 1000)
