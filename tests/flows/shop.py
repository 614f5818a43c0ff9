"""Workflows that tests run: small shops whose effects reach a counting server, ``inputs["url"]``."""

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from isoline_client.workflow.context import Context
from isoline_client.workflow.definition import (
    Constant,
    Edge,
    NodeOutput,
    NodeSpec,
    NodeType,
    Retry,
    RunInput,
    Settings,
    When,
    Workflow,
)
from isoline_client.workflow.errors import NodeError, Park
from isoline_client.workflow.host import LlmRequest, LlmResponse


async def basket(ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Draws from every source."""
    return {
        "number": await ctx.new_id(),
        "dice": await ctx.random(),
        "at": (await ctx.now()).isoformat(),
        "home": await ctx.env("HOME"),
        "items": inputs.get("items") or ["tea"],
    }


async def charge(ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """One request, whose body holds a value drawn right before."""
    key = await ctx.new_id()
    answer = await ctx.http.post(f"{inputs['url']}/charge", json={"key": key, "number": inputs.get("number")})
    return {"status": answer.status_code, "key": key}


async def book(ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The other side knows it by its key, so it may be sent again."""
    return {"status": (await ctx.http.put(f"{inputs['url']}/book", idempotent=True)).status_code}


async def mail(ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    answer = await ctx.http.post(f"{inputs['url']}/mail/{ctx.visit}", cost={"currency": "EUR", "amount": "0.01"})
    return {"status": answer.status_code, "count": answer.json().get("count")}


async def fragile(ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Fails as the other side does."""
    answer = await ctx.http.post(f"{inputs['url']}/fragile")
    answer.raise_for_status()
    return {"status": answer.status_code}


def receipt(ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A plain function: it runs in a thread."""
    ctx.set_variable("receipt", f"{inputs['charge']['status']} for {inputs['charge']['key']}")
    ctx.write_channel("receipts", {"key": inputs["charge"]["key"]})
    return {"text": f"receipt {ctx.new_id()}"}


async def ask(ctx: Context, _inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"answer": await ctx.interrupt("go", kind="approval", data={"question": "ship it?"})}


async def ask_number(ctx: Context, _inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Asks about what it drew, and puts it out when it is run again behind the answer."""
    number = await ctx.new_id()
    return {"number": number, "answer": await ctx.interrupt("go", data={"number": number})}


async def endless(_ctx: Context, _inputs: Mapping[str, Any]) -> None:
    """Ends only when it is cut off."""
    await asyncio.Event().wait()


async def hold(ctx: Context, _inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A pure wait, as ``core.conformance.hold`` is: a replay does not wait."""
    remaining_ms = await ctx._host.remaining_ms(3_600_000)
    if remaining_ms:
        raise Park(remaining_ms)
    return {}


async def again(ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"more": ctx.visit < inputs["times"]}


async def tally(ctx: Context, _inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Declared as side-effecting, and does nothing outside: quick, for long runs."""
    return {"tally": ctx.visit, "dice": await ctx.random()}


async def remember(ctx: Context, _inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Facts: a pinned version, memory with an id of its own."""
    version = ctx.get_version("greeting", 1, 2)
    memory_id = await ctx.memory.write("guest", {"name": "Ada", "version": version}, tags=("people",))
    return {"version": version, "memory": memory_id}


async def recall(ctx: Context, _inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"guest": ctx.memory.read("guest")}


async def side_by_side(ctx: Context, _inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Parts that end in another order every time, and draw on the way."""

    async def part(number: int) -> list[Any]:
        first = await ctx.random()
        await asyncio.sleep(first / 500)
        return [number, first, await ctx.random()]

    return {"parts": await ctx.gather(*(part(number) for number in range(8)))}


def poem_request(inputs: Mapping[str, Any]) -> LlmRequest:
    return LlmRequest(
        provider="bard",
        model="bard-1",
        messages=[{"role": "user", "content": f"{inputs['url']} a poem on {inputs.get('on', 'tea')}"}],
    )


async def poem(ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"poem": (await ctx.llm(poem_request(inputs))).content}


async def bard(request: LlmRequest) -> LlmResponse:
    """A model over HTTP: it too reaches the counting server."""
    import httpx

    async with httpx.AsyncClient() as client:
        url = str(request.messages[0]["content"]).split()[0]
        answer = await client.post(f"{url}/model")
    if answer.status_code == 451:
        return LlmResponse(kind="refusal", refusal_text="not that")
    return LlmResponse(content={"verse": answer.json()}, cost={"currency": "EUR", "amount": "0.02"})


async def order_both(ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"child": dict(await ctx.dispatch("child", {"url": inputs["url"]}))}


async def fail_always(_ctx: Context, _inputs: Mapping[str, Any]) -> None:
    raise NodeError("example.broken", "always", retryable=True)


async def sly(_ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves by itself, past the context: no claim, no record. Its role lets it, live."""
    import httpx

    async with httpx.AsyncClient() as client:
        return {"status": (await client.post(f"{inputs['url']}/sly")).status_code}


async def ask_and_charge(ctx: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Suspends in the middle of a side-effecting node, so its execution begins twice."""
    granted = await ctx.interrupt("go", data={})
    answer = await ctx.http.post(f"{inputs['url']}/charge", json={"granted": granted})
    return {"status": answer.status_code, "granted": granted}


TYPES = {
    name: NodeType(name, role, handler)  # type: ignore[arg-type]
    for name, role, handler in (
        ("shop.basket", "pure", basket),
        ("shop.charge", "side-effect", charge),
        ("shop.mail", "side-effect", mail),
        ("shop.book", "side-effect", book),
        ("shop.fragile", "side-effect", fragile),
        ("shop.receipt", "pure", receipt),
        ("shop.ask", "pure", ask),
        ("shop.ask-number", "pure", ask_number),
        ("shop.endless", "pure", endless),
        ("shop.hold", "pure", hold),
        ("shop.again", "pure", again),
        ("shop.tally", "side-effect", tally),
        ("shop.remember", "pure", remember),
        ("shop.recall", "pure", recall),
        ("shop.side-by-side", "pure", side_by_side),
        ("shop.poem", "llm", poem),
        ("shop.order-both", "side-effect", order_both),
        ("shop.fail-always", "pure", fail_always),
        ("shop.sly", "llm", sly),
        ("shop.ask-and-charge", "side-effect", ask_and_charge),
    )
}
URL = {"url": RunInput("url")}


def chain(workflow_id: str, *nodes: NodeSpec, settings: Settings = Settings(), more: tuple[Edge, ...] = ()) -> Workflow:  # noqa: B008
    """Nodes one behind the other."""
    edges = tuple(Edge(id=f"{a.id}-{b.id}", source=a.id, target=b.id) for a, b in pairwise(nodes))
    return Workflow(
        workflow_id=workflow_id,
        version=1,
        nodes=nodes,
        edges=edges + more,
        settings=settings,
        types={node.type_id: TYPES[node.type_id] for node in nodes},
        models={"bard": bard},
    )


def node(name: str, **values: Any) -> NodeSpec:
    """The node ``name`` of the type ``shop.<name>``."""
    return NodeSpec(id=values.pop("id", name), type_id=f"shop.{name}", **values)


ORDER = chain(
    "order",
    node("basket"),
    node("charge", inputs={**URL, "number": NodeOutput("basket", "number")}),
    node("receipt", inputs={"charge": NodeOutput("charge")}),
)
LOOP = chain(
    "loop",
    node("basket"),
    node("mail", inputs=URL),
    node("again", inputs={"times": Constant(3)}),
    settings=Settings(max_loopback_iterations=3),
    more=(Edge(id="back", source="again", target="mail", when=When("more", equals=True)),),
)
LONG_ROUNDS = 700
"""Four events each: no two appends of a thousand events hold the whole run."""

LONG = chain(
    "long",
    node("basket"),
    node("tally"),
    node("again", inputs={"times": Constant(LONG_ROUNDS)}),
    settings=Settings(max_loopback_iterations=LONG_ROUNDS),
    more=(Edge(id="back", source="again", target="tally", when=When("more", equals=True)),),
)
ORDINAL = chain(
    "ordinal",
    node("basket"),
    node("charge", id="effect", inputs=URL),
    node("hold"),
    settings=Settings(max_loopback_iterations=2),
    more=(Edge(id="back", source="hold", target="effect"),),
)
BOOK = chain("book", node("book", inputs=URL))
APPROVAL = chain("approval", node("basket"), node("ask"), node("charge", inputs=URL))
ASK_NUMBER = chain("ask-number", node("ask-number"))
ENDLESS = chain("endless", node("basket"), node("endless"), node("charge", inputs=URL))
RETRY = chain("retry", node("fragile", inputs=URL, retry=Retry(max_attempts=3, first_backoff_ms=10)), node("basket"))
FAILING = chain("failing", node("fail-always", retry=Retry(max_attempts=2, first_backoff_ms=5)))
TIMEOUT = chain("timeout", node("endless", timeout_ms=50))
RUN_TIMEOUT = chain("run-timeout", node("endless"), settings=Settings(timeout_ms=300))
FACTS = chain("facts", node("remember"), node("recall"))
SIDE_BY_SIDE = chain("side-by-side", node("side-by-side"), node("charge", inputs=URL))
POEM = chain("poem", node("basket"), node("poem", inputs=URL), node("charge", inputs=URL))
CHILD = chain("child", node("charge", inputs=URL))
PARENT = chain("parent", node("order-both", inputs=URL), node("basket"))
SLY = chain("sly", node("basket"), node("sly", inputs=URL))
ASK_AND_CHARGE = chain("ask-and-charge", node("basket"), node("ask-and-charge", inputs=URL))

WORKFLOWS = [
    ASK_NUMBER,
    SLY,
    ASK_AND_CHARGE,
    ORDER,
    LOOP,
    LONG,
    ORDINAL,
    BOOK,
    APPROVAL,
    ENDLESS,
    RETRY,
    FAILING,
    TIMEOUT,
    RUN_TIMEOUT,
    FACTS,
    SIDE_BY_SIDE,
    POEM,
    CHILD,
    PARENT,
]
