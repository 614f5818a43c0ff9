"""The node types that every workflow may use. A member they need is taken from the node's inputs, else from its configuration.

=============================== =========== ==============================================================================================
type                            role        what it does
=============================== =========== ==============================================================================================
core.noop                       pure        nothing; puts out nothing
core.transform                  pure        ``transform`` of its inputs
core.approval                   pure        asks for an approval (``key``, ``data``); puts out ``{"value": …}``; a rejection fails it
core.delay                      side-effect waits ``delayMs``, across restarts
core.http.request               side-effect ``method``, ``url``, ``headers``, ``params``, ``json``; fails unless the status is 2xx
core.dispatch, core.subworkflow side-effect runs ``workflowId`` with ``inputs``; puts out what that run puts out
core.conformance.hold           pure        waits ``delayMs``; puts out its inputs, exactly
core.conformance.side-effect    side-effect one effect: a POST to ``url``, or, without one, one that goes nowhere
core.conformance.nondeterminism pure        one draw from each declared source
=============================== =========== ==============================================================================================
"""

import secrets
from collections.abc import Mapping
from typing import Any, Final

from isoline_client.workflow.context import Context
from isoline_client.workflow.errors import NodeError
from isoline_client.workflow.host import EffectOutcome, EffectTicket
from isoline_client.workflow.node_types import NodeTypes, node_type
from isoline_client.workflow.transform import transform

_Inputs = Mapping[str, Any]


@node_type("core.noop", role="pure")
async def noop(_ctx: Context, _inputs: _Inputs) -> _Inputs:
    return {}


@node_type("core.transform", role="pure")
async def transform_node(ctx: Context, inputs: _Inputs) -> _Inputs:
    return transform(ctx.config.get("outputs"), inputs)


@node_type("core.approval", role="pure")
async def approval(ctx: Context, inputs: _Inputs) -> _Inputs:
    key = _member(ctx, inputs, "key", str, "approval")
    return {"value": await ctx.approval(key, data=_member(ctx, inputs, "data", object, None))}


@node_type("core.delay", role="side-effect")
async def delay(ctx: Context, inputs: _Inputs) -> _Inputs:
    delay_ms = _delay_ms(ctx, inputs)
    await ctx.sleep(delay_ms)
    return {"delayMs": delay_ms}


@node_type("core.http.request", role="side-effect")
async def http_request(ctx: Context, inputs: _Inputs) -> _Inputs:
    answer = await ctx.http.request(
        _member(ctx, inputs, "method", str, "GET"),
        _member(ctx, inputs, "url", str),
        headers=_texts(ctx, inputs, "headers"),
        params=_texts(ctx, inputs, "params"),
        json=_member(ctx, inputs, "json", object, None),
        idempotent=_member(ctx, inputs, "idempotent", bool, False),
    )
    answer.raise_for_status()
    said = {"status": answer.status_code, "headers": answer.headers, "text": answer.text}
    is_json = answer.headers.get("content-type", "").partition(";")[0] == "application/json" and not answer.truncated
    return {**said, "json": answer.json()} if is_json else said


async def _dispatch(ctx: Context, inputs: _Inputs) -> _Inputs:
    return await ctx.dispatch(_member(ctx, inputs, "workflowId", str), _member(ctx, inputs, "inputs", Mapping, {}))


@node_type("core.conformance.hold", role="pure")
async def hold(ctx: Context, inputs: _Inputs) -> _Inputs:
    await ctx.sleep(_delay_ms(ctx, inputs))
    return inputs


@node_type("core.conformance.side-effect", role="side-effect")
async def side_effect(ctx: Context, inputs: _Inputs) -> _Inputs:
    url = _member(ctx, inputs, "url", str, "")
    if url:
        return {"status": (await ctx.http.post(url, json=dict(inputs))).status_code}

    async def send(ticket: EffectTicket) -> EffectOutcome:
        return EffectOutcome(state="completed", value=ticket.effect_id)

    outcome = await ctx.effect("conformance.side-effect", "conformance:side-effect", dict(inputs), send)
    return {"effectId": outcome.value}


@node_type("core.conformance.nondeterminism", role="pure")
async def nondeterminism(ctx: Context, _inputs: _Inputs) -> _Inputs:
    drawn: dict[str, Any] = {}
    for source in ctx.sources:
        match source:
            case "clock":
                drawn[source] = (await ctx.now()).isoformat()
            case "random":
                drawn[source] = await ctx.random()
            case "id":
                drawn[source] = await ctx.new_id()
            case "env":
                drawn[source] = await ctx.env("HOSTNAME")
            case _:
                drawn[source] = await ctx.draw(source, secrets.SystemRandom().random)
    return drawn


CORE: Final = NodeTypes(
    [
        noop,
        transform_node,
        approval,
        delay,
        http_request,
        node_type("core.dispatch", role="side-effect")(_dispatch),
        node_type("core.subworkflow", role="side-effect")(_dispatch),
        hold,
        side_effect,
        nondeterminism,
    ]
)


_REQUIRED: Final = object()


def _member(ctx: Context, inputs: _Inputs, name: str, kind: type, default: Any = _REQUIRED) -> Any:
    """A member of the inputs, else of the configuration; ``node_config_invalid`` when it is not what it has to be."""
    value = inputs[name] if inputs.get(name) is not None else ctx.config.get(name, default)
    if value is _REQUIRED:
        raise _invalid(name, "is missing")
    if value is not default and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise _invalid(name, f"must be {_NAMES[kind]}, not {type(value).__name__}")
    return value


def _delay_ms(ctx: Context, inputs: _Inputs) -> int:
    value = _member(ctx, inputs, "delayMs", int, 0)
    if value < 0:
        raise _invalid("delayMs", "must not be negative")
    return int(value)


def _texts(ctx: Context, inputs: _Inputs, name: str) -> Mapping[str, str]:
    found = _member(ctx, inputs, name, Mapping, {})
    if not all(isinstance(value, str) for value in found.values()):
        raise _invalid(name, "must hold strings")
    return dict(found)


def _invalid(name: str, why: str) -> NodeError:
    return NodeError("node_config_invalid", f"{name} {why}", retryable=False, details={"field": name})


_NAMES: Final = {str: "a string", int: "an integer", bool: "a boolean", Mapping: "an object"}
