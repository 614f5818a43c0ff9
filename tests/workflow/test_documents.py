"""Workflows as OpenWOP workflow JSON."""

import json
from pathlib import Path

import pytest

from isoline_client.workflow import (
    CORE,
    Constant,
    DefinitionInvalid,
    LoopLimit,
    NodeOutput,
    NodeType,
    Retry,
    RunInput,
    Variable,
    When,
    load_json,
    load_workflows,
)
from workflow.runs import STARTED, go_on, next_of, told

LOOP = Path(__file__).parents[1] / "golden" / "openwop" / "conformance-replay-ordinal-loop.json"


def test_the_example_executes_its_effect_twice():
    """As spec says of ``maxLoopbackIterations`` 2; the third entry ends the run."""
    workflow = load_json(LOOP.read_text())

    log = go_on(workflow, [STARTED])

    assert told(log) == [
        "run.started",
        "started start",
        "completed start",
        "started effect",
        "completed effect",
        "started wait",
        "completed wait",
        "started effect",
        "completed effect",
        "started wait",
        "completed wait",
        "workflow.loopback-limit effect",
        "run.failed",
    ]
    assert next_of(workflow, log[:-2]) == LoopLimit(node_id="effect", iterations=2, limit=2)
    assert log[-2][2] == {"nodeId": "effect", "iterations": 2, "limit": 2}
    assert log[-1][2]["error"]["code"] == "loop_limit_exceeded"
    assert [
        payload["x-isoline-visit"] for kind, node, payload in log if (kind, node) == ("node.started", "effect")
    ] == [1, 2]


def test_the_examples_input_is_its_variable():
    workflow = load_json(LOOP.read_text())
    seen = []

    def outcomes(start):
        from workflow.runs import done

        seen.append((start.node_id, dict(start.inputs)))
        return done(start)

    go_on(workflow, [STARTED], outcomes)
    go_on(workflow, [("run.started", "", {"inputs": {"delayMs": 7}})], outcomes)

    assert [inputs for node, inputs in seen if node == "wait"] == [{"delayMs": 3000}] * 2 + [{"delayMs": 7}] * 2


def test_every_member():
    workflow = load_json(
        {
            "id": "w",
            "version": "1.2",
            "nodes": [
                {"id": "a", "typeId": "core.noop", "config": {"k": 1}},
                {
                    "id": "b",
                    "typeId": "example.own",
                    "inputs": {
                        "c": {"type": "literal", "value": [1]},
                        "d": {"type": "constant", "value": None},
                        "v": {"type": "variable", "variableName": "x"},
                        "i": {"type": "runInput", "name": "y"},
                        "n": {"type": "nodeOutput", "nodeId": "a", "path": "/p"},
                    },
                    "x-isoline-retry": {"maxAttempts": 2, "firstBackoffMs": 5, "factor": 3, "maxBackoffMs": 50},
                    "x-isoline-timeout-ms": 9,
                },
            ],
            "edges": [
                {
                    "sourceNodeId": "a",
                    "targetNodeId": "b",
                    "triggerRule": "all_done",
                    "x-isoline-when": {"path": "/p", "equals": 0},
                }
            ],
            "variables": [{"name": "x", "defaultValue": 1}, {"name": "z"}],
            "settings": {"timeout": 60000, "x-isoline-sources": ["clock", "x-dice"]},
        },
        CORE.with_types(NodeType("example.own", "llm", lambda _ctx, _inputs: {})),
    )

    assert workflow.version == "1.2"
    assert workflow.variables == {"x": 1, "z": None}
    assert workflow.settings.sources == ("clock", "x-dice")
    assert workflow.settings.timeout_ms == 60000
    assert workflow.node("a").inputs is None
    assert workflow.node("b").inputs == {
        "c": Constant([1]),
        "d": Constant(None),
        "v": Variable("x"),
        "i": RunInput("y"),
        "n": NodeOutput("a", "/p"),
    }
    assert workflow.node("b").retry == Retry(max_attempts=2, first_backoff_ms=5, factor=3.0, max_backoff_ms=50)
    assert workflow.node("b").timeout_ms == 9
    assert workflow.edges[0].when == When("/p", 0)
    assert (workflow.edges[0].id, workflow.edges[0].trigger_rule) == ("edge-0", "all_done")
    assert workflow.node_type("b").role == "llm"


def test_all_problems_of_a_document_are_said_at_once():
    document = {
        "version": True,
        "nodes": [
            {"id": 3, "typeId": "core.noop"},
            "x",
            {"id": "b", "typeId": "core.nothing", "inputs": {"a": {"type": "guess"}}},
        ],
        "edges": [{"id": "e", "sourceNodeId": "b"}],
        "settings": {"timeout": "long"},
    }

    with pytest.raises(DefinitionInvalid) as caught:
        load_json(json.dumps(document))

    found = {(each.where, each.field) for each in caught.value.problems}
    assert {
        ("workflow", "id"),
        ("workflow", "version"),
        ("workflow", "nodes/1"),
        ("node", "id"),
        ("node b", "type_id"),
        ("node b", "inputs.a"),
        ("edge e", "targetNodeId"),
        ("settings", "timeout"),
    } <= found


def test_a_document_that_is_no_object():
    with pytest.raises(DefinitionInvalid, match="must be an object"):
        load_json("[]")


@pytest.mark.parametrize(
    ("change", "where", "field"),
    [
        (lambda row: row.update(subgraphs=[]), "workflow", "subgraphs"),
        (lambda row: row.update(settings={"maxLoopBackIterations": 2}), "settings", "maxLoopBackIterations"),
        (lambda row: row["nodes"][0].update(retryPolicy={}), "node a", "retryPolicy"),
        (
            lambda row: row["nodes"][0].update({"x-isoline-retry": {"attempts": 3}}),
            "node a",
            "x-isoline-retry.attempts",
        ),
        (lambda row: row["nodes"][0].update({"x-isoline-timeout": 3}), "node a", "x-isoline-timeout"),
        (
            lambda row: row["nodes"][1].update(inputs={"x": {"type": "variable", "variableName": "v", "else": 1}}),
            "node b",
            "inputs.x",
        ),
        (lambda row: row["edges"][0].update(condition="x > 1"), "edge a-b", "condition"),
        (
            lambda row: row["edges"][0].update({"x-isoline-when": {"path": "/x", "not": 1}}),
            "edge a-b",
            "x-isoline-when.not",
        ),
        (lambda row: row.update(variables=[{"name": "v", "required": True}]), "variable v", "required"),
        (lambda row: row.update(variables=[{"name": "v"}, {"name": "v"}]), "variable v", "name"),
    ],
)
def test_a_member_that_could_change_the_meaning_is_refused(change, where, field):
    document = {
        "id": "w",
        "name": "A name",
        "metadata": {"tags": []},
        "triggers": [],
        "nodes": [{"id": "a", "typeId": "core.noop", "position": {"x": 0}}, {"id": "b", "typeId": "core.noop"}],
        "edges": [{"id": "a-b", "sourceNodeId": "a", "targetNodeId": "b", "label": "then"}],
    }
    load_json(document)
    change(document)

    with pytest.raises(DefinitionInvalid) as caught:
        load_json(document)

    assert [(each.where, each.field) for each in caught.value.problems] == [(where, field)]


@pytest.mark.parametrize("body", [b"{", b'{"id": "\xe4"}'])
def test_a_file_that_is_no_json_is_named(tmp_path, body):
    path = tmp_path / "broken.json"
    path.write_bytes(body)

    with pytest.raises(ValueError, match=r"broken\.json is not JSON"):
        load_workflows(str(path))
