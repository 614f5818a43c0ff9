"""The node types that every workflow may use."""

import pytest

from isoline_client.workflow import CORE, EffectNotSent, EffectOutcome, EffectTicket, Parked, Suspended, Workflow
from isoline_client.workflow.core_nodes import CORE as REGISTRY
from isoline_client.workflow.host import DispatchOutcome
from isoline_client.workflow.http import BODY_BYTES_MAX
from support.counting import Counting
from workflow.runs import AHost, executed, failure, outputs


async def ran(type_id, inputs=None, host=None, *, config=None, **options):
    made = Workflow.define("example.w", version=1, **options)
    made.use("n", type_id, config=config)
    return await executed(made.build(), "n", host, inputs)


def test_roles():
    assert {each.type_id: each.role for each in CORE} == {
        "core.noop": "pure",
        "core.transform": "pure",
        "core.approval": "pure",
        "core.delay": "side-effect",
        "core.http.request": "side-effect",
        "core.dispatch": "side-effect",
        "core.subworkflow": "side-effect",
        "core.conformance.hold": "pure",
        "core.conformance.side-effect": "side-effect",
        "core.conformance.nondeterminism": "pure",
    }
    assert "core.noop" in REGISTRY


async def test_noop():
    assert outputs(await ran("core.noop", {"a": 1})) == {}


async def test_delay_waits_and_then_says_how_long():
    assert (await ran("core.delay", {"delayMs": 30}, AHost(remaining=30))).outcome == Parked(wake_in_ms=30)
    assert outputs(await ran("core.delay", {"delayMs": 30})) == {"delayMs": 30}


@pytest.mark.parametrize("delay", ["soon", -1, True, 1.5])
async def test_a_delay_that_is_none(delay):
    error = failure(await ran("core.delay", {"delayMs": delay}))

    assert (error.code, error.details) == ("node_config_invalid", {"field": "delayMs"})


async def test_hold_puts_out_exactly_its_inputs():
    given = {"delayMs": 5, "x": {"y": [1]}}

    assert (await ran("core.conformance.hold", given, AHost(remaining=5))).outcome == Parked(wake_in_ms=5)
    assert outputs(await ran("core.conformance.hold", given)) == given


async def test_transform_picks_says_and_spells():
    config = {
        "outputs": {
            "picked": {"pick": "/order/items/0"},
            "dotted": {"pick": "order.id"},
            "missing": {"pick": "/order/none"},
            "usual": {"pick": "/order/none", "else": 0},
            "always": {"constant": {"a": [1]}},
            "text": {"template": "Order ${/order/id} of ${/order/items} costs $$5"},
        }
    }

    result = await ran("core.transform", {"order": {"id": "A1", "items": ["tea", 2]}}, config=config)

    assert outputs(result) == {
        "picked": "tea",
        "dotted": "A1",
        "missing": None,
        "usual": 0,
        "always": {"a": [1]},
        "text": 'Order A1 of ["tea",2] costs $5',
    }


@pytest.mark.parametrize(
    "outputs_",
    [None, {"a": 1}, {"a": {"eval": "1+1"}}, {"a": {"pick": "/x", "or": 1}}, {"a": {"constant": 1, "pick": "/x"}}],
)
async def test_a_transform_that_is_none(outputs_):
    error = failure(await ran("core.transform", config={"outputs": outputs_}))

    assert error.code == "node_config_invalid"


async def test_approval():
    asked = await ran("core.approval", {"data": {"sum": 3}}, config={"key": "boss"})
    assert isinstance(asked.outcome, Suspended)
    assert (asked.outcome.interrupt.key, asked.outcome.interrupt.data) == ("boss", {"sum": 3})
    granted = AHost(answers={"approval": {"resumeValue": "fine"}})
    assert outputs(await ran("core.approval", host=granted)) == {"value": "fine"}
    rejected = AHost(answers={"approval": {"action": "reject"}})
    assert failure(await ran("core.approval", host=rejected)).code == "approval_rejected"


@pytest.mark.parametrize("type_id", ["core.dispatch", "core.subworkflow"])
async def test_dispatch(type_id):
    host = AHost(child=DispatchOutcome(child_run_id="acme/child0123456789", status="completed", outputs={"y": 1}))

    result = await ran(type_id, {"inputs": {"x": 1}}, host, config={"workflowId": "example.child"})

    assert outputs(result) == {"y": 1}
    assert (host.dispatched[0].workflow_id, host.dispatched[0].inputs) == ("example.child", {"x": 1})


async def test_the_conformance_side_effect_is_one_effect():
    host = AHost()

    result = await ran("core.conformance.side-effect", host=host)

    assert outputs(result) == {"effectId": host.effects[0].effect_id}
    assert len(host.effects) == 1


@pytest.fixture
def outside():
    with Counting() as server:
        yield server


async def test_the_conformance_side_effect_may_be_seen_outside(outside):
    assert outputs(await ran("core.conformance.side-effect", {"url": outside.url})) == {"status": 200}
    assert [hit.method for hit in outside.hits] == ["POST"]


async def test_an_http_request(outside):
    host = AHost()
    given = {"url": f"{outside.url}/pay", "method": "post", "json": {"sum": 3}}

    found = outputs(await ran("core.http.request", given, host, config={"params": {"a": "b"}}))

    assert (found["status"], found["json"]) == (200, {"count": 1, "path": "/pay?a=b"})
    (hit,) = outside.hits
    (effect,) = host.effects
    assert (hit.method, hit.path, hit.body) == ("POST", "/pay?a=b", b'{"sum":3}')
    assert hit.key == effect.effect_id
    assert (effect.seam, effect.provider_key) == ("http.request", f"POST {outside.url.removeprefix('http://')}")


@pytest.mark.parametrize(("status", "again"), [(500, True), (429, True), (404, False)])
async def test_an_answer_that_says_no_fails_the_node(outside, status, again):
    outside.answer("/", (status, {}))

    error = failure(await ran("core.http.request", {"url": f"{outside.url}/"}))

    assert (error.code, error.retryable, error.details) == ("isoline.http_status", again, {"status": status})


async def test_a_connection_that_never_came_to_be_means_that_nothing_left():
    raised = []

    class Watching(AHost):
        async def effect(self, request, send):
            with pytest.raises(EffectNotSent) as caught:
                await send(EffectTicket(effect_id=request.effect_id, attempt=1))
            raised.append(caught.value)
            return EffectOutcome(state="failed", code="isoline.not_sent")

    with Counting() as server:
        gone = server.url
    await ran("core.http.request", {"url": gone}, Watching())

    assert len(raised) == 1


async def test_a_lost_answer_leaves_doubt(outside):
    outside.hang_up("/lost")
    raised = []

    class Watching(AHost):
        async def effect(self, request, send):
            try:
                return await send(EffectTicket(effect_id=request.effect_id, attempt=1))
            except Exception as error:
                raised.append(error)
                raise

    await ran("core.http.request", {"url": f"{outside.url}/lost"}, Watching())

    assert outside.count == 1
    assert not isinstance(raised[0], EffectNotSent)


async def test_a_large_answer_is_recorded_in_part(outside):
    outside.answer("/big", (200, "x" * (BODY_BYTES_MAX + 1)))

    found = outputs(await ran("core.http.request", {"url": f"{outside.url}/big"}))

    assert len(str(found["text"])) == BODY_BYTES_MAX
    assert "json" not in found


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", None])
async def test_a_url_that_is_none(url):
    assert failure(await ran("core.http.request", {"url": url})).code == "node_config_invalid"


async def test_credentials_are_not_in_the_provider_key(outside):
    host = AHost()

    await ran("core.http.request", {"url": outside.url.replace("http://", "http://user:secret@")}, host)

    assert "secret" not in host.effects[0].provider_key


async def test_one_draw_from_each_declared_source():
    result = await ran("core.conformance.nondeterminism", sources=("clock", "random", "id", "env", "x-dice"))

    assert set(outputs(result)) == {"clock", "random", "id", "env", "x-dice"}
    assert sorted(draw.at.source for draw in result.draws) == ["clock", "env", "id", "random", "x-dice"]
    assert set(outputs(await ran("core.conformance.nondeterminism", sources=("id",)))) == {"id"}
