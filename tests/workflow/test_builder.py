"""Writing workflows in Python, and what is said of a definition that cannot be used."""

import sys
from types import ModuleType

import pytest

from isoline_client.workflow import (
    Constant,
    DefinitionInvalid,
    Edge,
    NodeOutput,
    NodeSpec,
    NodeType,
    Retry,
    Settings,
    When,
    Workflow,
    WorkflowBuilder,
    load_workflows,
)
from isoline_client.workflow.validation import problems_of


def written() -> WorkflowBuilder:
    purchase = Workflow.define("example.purchase", version=1, variables={"limit": 100}, max_loopback_iterations=3)

    @purchase.node(role="pure")
    async def quote(_ctx, _inputs):
        return {"total": 12}

    @purchase.node(role="side-effect", after=[quote], retry=Retry(max_attempts=3, first_backoff_ms=200))
    async def pay(_ctx, _inputs):
        return {}

    purchase.use("rest", "core.delay", after=[pay], config={"delayMs": 5})
    purchase.edge("rest", quote, when=When("/again", True))
    return purchase


def test_a_workflow_as_it_was_written():
    workflow = written().build()

    assert [node.id for node in workflow.nodes] == ["quote", "pay", "rest"]
    assert [(edge.id, edge.when is not None) for edge in workflow.edges] == [
        ("quote-pay", False),
        ("pay-rest", False),
        ("rest-quote", True),
    ]
    assert workflow.node("pay").retry == Retry(max_attempts=3, first_backoff_ms=200)
    assert workflow.node_type("pay").role == "side-effect"
    assert workflow.node_type("quote").type_id == "example.purchase.quote"
    assert workflow.node_type("rest").role == "side-effect"
    assert workflow.variables == {"limit": 100}


def test_a_built_workflow_is_finished():
    purchase = written()

    assert purchase.build() is purchase.build()
    with pytest.raises(RuntimeError, match="is built"):
        purchase.use("late", "core.noop")


def test_two_edges_between_the_same_nodes_have_ids_of_their_own():
    made = Workflow.define("example.two", version=1)
    made.use("a", "core.noop")
    made.use("b", "core.noop")
    made.edge("a", "b", when=When("/x", 1))
    made.edge("a", "b", when=When("/x", 2))

    assert [edge.id for edge in made.build().edges] == ["a-b", "a-b~2"]


def test_all_problems_are_said_at_once():
    workflow = Workflow(
        workflow_id="not an id",
        version=1,
        nodes=(
            NodeSpec(id="a", type_id="core.noop", retry=Retry(max_attempts=0), timeout_ms=-1),
            NodeSpec(id="a", type_id="core.missing"),
            NodeSpec(id="b", type_id="NoType", config={"deep": {"set": {1}}}),  # type: ignore[dict-item]
            NodeSpec(id="c", type_id="core.noop", inputs={"x": NodeOutput("nobody"), "y": Constant(float("nan"))}),
            NodeSpec(id="d", type_id="bad.role"),
        ),
        edges=(
            Edge(id="e", source="a", target="nowhere"),
            Edge(id="e", source="a", target="b", trigger_rule="sometimes"),  # type: ignore[arg-type]
        ),
        settings=Settings(timeout_ms=-1, max_loopback_iterations=-1, sources=("dice",)),
        types={
            "core.noop": NodeType("core.noop", "pure", lambda _c, _i: {}),
            "bad.role": NodeType("bad.role", "x", lambda _c, _i: {}),
        },  # type: ignore[arg-type]
    )

    found = {(problem.where, problem.field) for problem in problems_of(workflow)}

    assert found == {
        ("workflow", "id"),
        ("workflow", "timeout_ms"),
        ("workflow", "max_loopback_iterations"),
        ("workflow", "sources"),
        ("node a", "id"),
        ("node a", "retry"),
        ("node a", "timeout_ms"),
        ("node a", "type_id"),
        ("node b", "type_id"),
        ("node b", "config/deep/set"),
        ("node c", "inputs.x"),
        ("node c", "inputs.y"),
        ("node d", "role"),
        ("edge e", "id"),
        ("edge e", "target"),
        ("edge e", "trigger_rule"),
    }


def test_a_loop_without_a_bound_and_a_node_that_hides_the_inputs():
    made = Workflow.define("example.loop", version=1)
    made.use("run", "core.noop")
    made.use("b", "core.noop", after=["run"])
    made.edge("b", "run")

    with pytest.raises(DefinitionInvalid) as caught:
        made.build()

    assert [(each.where, each.field) for each in caught.value.problems] == [
        ("edge b-run", "target"),
        ("node b", "inputs"),
    ]
    assert "max_loopback_iterations" in str(caught.value)


@pytest.mark.parametrize(
    ("first", "second", "usable"),
    [
        ("all_success", "any_failed", False),
        ("all_success", "all_failed", False),
        ("any_success", "all_failed", False),
        ("none_failed", "any_failed", False),
        ("all_done", "all_failed", True),
        ("any_success", "any_failed", True),
        ("none_failed", "any_success", True),
    ],
)
def test_rules_of_one_node_that_never_hold_together(first, second, usable):
    made = Workflow.define("example.rules", version=1)
    for node_id in "abc":
        made.use(node_id, "core.noop")
    made.edge("a", "c", trigger=first)
    made.edge("b", "c", trigger=second)

    if usable:
        made.build()
    else:
        with pytest.raises(DefinitionInvalid, match=f"node c: trigger_rule: {first} and {second} never hold together"):
            made.build()


def test_a_workflow_without_nodes():
    with pytest.raises(DefinitionInvalid, match="nodes: there must be one"):
        Workflow.define("example.empty", version=1).build()


def test_a_function_that_is_no_node_is_named():
    made = Workflow.define("example.stray", version=1)

    @made.node(role="pure", after=[test_a_workflow_without_nodes])
    async def lonely(_ctx, _inputs):
        return {}

    with pytest.raises(DefinitionInvalid, match="there is no node 'test_a_workflow_without_nodes'"):
        made.build()


@pytest.fixture
def module():
    made = ModuleType("w4_flows")
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def test_a_module_may_hold_builders(module):
    module.purchase = written()

    assert load_workflows("w4_flows") == {"example.purchase": module.purchase.build()}


def test_a_modules_list_counts_before_its_members(module):
    module.draft = Workflow.define("example.draft", version=1)
    module.WORKFLOWS = [written()]

    assert list(load_workflows(" w4_flows ")) == ["example.purchase"]


def test_a_module_with_a_broken_workflow_is_refused(module):
    module.draft = Workflow.define("example.draft", version=1)

    with pytest.raises(DefinitionInvalid):
        load_workflows("w4_flows")


def test_two_workflows_with_one_id_are_refused(module):
    module.WORKFLOWS = [written(), written()]

    with pytest.raises(ValueError, match="two workflows have the id"):
        load_workflows("w4_flows")


@pytest.mark.parametrize("names", ["", "isoline_client.workflow.values", "no.such.module"])
def test_nothing_to_load(names):
    with pytest.raises(ValueError):
        load_workflows(names)
