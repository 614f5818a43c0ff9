"""Values that cross the border to a replay worker come back equal."""

import json

import pytest

from isoline_client.events import NewEvent
from isoline_client.guard.codec import from_json, to_json
from isoline_client.guard.errors import FrameTooLarge
from isoline_client.guard.frames import encode
from isoline_client.guard.raised import raised_document, raised_from
from isoline_client.limits import WORKER_FRAME_BYTES_MAX
from isoline_client.workflow.actions import StartNode
from isoline_client.workflow.context import ContextParts
from isoline_client.workflow.errors import Doubt, NodeError, Park, Suspend
from isoline_client.workflow.host import InterruptRequest, LlmRequest, LlmResponse
from isoline_client.workflow.results import (
    ChannelWrite,
    Completed,
    Dispatched,
    Draw,
    DrawAt,
    Failed,
    Failure,
    InDoubt,
    MemoryWrite,
    NodeResult,
    Parked,
    Pin,
    Refusal,
    Suspended,
    VariableChange,
)

ASKED = InterruptRequest(interrupt_id="t/i", key="k", kind="approval", data={"is": "Completed", "a": [1, None]})
FULL = NodeResult(
    outcome=Completed(outputs={"is": "Failed", "value": {"deep": [1.5, "ä", None, True]}}),
    pins=(Pin(change_id="c", version=2),),
    variables=(VariableChange(name="v", next=[{}]),),
    channels=(ChannelWrite(channel="c", reducer="append", value={"x": 1}),),
    memory=(MemoryWrite(memory_ref="r", memory_id="m", value=None, tags=("a", "b")),),
    dispatched=(Dispatched(child_run_id="r", workflow_id="w", status="completed"),),
    refusals=(Refusal(provider="p", model="m", text=None, safety_category="s"),),
    draws=(Draw(at=DrawAt(scope="0", source="random", ordinal=3), value=0.1),),
)
OUTCOMES = [
    Failed(error=Failure(code="a.b", message="m", retryable=False, details={"x": 1})),
    Suspended(interrupt=ASKED, requested=True),
    Parked(wake_in_ms=5),
    InDoubt(effect_id="e"),
]
VALUES = [
    (NodeResult, FULL),
    *((NodeResult, NodeResult(outcome=each)) for each in OUTCOMES),
    (
        StartNode,
        StartNode(node_id="n", type_id="t", visit=2, attempt=1, execution=3, inputs={"a": {"b": []}}, delay_ms=4),
    ),
    (ContextParts, ContextParts(run_id="r", variables={"a": 1}, pins={"c": 1}, memory={"m": None})),
    (
        LlmRequest,
        LlmRequest(provider="p", model="m", messages=[{"role": "user"}], stop=["x"], response_format={"a": 1}),
    ),
    (LlmResponse, LlmResponse(kind="refusal", content=None, refusal_text="no", cost={"usd": 1})),
    (tuple[Draw, ...], FULL.draws),
]


@pytest.mark.parametrize(("declared", "value"), VALUES)
def test_a_value_comes_back_equal(declared, value):
    document = json.loads(json.dumps(to_json(declared, value)))

    back = from_json(declared, document)
    assert type(back) is type(value)
    assert to_json(declared, back) == document
    if not isinstance(value, LlmRequest):  # whose sequences may come back as tuples
        assert back == value


def test_an_event_comes_back_with_the_same_bytes():
    event = NewEvent("memory.written", b'{"a":  1.0}', node_id="n", masked=["/a"], causation_id="c")

    back = from_json(NewEvent, json.loads(json.dumps(to_json(NewEvent, event))))

    assert {each: getattr(back, each) for each in NewEvent.__slots__} == {
        each: getattr(event, each) for each in NewEvent.__slots__
    }


@pytest.mark.parametrize(
    "error",
    [NodeError("a.b", "m", retryable=False, details={"x": 1}), Suspend(ASKED, requested=True), Park(3), Doubt("e")],
)
def test_what_a_host_raises_comes_back(error):
    back = raised_from(json.loads(json.dumps(raised_document(error))))

    assert type(back) is type(error)
    assert vars(back) == vars(error)


def test_a_message_over_the_limit_is_refused():
    with pytest.raises(FrameTooLarge):
        encode({"text": "x" * WORKER_FRAME_BYTES_MAX})
