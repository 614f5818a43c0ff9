"""What a run does next: order, trigger rules, loops, retries, and the ends of a run."""

from itertools import pairwise

import pytest

from isoline_client.workflow import (
    Constant,
    Ended,
    Fail,
    Finish,
    NodeOutput,
    NotStarted,
    Paused,
    Progress,
    ResumeNode,
    Retry,
    RetryNode,
    RunInput,
    SkipNode,
    StartNode,
    Variable,
    When,
    Workflow,
    plan,
)
from isoline_client.workflow.graph import Graph
from isoline_client.workflow.results import Completed, NodeResult
from workflow.runs import STARTED, done, failing, fold, go_on, line, next_of, told


def made(*names, **options):
    workflow = Workflow.define("example.w", version=1, **options)
    for name in names:
        workflow.use(name, "core.noop")
    return workflow


def chain(*names, **options):
    workflow = made(*names, **options)
    for source, target in pairwise(names):
        workflow.edge(source, target)
    return workflow


def test_nothing_before_the_run_is_started():
    assert next_of(made("a").build(), []) == NotStarted()


def test_nodes_in_order():
    workflow = chain("a", "b").build()

    log = go_on(workflow, [STARTED])

    assert told(log) == ["run.started", "started a", "completed a", "started b", "completed b", "run.completed"]
    assert log[-1][2] == {"outputs": {"b": {"n": 1}}}
    assert next_of(workflow, log) == Ended()


def test_of_nodes_that_become_due_together_the_first_by_definition_is_first():
    workflow = made("d", "c", "b", "a")
    workflow.edge("d", "a")
    workflow.edge("d", "b")

    assert [step for step in told(go_on(workflow.build(), [STARTED])) if "started" in step][1:] == [
        "started d",
        "started c",
        "started a",
        "started b",
    ]


def diamond(trigger):
    workflow = made("a", "left", "right", "join")
    workflow.edge("a", "left")
    workflow.edge("a", "right")
    workflow.edge("left", "join", trigger=trigger)
    workflow.edge("right", "join", trigger=trigger)
    return workflow.build()


@pytest.mark.parametrize(
    ("trigger", "failed", "joined", "end"),
    [
        ("all_success", (), True, "run.completed"),
        ("all_success", ("left",), False, "run.failed"),
        ("any_success", ("left",), True, "run.completed"),
        ("any_success", ("left", "right"), False, "run.failed"),
        ("all_done", ("left", "right"), True, "run.completed"),
        ("none_failed", (), True, "run.completed"),
        ("none_failed", ("right",), False, "run.failed"),
        ("any_failed", ("right",), True, "run.completed"),
        ("any_failed", (), False, "run.completed"),
        ("all_failed", ("left",), False, "run.failed"),
        ("all_failed", ("left", "right"), True, "run.completed"),
    ],
)
def test_trigger_rules(trigger, failed, joined, end):
    log = go_on(diamond(trigger), [STARTED], failing(*((node, 1) for node in failed)))

    assert ("started join" in told(log)) == joined
    assert told(log)[-1] == end


def test_a_failure_that_nothing_can_answer_ends_the_run_at_once():
    log = go_on(diamond("all_success"), [STARTED], failing(("left", 1)))

    assert told(log)[-2:] == ["failed left", "run.failed"]
    assert log[-1][2]["failedNodeId"] == "left"
    assert log[-1][2]["error"]["code"] == "example.bad"


def test_a_failure_that_was_not_answered_ends_the_run_when_nothing_else_is_left():
    log = go_on(diamond("all_failed"), [STARTED], failing(("left", 1)))

    assert told(log)[-4:] == ["started right", "completed right", "skipped join", "run.failed"]
    assert log[-1][2]["failedNodeId"] == "left"


def test_what_is_behind_a_skipped_node_is_skipped_too():
    workflow = chain("b", "c")
    workflow.use("a", "core.noop")
    workflow.edge("a", "b", when=When("/n", 99))

    assert told(go_on(workflow.build(), [STARTED])) == [
        "run.started",
        "started a",
        "completed a",
        "skipped b",
        "skipped c",
        "run.completed",
    ]


def test_an_edge_is_taken_when_its_condition_holds():
    workflow = made("a", "yes", "no")
    workflow.edge("a", "yes", when=When("/n", 1))
    workflow.edge("a", "no", when=When("/n", 2))

    log = go_on(workflow.build(), [STARTED])

    assert told(log)[3:] == ["started yes", "completed yes", "skipped no", "run.completed"]
    assert log[-1][2] == {"outputs": {"yes": {"n": 1}}}


def looping(limit):
    workflow = chain("a", "b", "out", max_loopback_iterations=limit)
    workflow.edge("b", "a", when=When("/n", 1))
    return workflow.build()


def test_a_loop_goes_round_while_its_condition_holds():
    log = go_on(looping(5), [STARTED])

    assert told(log) == [
        "run.started",
        *["started a", "completed a", "started b", "completed b"] * 2,
        "started out",
        "completed out",
        "run.completed",
    ]


def test_a_loop_back_to_where_the_run_begins():
    graph = looping(5).graph

    assert graph.entries == ("a",)
    assert [edge.id for edge in graph.loops["b"]] == ["b-a"]


def test_a_cycle_that_nothing_leads_to_begins_at_its_first_node_and_not_at_what_hangs_on_it():
    workflow = made("hanging", "a", "b", max_loopback_iterations=2)
    workflow.edge("a", "b")
    workflow.edge("b", "a")
    workflow.edge("a", "hanging")
    graph = Graph.of(["hanging", "a", "b"], workflow.build().edges)

    assert graph.entries == ("a",)
    assert [edge.id for edge in graph.loops["b"]] == ["b-a"]


def test_the_limit_of_a_loop_is_recorded_before_the_run_fails():
    workflow = chain("a", "b", max_loopback_iterations=1)
    workflow.edge("b", "a")

    log = go_on(workflow.build(), [STARTED])

    assert told(log)[-2:] == ["workflow.loopback-limit a", "run.failed"]
    assert go_on(workflow.build(), log[:-1]) == log


def test_a_node_of_two_loops_is_bounded_by_all_its_entries():
    """Entered once by its way in, once by its own loop, a third time behind the outer loop."""
    workflow = chain("a", "b", max_loopback_iterations=2)
    workflow.edge("b", "b", when=When("/n", 1))
    workflow.edge("b", "a")

    log = go_on(workflow.build(), [STARTED])

    assert told(log)[-4:] == ["started a", "completed a", "workflow.loopback-limit b", "run.failed"]
    assert sum(each[:2] == ("node.started", "b") for each in log) == 2


def test_a_failure_may_be_what_a_loop_answers():
    workflow = made("a", max_loopback_iterations=3)
    workflow.edge("a", "a", trigger="any_failed")

    log = go_on(workflow.build(), [STARTED], failing(("a", 1), ("a", 2)))

    assert told(log)[-5:] == [
        "started a",
        "failed a",
        "started a",
        "completed a",
        "run.completed",
    ]


def test_retries_with_growing_pauses():
    workflow = made()
    workflow.use("a", "core.noop", retry=Retry(max_attempts=3, first_backoff_ms=10))
    built = workflow.build()

    log = go_on(built, [STARTED], failing(("a", 1), ("a", 2), retryable=True))

    assert told(log)[1:] == ["started a", "failed a", "retried a"] * 2 + ["started a", "completed a", "run.completed"]
    assert [(p["attempt"], p["delayMs"]) for kind, _, p in log if kind == "node.retried"] == [(1, 10), (2, 20)]
    assert [(p["attempt"], p["x-isoline-visit"]) for kind, _, p in log if kind == "node.started"] == [
        (0, 1),
        (1, 1),
        (2, 1),
    ]
    assert [p["attempts"] for kind, _, p in log if kind == "node.failed"] == [1, 2]
    assert next_of(built, log[:3]) == RetryNode(node_id="a", attempt=1, delay_ms=10)
    again = next_of(built, log[:4])
    assert isinstance(again, StartNode)
    assert (again.attempt, again.execution, again.delay_ms) == (1, 2, 10)


def test_attempts_end():
    workflow = made()
    workflow.use("a", "core.noop", retry=Retry(max_attempts=2))

    log = go_on(workflow.build(), [STARTED], failing(("a", 1), ("a", 2), retryable=True))

    assert told(log)[-2:] == ["failed a", "run.failed"]
    assert sum(kind == "node.failed" for kind, _, _ in log) == 2


def test_what_may_not_be_tried_again_is_not():
    workflow = made()
    workflow.use("a", "core.noop", retry=Retry(max_attempts=5))

    assert told(go_on(workflow.build(), [STARTED], failing(("a", 1))))[1:] == ["started a", "failed a", "run.failed"]


def test_pauses_grow_to_the_longest():
    retry = Retry(max_attempts=9, first_backoff_ms=100, factor=3, max_backoff_ms=1000)

    assert [retry.delay_ms(attempt) for attempt in (1, 2, 3, 4, 900)] == [100, 300, 900, 1000, 1000]


def test_inputs_are_those_of_the_run_and_of_the_predecessors():
    workflow = diamond("all_success")
    log = go_on(workflow, [line("run.started", inputs={"cart": 3})])

    behind = next(index for index, each in enumerate(log) if each[:2] == ("node.started", "join"))
    action = next_of(workflow, log[:behind])

    assert isinstance(action, StartNode)
    assert action.inputs == {"run": {"cart": 3}, "left": {"n": 1}, "right": {"n": 1}}


def test_bound_inputs():
    workflow = made("a", variables={"v": 5})
    bound = {
        "constant": Constant([1]),
        "variable": Variable("v"),
        "changed": Variable("w"),
        "nothing": Variable("x"),
        "given": RunInput("cart"),
        "picked": NodeOutput("a", "/n"),
        "dotted": NodeOutput("a", "n"),
        "absent": NodeOutput("a", "/n/7"),
    }
    workflow.use("b", "core.noop", after=["a"], inputs=bound)
    built = workflow.build()
    log = go_on(built, [line("run.started", inputs={"cart": 3}), line("variable.changed", name="w", next=6)])

    action = next_of(built, log[:-3])

    assert isinstance(action, StartNode)
    assert action.inputs == {
        "constant": [1],
        "variable": 5,
        "changed": 6,
        "nothing": None,
        "given": 3,
        "picked": 1,
        "dotted": 1,
        "absent": None,
    }


def test_the_outputs_of_a_run_are_those_of_its_ends():
    workflow = made("a", "left", "right")
    workflow.edge("a", "left")
    workflow.edge("a", "right")

    def outcomes(start):
        return NodeResult(outcome=Completed(outputs={"of": start.node_id}))

    log = go_on(workflow.build(), [STARTED], outcomes)

    assert log[-1][2] == {"outputs": {"left": {"of": "left"}, "right": {"of": "right"}}}


def test_the_execution_counts_recorded_terminals_and_nothing_else():
    """Retries and visits count; starts without a terminal do not."""
    workflow = chain("a", "b", max_loopback_iterations=3)
    workflow.edge("b", "a", when=When("/n", 1))
    log = go_on(workflow.build(), [STARTED])

    progress = fold(
        workflow.build(), [*log[:6], line("node.started", "a", attempt=0), line("node.started", "a", attempt=0)]
    )

    assert (progress.execution("a"), progress.execution("b")) == (2, 2)
    assert fold(workflow.build(), log).execution("a") == 3


def test_the_fold_copes_with_what_it_does_not_understand():
    workflow = chain("a", "b").build()
    strange = [
        line("agent.reasoned", "a", text="…"),
        line("vendor.anything"),
        ("node.started", "", {}),
        line("node.completed", "gone", outputs=[]),
        line("node.failed", "a"),
        line("variable.changed", name=3),
        line("channel.written", channel="c"),
        line("version.pinned"),
        ("run.paused", "", {"drainPolicy": 4}),
        line("run.resumed"),
    ]

    progress = fold(workflow, [line("run.started", inputs=[1]), *strange])

    assert progress.next_seq == len(strange) + 1
    assert isinstance(plan(workflow, progress), Fail)


def test_events_without_our_own_members_fold_too():
    """As another engine writes them, in its older vocabulary translated."""
    workflow = chain("a", "b").build()
    log = [
        line("run.started"),
        line("node.started", "a", typeId="x.y"),
        line("node.completed", "a"),
        line("node.started", "b", typeId="x.y"),
    ]

    action = next_of(workflow, log)

    assert isinstance(action, ResumeNode)
    assert (action.start.visit, action.start.attempt, action.start.execution) == (1, 0, 1)
    assert action.start.inputs == {"run": {}, "a": {}}


def test_a_log_in_which_nodes_ran_side_by_side_folds_too():
    workflow = chain("a", "b").build()
    log = [
        STARTED,
        line("node.started", "a"),
        line("node.started", "b"),
        line("node.completed", "a"),
        line("node.completed", "b"),
    ]

    assert isinstance(next_of(workflow, log), Finish)


def test_a_join_in_a_loop_waits_for_all_its_edges_in_every_round():
    workflow = made("a", "left", "right", "longer", "join", max_loopback_iterations=2)
    workflow.edge("a", "left")
    workflow.edge("a", "right")
    workflow.edge("right", "longer")
    workflow.edge("left", "join")
    workflow.edge("longer", "join")
    workflow.edge("join", "a", when=When("/n", 1))

    started = [node for kind, node, _ in go_on(workflow.build(), [STARTED]) if kind == "node.started"]

    assert started == ["a", "left", "right", "longer", "join"] * 2


def test_each_visit_counts_its_attempts_anew():
    workflow = made(max_loopback_iterations=2)
    workflow.use("a", "core.noop", retry=Retry(max_attempts=2))
    workflow.edge("a", "a", when=When("/n", 2))

    log = go_on(workflow.build(), [STARTED], failing(("a", 1), retryable=True))

    assert [(p["x-isoline-visit"], p["attempt"]) for kind, _, p in log if kind == "node.started"] == [
        (1, 0),
        (1, 1),
        (2, 0),
    ]


def test_nothing_follows_an_end():
    workflow = chain("a", "b").build()
    ended = fold(
        workflow, [STARTED, line("run.cancelled"), line("run.failed"), line("variable.changed", name="v", next=1)]
    )
    assert (ended.ended, ended.variables) == ("run.cancelled", {})

    assert next_of(workflow, [STARTED, line("run.cancelled"), line("run.started"), line("node.failed", "a")]) == Ended()


@pytest.mark.parametrize("step", ["in the middle", "at the end"])
def test_a_node_that_code_has_got_meanwhile_is_run(step):
    before = chain("a", "b").build()
    after = (chain("a", "new", "b") if step == "in the middle" else chain("a", "b", "new")).build()
    log = go_on(before, [STARTED])[:-1]

    action = next_of(after, log)

    assert isinstance(action, StartNode)
    assert action.node_id == "new"
    assert told(go_on(after, log))[-3:] == ["started new", "completed new", "run.completed"]


def test_an_open_node_that_code_has_lost_meanwhile_is_passed_over():
    log = go_on(chain("a", "b").build(), [STARTED])[:4]

    assert next_of(made("a").build(), log) == Finish(outputs={"a": {"n": 1}})


def test_a_skip_is_recorded_once():
    workflow = diamond("all_failed")
    log = go_on(workflow, [STARTED])

    assert next_of(workflow, log[:-2]) == SkipNode(
        node_id="join", reason="the trigger rules of its incoming edges do not hold"
    )
    assert isinstance(next_of(workflow, log[:-1]), Finish)


def test_memory_pins_variables_and_channels_are_folded():
    workflow = made("a", variables={"kept": 1, "gone": 2}).build()
    progress = fold(
        workflow,
        [
            line("run.started", inputs={"given": 3}),
            line("variable.changed", name="gone"),
            line("variable.changed", name="new", next={"x": 1}),
            line("channel.written", channel="log", reducer="append", value=1),
            line("channel.written", channel="log", reducer="append", value=2),
            line("channel.written", channel="count", reducer="counter", value=2),
            line("channel.written", channel="count", reducer="counter", value=3),
            line("channel.written", channel="count", reducer="counter", value="x"),
            line("channel.written", channel="map", reducer="merge", value={"a": 1}),
            line("channel.written", channel="map", reducer="merge", value={"b": 2}),
            line("channel.written", channel="last", reducer="unknown", value=1),
            line("channel.written", channel="last", reducer="replace", value=2),
            line("channel.written", channel="votes", reducer="votes", value={"voter": "x", "v": 1}),
            line("channel.written", channel="votes", reducer="votes", value={"userId": "y", "v": 2}),
            line("channel.written", channel="votes", reducer="votes", value={"voter": "x", "v": 3}),
            line("channel.written", channel="chat", reducer="message", value={"messageId": "1"}),
            line("channel.written", channel="chat", reducer="message", value={"messageId": "1", "again": True}),
            line("memory.written", memoryRef="m", memoryId="i", **{"x-isoline-value": 9}),
            line("version.pinned", changeId="c", version=2),
        ],
    )

    assert progress.variables == {"kept": 1, "new": {"x": 1}, "given": 3}
    assert progress.channels == {
        "log": [1, 2],
        "count": 5,
        "map": {"a": 1, "b": 2},
        "last": 2,
        "votes": [{"userId": "y", "v": 2}, {"voter": "x", "v": 3}],
        "chat": [{"messageId": "1"}],
    }
    assert progress.memory == {"m": 9}
    assert progress.pins == {"c": 2}


def test_the_planner_looks_at_the_head_of_its_agenda_only():
    """Steps to come cost nothing: the plan of a run with 10,000 due nodes touches the first."""
    workflow = made(*(f"n{number}" for number in range(10_000))).build()
    progress = Progress.empty(workflow)
    progress.apply(0, *STARTED)

    assert len(progress.agenda) == 10_000
    first = plan(workflow, progress)
    assert isinstance(first, StartNode)
    assert first.node_id == "n0"
    progress.apply(1, *line("node.started", "n0"))
    assert len(progress.agenda) == 9_999
    assert isinstance(done(first).outcome, Completed)


def test_paused_before_anything():
    assert next_of(made("a").build(), [STARTED, line("run.paused")]) == Paused()
