"""What a node is given: draws and their coordinates, writes, effects, models, people."""

import asyncio

import pytest

from isoline_client.workflow import (
    Completed,
    EffectOutcome,
    InDoubt,
    LlmRequest,
    LlmResponse,
    Parked,
    Suspended,
    Workflow,
    effect_id,
    interrupt_id,
    invocation_key,
    ordinal_number,
)
from isoline_client.workflow.errors import Doubt
from isoline_client.workflow.host import DispatchOutcome
from isoline_client.workflow.identity import EFFECTS_MAX
from isoline_client.workflow.results import ChannelWrite, MemoryWrite, Pin, VariableChange
from workflow.runs import RUN, AHost, executed, failure, outputs


def of(handler, role="pure", **options):
    made = Workflow.define("example.w", version=1, **options)
    made.node(role=role, id="n")(handler)
    return made


async def ran(handler, host=None, *, role="pure", inputs=None, parts=None, **options):
    return await executed(of(handler, role, **options).build(), "n", host, inputs, **(parts or {}))


async def everything(ctx, _inputs):
    return {
        "at": (await ctx.now()).isoformat(),
        "dice": [await ctx.random(), await ctx.random()],
        "id": await ctx.new_id(),
        "env": await ctx.env("ISOLINE_NOT_SET"),
        "own": await ctx.draw("x-coin", lambda: "heads"),
    }


async def test_each_source_counts_for_itself():
    result = await ran(everything, sources=("clock", "random", "id", "env", "x-coin"))

    assert [(draw.at.scope, draw.at.source, draw.at.ordinal) for draw in result.draws] == [
        ("", "clock", 0),
        ("", "env", 0),
        ("", "id", 0),
        ("", "random", 0),
        ("", "random", 1),
        ("", "x-coin", 0),
    ]
    assert outputs(result)["env"] is None
    assert len(str(outputs(result)["id"])) == 26
    assert outputs(result)["own"] == "heads"


async def test_recorded_draws_give_the_same_outputs():
    sources = ("clock", "random", "id", "env", "x-coin")
    first = await ran(everything, sources=sources)

    again = await ran(everything, AHost.replaying(first.draws), sources=sources)

    assert again == first


@pytest.mark.parametrize("swallowed", [False, True])
async def test_an_undeclared_source_fails_the_node_always(swallowed):
    async def handler(ctx, _inputs):
        try:
            await ctx.draw("x-dice", lambda: 1)
        except Exception:
            if not swallowed:
                raise
        return {}

    error = failure(await ran(handler))

    assert (error.code, error.retryable, error.details) == ("isoline.undeclared_source", False, {"source": "x-dice"})


async def test_parts_that_run_side_by_side_have_coordinates_of_their_own():
    """Whoever is faster: the first part takes longer in one run, the second in the other."""

    def handler(slow):
        async def part(ctx, number):
            for _ in range(5 if number == slow else 1):
                await asyncio.sleep(0)
            return [await ctx.random(), *(await ctx.gather(ctx.random(), ctx.new_id()))]

        async def whole(ctx, _inputs):
            return {"parts": await ctx.gather(part(ctx, 0), part(ctx, 1)), "later": await ctx.gather(ctx.random())}

        return whole

    first = await ran(handler(0))
    again = await ran(handler(1), AHost.replaying(first.draws))

    assert outputs(again) == outputs(first)
    assert again.draws == first.draws
    assert {draw.at.scope for draw in first.draws} == {"0", "0.0", "0.1", "1", "1.0", "1.1", "2"}


async def test_plain_gather_is_in_order_up_to_the_first_await():
    async def handler(ctx, _inputs):
        return {"drawn": await asyncio.gather(ctx.random(), ctx.new_id(), ctx.random())}

    first = await ran(handler)

    assert outputs(await ran(handler, AHost.replaying(first.draws))) == outputs(first)


async def test_a_gather_waits_for_all_and_raises_the_first_by_place():
    ended = []

    async def handler(ctx, _inputs):
        async def good():
            await asyncio.sleep(0)
            ended.append("good")

        async def bad(text, pauses):
            for _ in range(pauses):
                await asyncio.sleep(0)
            raise ValueError(text)

        assert await ctx.gather() == []
        await ctx.gather(bad("first", 5), bad("second", 0), good())

    assert failure(await ran(handler)).message == "ValueError: first"
    assert ended == ["good"]


async def test_what_a_node_writes_is_kept_until_it_completes():
    async def handler(ctx, _inputs):
        ctx.set_variable("v", {"a": 1})
        ctx.write_channel("c", 1)
        ctx.write_channel("d", 2, reducer="replace")
        name = await ctx.memory.write("m", [1], tags=("t",))
        return {
            "v": ctx.variables,
            "m": ctx.memory.read("m"),
            "old": ctx.memory.read("o"),
            "c": ctx.channels,
            "id": name,
        }

    result = await ran(handler, parts={"variables": {"v": 0, "w": 1}, "memory": {"o": 7}, "channels": {"c": [0]}})

    assert result.variables == (VariableChange(name="v", next={"a": 1}),)
    assert result.channels == (
        ChannelWrite(channel="c", reducer="append", value=1),
        ChannelWrite(channel="d", reducer="replace", value=2),
    )
    found = outputs(result)
    assert result.memory == (MemoryWrite(memory_ref="m", memory_id=str(found["id"]), value=[1], tags=("t",)),)
    assert (found["v"], found["m"], found["old"], found["c"]) == ({"v": {"a": 1}, "w": 1}, [1], 7, {"c": [0]})


async def test_the_id_of_a_memory_is_the_same_in_a_replay():
    """Also where nodes may not draw ids themselves."""

    async def handler(ctx, _inputs):
        return {"id": await ctx.memory.write("m", 1)}

    first = await ran(handler, sources=())

    assert outputs(await ran(handler, AHost.replaying(first.draws), sources=())) == outputs(first)


async def test_what_a_node_sees_of_the_run_is_a_copy():
    async def handler(ctx, inputs):
        ctx.variables["v"].append(1)
        ctx.channels["c"].append(1)
        ctx.memory.read("m").append(1)
        inputs["i"].append(1)

    parts = {"variables": {"v": []}, "channels": {"c": []}, "memory": {"m": []}}
    given = {"i": []}
    await ran(handler, inputs=given, parts=parts)

    assert (parts, given) == ({"variables": {"v": []}, "channels": {"c": []}, "memory": {"m": []}}, {"i": []})


async def test_an_unknown_reducer_is_refused():
    async def handler(ctx, _inputs):
        ctx.write_channel("c", 1, reducer="guess")

    assert "guess" in failure(await ran(handler)).message


# --- versions ---------------------------------------------------------------------------------------------------------------------------


def versioned(highest):
    async def handler(ctx, _inputs):
        return {"took": [ctx.get_version("c", 1, highest), ctx.get_version("c", 1, highest)]}

    return handler


async def test_a_run_that_has_no_pin_takes_the_highest_version_and_is_pinned_once():
    result = await ran(versioned(3))

    assert outputs(result) == {"took": [3, 3]}
    assert result.pins == (Pin(change_id="c", version=3),)


async def test_a_pinned_run_takes_the_recorded_branch():
    result = await ran(versioned(3), parts={"pins": {"c": 1}})

    assert (outputs(result), result.pins) == ({"took": [1, 1]}, ())


async def test_a_replay_takes_the_branch_its_source_recorded_and_records_it_too():
    result = await ran(versioned(3), parts={"recorded_pins": {"c": 2}})

    assert (outputs(result), result.pins) == ({"took": [2, 2]}, (Pin(change_id="c", version=2),))


async def test_a_version_that_the_code_has_lost():
    error = failure(await ran(versioned(3), parts={"pins": {"c": 9}}))

    assert error.code == "isoline.version_unsupported"
    assert error.details == {"changeId": "c", "pinned": 9, "lowest": 1, "highest": 3}


# --- people and time --------------------------------------------------------------------------------------------------------------------


def asking(swallow=False):
    async def handler(ctx, _inputs):
        try:
            return {"answer": await ctx.interrupt("ok", kind="clarification", data={"q": 1})}
        except Exception:
            return {}
        except BaseException:
            if swallow:
                return {"swallowed": True}
            raise

    return handler


@pytest.mark.parametrize("swallow", [False, True])
async def test_an_unanswered_interrupt_suspends(swallow):
    host = AHost()

    result = await ran(asking(swallow), host)

    assert isinstance(result.outcome, Suspended)
    asked = result.outcome.interrupt
    assert (asked.key, asked.kind, asked.data) == ("ok", "clarification", {"q": 1})
    assert asked.interrupt_id == interrupt_id(RUN, "n", 1, "ok")
    assert asked.interrupt_id.startswith("acme/")
    assert len(asked.interrupt_id) == len("acme/") + 26


async def test_an_answered_interrupt_gives_its_value():
    assert outputs(await ran(asking(), AHost(answers={"ok": {"resumeValue": [1]}}))) == {"answer": [1]}


def test_an_interrupts_id_is_that_of_its_run_node_visit_and_key():
    ids = {
        interrupt_id(*each)
        for each in [
            (RUN, "n", 1, "k"),
            (RUN, "n", 2, "k"),
            (RUN, "m", 1, "k"),
            (RUN, "n", 1, "l"),
            ("acme/other", "n", 1, "k"),
        ]
    }

    assert len(ids) == 5


@pytest.mark.parametrize(
    "said",
    [
        {"decision": "rejected"},
        {"decision": "no"},
        {"action": "reject"},
        {"action": "timeout"},
        {"action": "refine"},
        {"action": "rejected"},
        {"action": "accept", "decision": "rejected"},
    ],
)
async def test_a_rejection_fails_the_node(said):
    async def handler(ctx, _inputs):
        return {"value": await ctx.approval("ok")}

    error = failure(await ran(handler, AHost(answers={"ok": said})))

    assert (error.code, error.retryable) == ("approval_rejected", False)


async def test_a_kind_of_interrupt_that_nobody_knows():
    async def handler(ctx, _inputs):
        await ctx.interrupt("ok", kind="guess")

    assert failure(await ran(handler)).code == "node_config_invalid"


async def test_a_sleep_parks_until_it_is_over():
    async def handler(ctx, _inputs):
        await ctx.sleep(500)

    assert (await ran(handler, AHost(remaining=120))).outcome == Parked(wake_in_ms=120)
    assert (await ran(handler)).outcome == Completed(outputs={})


# --- effects ----------------------------------------------------------------------------------------------------------------------------


def shop(handler, role="side-effect"):
    made = of(handler, role)

    @made.tool()
    async def charge(ticket, arguments):
        return {"key": ticket.idempotency_key, "got": dict(arguments)}

    return made.build()


async def test_a_tool_is_called_with_the_identity_of_its_effect():
    async def handler(ctx, _inputs):
        return {"first": await ctx.tool("charge", amount=3), "second": await ctx.tool("charge", amount=3)}

    host = AHost()
    result = await executed(shop(handler), "n", host)

    ids = [effect_id("acme", RUN, "n", number, "tool:charge") for number in (0, 1)]
    assert outputs(result) == {
        "first": {"key": ids[0], "got": {"amount": 3}},
        "second": {"key": ids[1], "got": {"amount": 3}},
    }
    assert [(effect.seam, effect.provider_key, effect.ordinal) for effect in host.effects] == [
        ("tool.charge", "tool:charge", 0),
        ("tool.charge", "tool:charge", 1),
    ]
    assert host.effects[0].request_digest == host.effects[1].request_digest


async def test_another_request_has_another_digest():
    async def handler(ctx, inputs):
        await ctx.tool("charge", amount=inputs["amount"])

    one, two = AHost(), AHost()
    await executed(shop(handler), "n", one, {"amount": 1})
    await executed(shop(handler), "n", two, {"amount": 2})

    assert one.effects[0].effect_id == two.effects[0].effect_id
    assert one.effects[0].request_digest != two.effects[0].request_digest


async def test_an_unknown_tool():
    async def handler(ctx, _inputs):
        await ctx.tool("missing")

    assert failure(await executed(shop(handler), "n")).code == "node_config_invalid"


@pytest.mark.parametrize("role", ["pure", "llm"])
@pytest.mark.parametrize("what", ["tool", "http", "dispatch"])
@pytest.mark.parametrize("swallowed", [False, True])
async def test_only_side_effect_nodes_have_effects(role, what, swallowed):
    async def handler(ctx, _inputs):
        calls = {
            "tool": lambda: ctx.tool("charge"),
            "http": lambda: ctx.http.get("http://127.0.0.1:9/"),
            "dispatch": lambda: ctx.dispatch("w"),
        }
        try:
            await calls[what]()
        except Exception:
            if not swallowed:
                raise

    host = AHost()
    error = failure(await executed(shop(handler, role), "n", host))

    assert error.code == "isoline.effect_not_allowed"
    assert host.effects == host.dispatched == []


async def test_a_pure_node_asks_no_model():
    async def handler(ctx, _inputs):
        await ctx.llm(LlmRequest(provider="acme", model="m", messages=[]))

    assert failure(await ran(handler)).code == "isoline.effect_not_allowed"


async def test_a_failed_effect_fails_the_node_as_it_says():
    async def handler(ctx, _inputs):
        await ctx.tool("charge")

    class Refusing(AHost):
        async def effect(self, request, send):
            return EffectOutcome(state="failed", code="example.no", message="no", retryable=False)

    error = failure(await executed(shop(handler), "n", Refusing()))

    assert (error.code, error.message, error.retryable) == ("example.no", "no", False)


async def test_an_effect_in_doubt_is_no_failure():
    async def handler(ctx, _inputs):
        try:
            await ctx.tool("charge")
        except Exception:
            return {}

    class Doubting(AHost):
        async def effect(self, request, send):
            raise Doubt(request.effect_id)

    result = await executed(shop(handler), "n", Doubting())

    assert result.outcome == InDoubt(effect_id=effect_id("acme", RUN, "n", 0, "tool:charge"))


def test_the_activity_recipe():
    """The worked example of our digest of the specification."""
    assert (
        effect_id("acme", "acme/0123456789abcdef", "n1", 0, "openai:chat:completions")
        == "ffm-gYmKb9igPWLL8iWWtd6Xzh1UmFaZQQ0edf0neGQ"
    )


def test_effects_are_numbered_across_visits():
    assert [ordinal_number(visit, ordinal) for visit, ordinal in [(1, 0), (1, 999), (2, 0), (3, 7)]] == [
        0,
        999,
        1000,
        2007,
    ]


async def test_more_effects_than_can_be_told_apart_are_refused_by_name():
    async def handler(ctx, _inputs):
        for _ in range(EFFECTS_MAX + 1):
            await ctx.tool("charge")

    host = AHost()
    error = failure(await executed(shop(handler), "n", host))

    assert (error.code, error.details, len(host.effects)) == ("isoline.too_many_effects", {"limit": 1000}, 1000)


async def test_a_dispatched_run():
    async def handler(ctx, _inputs):
        return await ctx.dispatch("example.child", {"x": 1})

    waiting = AHost()
    assert (await executed(shop(handler), "n", waiting)).outcome == Parked(wake_in_ms=250)
    ended = AHost(child=DispatchOutcome(child_run_id="acme/child0123456789", status="completed", outputs={"y": 2}))
    result = await executed(shop(handler), "n", ended)
    assert outputs(result) == {"y": 2}
    assert (result.dispatched[0].child_run_id, result.dispatched[0].status) == ("acme/child0123456789", "completed")
    assert waiting.dispatched == ended.dispatched


async def test_a_dispatched_run_that_fails_fails_the_node():
    async def handler(ctx, _inputs):
        return await ctx.dispatch("example.child")

    host = AHost(child=DispatchOutcome(child_run_id="acme/child0123456789", status="failed"))

    assert failure(await executed(shop(handler), "n", host)).code == "isoline.child_failed"


# --- models -----------------------------------------------------------------------------------------------------------------------------

HELLO = LlmRequest(provider="acme", model="m1", messages=[{"role": "user", "content": "hello"}])


def talk(handler, response=None):
    made = of(handler, "llm")

    @made.model("acme")
    async def answer(request):
        assert request == HELLO
        return response or LlmResponse(content="hi")

    return made.build()


async def test_a_model_is_asked_under_its_key():
    async def handler(ctx, _inputs):
        return {"said": [(await ctx.llm(HELLO)).content, (await ctx.llm(HELLO)).content]}

    host = AHost()
    result = await executed(talk(handler), "n", host)

    assert outputs(result) == {"said": ["hi", "hi"]}
    assert host.invoked == [(invocation_key(HELLO), 0), (invocation_key(HELLO), 1)]


async def test_a_refusal_of_the_model_is_recorded_and_fails_the_node():
    async def handler(ctx, _inputs):
        await ctx.llm(HELLO)

    refused = LlmResponse(kind="refusal", refusal_text="no", safety_category="harm")
    result = await executed(talk(handler, refused), "n")

    assert failure(result).code == "isoline.llm_refused"
    (refusal,) = result.refusals
    assert (refusal.provider, refusal.model, refusal.text, refusal.safety_category) == ("acme", "m1", "no", "harm")


async def test_an_answer_that_does_not_pass_is_a_refusal_too():
    def envelope(content):
        if content != "yes":
            raise ValueError("must be yes")

    async def handler(ctx, _inputs):
        return {"said": (await ctx.llm(HELLO, envelope=envelope)).content}

    result = await executed(talk(handler), "n")
    assert failure(result).code == "isoline.llm_refused"
    assert [refusal.text for refusal in result.refusals] == ["must be yes"]
    passed = await executed(talk(handler, LlmResponse(content="yes")), "n")
    assert (outputs(passed), passed.refusals) == ({"said": "yes"}, ())


async def test_a_provider_that_nobody_serves():
    async def handler(ctx, _inputs):
        await ctx.llm(HELLO)

    assert failure(await executed(of(handler, "llm").build(), "n")).code == "node_config_invalid"
