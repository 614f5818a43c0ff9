"""What people and crashes do to a run: pauses, cancels, interrupts, forks that cut it anywhere."""

from dataclasses import replace

import pytest

from isoline_client.workflow import Cancel, Paused, ResumeNode, StartNode, WaitForInterrupt, Workflow
from isoline_client.workflow.events import TIMED_OUT, action_events
from isoline_client.workflow.results import Draw, DrawAt, Pin
from workflow.runs import STARTED, done, fold, go_on, line, line_of, next_of, suspension, told


def two() -> Workflow:
    made = Workflow.define("example.two", version=1)
    made.use("a", "core.noop")
    made.use("b", "core.noop", after=["a"])
    return made.build()


BEGUN = [STARTED, line("node.started", "a", typeId="core.noop", attempt=0, **{"x-isoline-visit": 1})]


@pytest.mark.parametrize("drain", [{}, {"drainPolicy": "drain-current-node"}])
def test_a_draining_pause_lets_the_open_node_end(drain):
    log = [*BEGUN, line("run.paused", **drain)]

    assert isinstance(next_of(two(), log), ResumeNode)
    drained = go_on(two(), log)
    assert told(drained)[-2:] == ["run.paused", "completed a"]
    assert next_of(two(), drained) == Paused()
    assert told(go_on(two(), [*drained, line("run.resumed")]))[-4:] == [
        "run.resumed",
        "started b",
        "completed b",
        "run.completed",
    ]


def test_an_immediate_pause_cuts_the_attempt():
    """No terminal is recorded for it; behind the resume stands a fresh start of the same attempt, and n is the same."""
    paused = [*BEGUN, line("run.paused", drainPolicy="immediate")]

    assert next_of(two(), paused) == Paused()
    action = next_of(two(), [*paused, line("run.resumed")])
    assert isinstance(action, StartNode)
    assert (action.node_id, action.visit, action.attempt, action.execution) == ("a", 1, 0, 1)
    assert told(go_on(two(), [*paused, line("run.resumed")]))[3:6] == ["run.resumed", "started a", "completed a"]


def test_what_a_pause_cut_comes_before_whatever_else_is_due():
    made = Workflow.define("example.beside", version=1)
    made.use("a", "core.noop")
    made.use("b", "core.noop")

    action = next_of(made.build(), [*BEGUN, line("run.paused", drainPolicy="immediate"), line("run.resumed")])

    assert isinstance(action, StartNode)
    assert action.node_id == "a"


def test_an_immediate_pause_does_not_cut_a_node_that_waits():
    log = [
        *BEGUN,
        line("interrupt.requested", "a", interruptId="i", key="k"),
        line("run.paused", drainPolicy="immediate"),
    ]

    assert next_of(two(), log) == Paused()
    assert next_of(two(), [*log, line("run.resumed")]) == WaitForInterrupt(node_ids=("a",))


def test_a_terminal_that_crossed_an_immediate_pause_counts():
    log = [
        *BEGUN,
        line("run.paused", drainPolicy="immediate"),
        line("node.completed", "a", outputs={}),
        line("run.resumed"),
    ]

    action = next_of(two(), log)

    assert isinstance(action, StartNode)
    assert action.node_id == "b"


def test_a_cancel_ends_the_open_node_and_the_run():
    log = [*BEGUN, line("example.cancel-requested", reason="changed mind", cancelledBy="ann")]

    assert next_of(two(), log) == Cancel(reason="changed mind", cancelled_by="ann", node_ids=("a",))
    ended = go_on(two(), log)
    assert ended[-2:] == [
        line("node.cancelled", "a", reason="changed mind"),
        line("run.cancelled", reason="changed mind", cancelledBy="ann"),
    ]
    assert go_on(two(), ended[:-1]) == ended


def test_a_cancel_beats_a_pause_and_says_only_what_it_was_told():
    log = [STARTED, line("run.paused"), line("example.cancel-requested")]

    assert go_on(two(), log)[-1] == line("run.cancelled")


def test_an_interrupt_is_asked_once_and_its_answer_is_found_in_the_log():
    asked = go_on(two(), BEGUN, lambda _start: suspension("acme/i"))

    assert told(asked)[-2:] == ["interrupt.requested a", "suspended a"]
    assert next_of(two(), asked) == WaitForInterrupt(node_ids=("a",))
    assert fold(two(), asked).is_requested("a", 1, "ok")
    assert fold(two(), asked).resolution("a", 1, "ok") is None
    answer = line("interrupt.resolved", "a", interruptId="acme/i", resumeValue="yes")
    progress = fold(two(), [*asked, answer])
    assert progress.resolution("a", 1, "ok") == answer[2]
    assert progress.resolution("a", 2, "ok") is None
    assert isinstance(next_of(two(), [*asked, answer]), ResumeNode)
    assert told(go_on(two(), [*asked, answer]))[-4:] == ["completed a", "started b", "completed b", "run.completed"]


def test_an_interrupt_that_the_log_holds_is_not_requested_again():
    asked = go_on(two(), BEGUN, lambda _start: suspension("acme/i"))
    again = suspension("acme/i")
    known = replace(again, outcome=replace(again.outcome, requested=True))

    from isoline_client.workflow import terminal_events

    action = next_of(two(), BEGUN)
    assert isinstance(action, ResumeNode)
    assert terminal_events(action.start, known) == []
    assert next_of(two(), asked) == WaitForInterrupt(node_ids=("a",))


def test_a_suspension_keeps_pins_and_draws():
    """What the question may depend on is there again when the execution is run again."""
    at = DrawAt(scope="", source="clock", ordinal=0)
    result = replace(suspension("acme/i"), pins=(Pin(change_id="c", version=2),), draws=(Draw(at=at, value="noon"),))

    log = go_on(two(), BEGUN, lambda _start: result)

    assert told(log)[-3:] == ["version.pinned a", "interrupt.requested a", "suspended a"]
    progress = fold(two(), log)
    assert progress.open["a"].draws == {at: "noon"}
    assert progress.pins == {"c": 2}


def test_a_fork_cut_right_behind_a_start_runs_that_execution_again():
    """It has no terminal, so n stays; its start is history, so none is recorded again."""
    whole = go_on(two(), [STARTED])

    action = next_of(two(), whole[:4])

    assert isinstance(action, ResumeNode)
    assert (action.start.node_id, action.start.execution, action.start.attempt) == ("b", 1, 0)
    assert go_on(two(), whole[:4]) == whole


def test_a_run_whose_time_is_up():
    events = [line_of(event) for event in action_events(TIMED_OUT)]

    assert [(kind, payload["error"]["code"]) for kind, _, payload in events] == [("run.failed", "run_timeout")]


def test_a_second_run_started_changes_nothing():
    log = go_on(two(), [STARTED, line("run.started", inputs={"x": 1})], done)

    assert fold(two(), log).variables == {}
