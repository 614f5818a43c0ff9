"""Whatever a workflow is and however its nodes end: a log that is cut anywhere and gone on with becomes the same log."""

from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st

from isoline_client.workflow import Edge, NodeSpec, NodeType, Retry, Settings, When, Workflow
from isoline_client.workflow.results import Completed, Failed, Failure, NodeResult
from isoline_client.workflow.validation import problems_of
from workflow.runs import STARTED, go_on, next_of

RULES = ("all_success", "any_success", "all_done", "none_failed", "any_failed", "all_failed")


@st.composite
def workflows(draw):
    count = draw(st.integers(1, 6))
    names = [f"n{number}" for number in range(count)]
    nodes = tuple(
        NodeSpec(id=name, type_id="x.noop", retry=Retry(max_attempts=draw(st.integers(1, 3)), first_backoff_ms=1))
        for name in names
    )
    edges = tuple(
        Edge(
            id=f"e{place}",
            source=draw(st.sampled_from(names)),
            target=draw(st.sampled_from(names)),
            trigger_rule=draw(st.sampled_from(RULES)),
            when=draw(st.none() | st.builds(When, st.just("/v"), st.integers(0, 2))),
        )
        for place in range(draw(st.integers(0, 9)))
    )
    return Workflow(
        workflow_id="w",
        version=1,
        nodes=nodes,
        edges=edges,
        settings=Settings(max_loopback_iterations=draw(st.integers(1, 3))),
        types={"x.noop": NodeType("x.noop", "pure", lambda _ctx, _inputs: {})},
    )


@st.composite
def outcomes(draw):
    """How each execution ends is a function of the node and its number: the same whenever it is run."""
    seed = draw(st.integers(0, 2**30))

    def outcome(start):
        kind = crc32(f"{seed} {start.node_id} {start.execution}".encode()) % 7
        if kind < 2:
            error = Failure(code="example.bad", message="bad", retryable=kind == 0)
            return NodeResult(outcome=Failed(error=error))
        return NodeResult(outcome=Completed(outputs={"v": kind % 3}))

    return outcome


@settings(max_examples=300, deadline=None)
@given(workflow=workflows(), outcome=outcomes(), data=st.data())
def test_a_log_cut_anywhere_goes_on_to_the_same_log(workflow, outcome, data):
    assert all(problem.field == "trigger_rule" for problem in problems_of(workflow)), "rules that never hold: skipped"
    whole = go_on(workflow, [STARTED], outcome)

    cut = data.draw(st.integers(1, len(whole)))

    assert go_on(workflow, whole[:cut], outcome) == whole


@settings(max_examples=150, deadline=None)
@given(workflow=workflows(), outcome=outcomes())
def test_a_run_ends_once_and_counts_its_executions(workflow, outcome):
    whole = go_on(workflow, [STARTED], outcome)

    ends = [kind for kind, _, _ in whole if kind in ("run.completed", "run.failed", "run.cancelled")]
    assert ends == [whole[-1][0]]
    open_now = None
    for place, (kind, node_id, payload) in enumerate(whole):
        if kind == "node.started":
            assert open_now is None, "one thing at a time"
            open_now = node_id
            before = sum(k in ("node.completed", "node.failed") and n == node_id for k, n, _ in whole[:place])
            action = next_of(workflow, whole[:place])
            assert (action.node_id, action.execution) == (node_id, before + 1)
            assert payload["x-isoline-visit"] <= max(1, workflow.settings.max_loopback_iterations)
        elif kind in ("node.completed", "node.failed"):
            assert open_now == node_id
            open_now = None
