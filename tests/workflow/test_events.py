"""The events that an execution becomes: order, members, and what is declared as masked."""

import hashlib
import json

from isoline_client.workflow import (
    Completed,
    Failed,
    Failure,
    InDoubt,
    NodeResult,
    Parked,
    Workflow,
    start_events,
    terminal_events,
)
from isoline_client.workflow.results import (
    ChannelWrite,
    Dispatched,
    Draw,
    DrawAt,
    MemoryWrite,
    Pin,
    Refusal,
    VariableChange,
)
from workflow.runs import line_of, start_of, told


def workflow():
    made = Workflow.define("example.w", version=1)
    made.use("n", "core.noop")
    return made.build()


def draw(scope, source, ordinal, value):
    return Draw(at=DrawAt(scope=scope, source=source, ordinal=ordinal), value=value)


EVERYTHING = {
    "pins": (Pin(change_id="c", version=2),),
    "variables": (VariableChange(name="v", next=None), VariableChange(name="v", next=1)),
    "channels": (ChannelWrite(channel="ch", reducer="append", value=1),),
    "memory": (
        MemoryWrite(memory_ref="m", memory_id="i", value=3),
        MemoryWrite(memory_ref="m", memory_id="j", value=4, tags=("t",)),
    ),
    "dispatched": (Dispatched(child_run_id="acme/child0123456789", workflow_id="w", status="completed"),),
    "refusals": (Refusal(provider="p", model="m", text=None, safety_category="s"),),
    "draws": (draw("1", "id", 0, "b"), draw("", "random", 1, 2), draw("", "random", 0, 1), draw("0", "clock", 0, "a")),
}

DRAWN = [
    {"source": "random", "scope": "", "ordinal": 0, "value": 1},
    {"source": "random", "scope": "", "ordinal": 1, "value": 2},
    {"source": "clock", "scope": "0", "ordinal": 0, "value": "a"},
    {"source": "id", "scope": "1", "ordinal": 0, "value": "b"},
]


def test_the_start_says_which_execution_it_is():
    start = start_of(workflow(), "n", {"b": 1, "a": 2.0}, visit=3, attempt=1)

    (event,) = start_events(start)

    assert line_of(event) == (
        "node.started",
        "n",
        {
            "nodeId": "n",
            "typeId": "core.noop",
            "attempt": 1,
            "x-isoline-visit": 3,
            "x-isoline-inputs-digest": hashlib.sha256(b'{"a":2,"b":1}').hexdigest(),
        },
    )


def test_the_digest_of_inputs_knows_no_order_and_no_spelling_of_numbers():
    first = start_events(start_of(workflow(), "n", {"b": 1, "a": 2.0}))
    again = start_events(start_of(workflow(), "n", {"a": 2, "b": 1}))
    other = start_events(start_of(workflow(), "n", {"a": 2, "b": 2}))

    assert line_of(first[0]) == line_of(again[0])
    assert line_of(first[0]) != line_of(other[0])


def test_a_completed_execution_in_one_append():
    start = start_of(workflow(), "n")

    events = terminal_events(start, NodeResult(outcome=Completed(outputs={"o": 1}), **EVERYTHING))

    lines = [line_of(event) for event in events]
    assert told(lines) == [
        "version.pinned n",
        "variable.changed n",
        "variable.changed n",
        "channel.written n",
        "memory.written n",
        "memory.written n",
        "dispatched n",
        "envelope.refusal n",
        "completed n",
    ]
    assert [payload for _, _, payload in lines] == [
        {"nodeId": "n", "changeId": "c", "version": 2},
        {"nodeId": "n", "name": "v", "next": None},
        {"nodeId": "n", "name": "v", "next": 1},
        {"nodeId": "n", "channel": "ch", "reducer": "append", "value": 1},
        {"nodeId": "n", "memoryRef": "m", "memoryId": "i", "x-isoline-value": 3},
        {"nodeId": "n", "memoryRef": "m", "memoryId": "j", "x-isoline-value": 4, "tags": ["t"]},
        {"childRunId": "acme/child0123456789", "childWorkflowId": "w", "childStatus": "completed"},
        {"nodeId": "n", "provider": "p", "model": "m", "refusalText": None, "safetyCategory": "s"},
        {"nodeId": "n", "outputs": {"o": 1}, "x-isoline-draws": DRAWN},
    ]
    assert [event.masked for event in events[:-1]] == [()] * 8
    assert events[-1].masked == tuple(f"/x-isoline-draws/{place}/value" for place in range(4))


def test_a_failed_execution_keeps_what_happened_and_loses_what_it_wanted_to_write():
    error = Failure(code="example.bad", message="bad", retryable=False, details={"a": 1})

    events = terminal_events(
        start_of(workflow(), "n", attempt=2), NodeResult(outcome=Failed(error=error), **EVERYTHING)
    )

    lines = [line_of(event) for event in events]
    assert told(lines) == ["version.pinned n", "envelope.refusal n", "failed n"]
    assert lines[-1][2] == {
        "nodeId": "n",
        "error": {"code": "example.bad", "message": "bad", "retryable": False, "details": {"a": 1}},
        "attempts": 3,
        "x-isoline-draws": DRAWN,
    }
    assert len(events[-1].masked) == 4


def test_an_execution_that_is_put_off_leaves_no_trace():
    start = start_of(workflow(), "n")

    assert terminal_events(start, NodeResult(outcome=Parked(wake_in_ms=5), **EVERYTHING)) == []
    assert terminal_events(start, NodeResult(outcome=InDoubt(effect_id="e"), **EVERYTHING)) == []


def test_equal_executions_are_equal_bytes():
    start = start_of(workflow(), "n", {"a": [1, {"b": "é"}]})
    result = NodeResult(outcome=Completed(outputs={"o": 1}), **EVERYTHING)

    once = [event.payload_bytes for event in [*start_events(start), *terminal_events(start, result)]]
    again = [event.payload_bytes for event in [*start_events(start), *terminal_events(start, result)]]

    assert once == again
    assert all(json.loads(payload) for payload in once)
