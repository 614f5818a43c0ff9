"""What a replay differs in from its source: changed code is reported at its place and once, and what is no change is not."""

import json
from itertools import count

import pytest

from isoline_server.domain import limits
from isoline_server.domain.alignment import Alignment, Difference, RefusalDifference, SourceEvent
from isoline_server.domain.divergence import diverged
from isoline_server.domain.event import EventContent


def content(type_, node="", *masked, **payload):
    return EventContent(type=type_, node_id=node, payload=json.dumps(payload).encode(), masked=masked)


def started(node, inputs="x", visit=1, attempt=0):
    return content("node.started", node, nodeId=node, attempt=attempt, visit=visit, digest=inputs)


def completed(node, outputs=1):
    return content("node.completed", node, nodeId=node, outputs=outputs)


def failed(node, code="boom"):
    return content("node.failed", node, nodeId=node, error=code)


def step(node, inputs="x", outputs=1, visit=1):
    return [started(node, inputs, visit), completed(node, outputs)]


def steps(nodes):
    return [event for node in nodes for event in step(node)]


RUN = content("run.started", workflowId="w")
END = content("run.completed", outputs={"sum": 6})
SIX = [RUN, *steps("abcdef"), END]


def replayed(source, fork, *, from_seq=0, is_open=False):
    """The verdicts of a whole replay: what was reported, each with the place in the fork of the event it was reported at."""
    alignment = Alignment(from_seq)
    ahead = iter(
        [SourceEvent(seq=seq, event_id=f"source-{seq}", content=each) for seq, each in enumerate(source, from_seq)]
    )
    found = []
    for place, event in enumerate(fork):
        while alignment.hungry:
            following = next(ahead, None)
            if following is None:
                alignment.read_out()
            else:
                alignment.feed(following)
        verdict = alignment.step(event)
        if verdict is not None:
            found.append((place, verdict))
    assert is_open or not alignment.ahead
    return found


def the_one(source, fork, **options):
    ((place, found),) = replayed(source, fork, **options)
    return place, found.kind, found.at_seq, found.point, found.node_id


# -- the six changes -----------------------------------------------------------------------------------------------------------------


def test_the_same_code_does_not_diverge():
    assert replayed(SIX, SIX) == []


def test_another_step_in_the_middle_is_extra_where_it_was_put_in():
    fork = [RUN, *steps("abc"), *step("new"), *steps("def"), END]
    assert the_one(SIX, fork) == (7, "extra", 7, "node.started", "new")


def test_the_same_step_with_another_argument_is_output_at_its_start():
    fork = [RUN, *steps("abc"), *step("d", inputs="y"), *steps("ef"), END]
    assert the_one(SIX, fork) == (7, "output", 7, "node.started", "d")


def test_one_step_fewer_is_missing_and_names_the_event_of_the_source():
    assert the_one(SIX, [RUN, *steps("abcef"), END]) == (7, "missing", 7, "node.started", "d")


def test_one_step_more_at_the_end_is_extra_before_the_end():
    assert the_one(SIX, [RUN, *steps("abcdefg"), END]) == (13, "extra", 13, "node.started", "g")


@pytest.mark.parametrize("order", ["abdcef", "bacdef", "abcdfe"])
def test_two_swapped_steps_are_one_divergence_at_the_first_of_them(order):
    at = next(place for place, (one, other) in enumerate(zip("abcdef", order, strict=True)) if one != other)
    seq = 1 + 2 * at
    assert the_one(SIX, [RUN, *steps(order), END]) == (seq, "missing", seq, "node.started", "abcdef"[at])


def test_another_return_value_is_output_at_the_completion():
    fork = [RUN, *steps("abc"), *step("d", outputs=2), *steps("ef"), END]
    assert the_one(SIX, fork) == (8, "output", 8, "node.completed", "d")


def test_a_value_that_flows_on_through_every_step_is_one_divergence():
    changed = [each for node in "def" for each in step(node, inputs="y", outputs=2)]
    fork = [RUN, *steps("abc"), started("d"), *changed[1:], content("run.completed", outputs={"sum": 9})]
    assert the_one(SIX, fork) == (8, "output", 8, "node.completed", "d")


def test_outputs_of_the_run_that_are_made_of_a_reported_value_are_not_reported_again():
    fork = [RUN, *steps("abc"), *step("d", outputs=2), *steps("ef"), content("run.completed", outputs={"sum": 7})]
    assert the_one(SIX, fork)[:3] == (8, "output", 8)


def test_another_output_of_the_run_is_reported_at_its_end():
    fork = [*SIX[:-1], content("run.completed", outputs={"sum": 7})]
    assert the_one(SIX, fork) == (13, "output", 13, "run.completed", "")


def test_two_changes_apart_are_two_divergences():
    fork = [RUN, *step("a", outputs=2), *steps("bcd"), *step("e", outputs=2), *steps("f"), END]
    assert [(place, found.node_id) for place, found in replayed(SIX, fork)] == [(2, "a"), (10, "e")]


# -- other differences ---------------------------------------------------------------------------------------------------------------


def test_a_step_that_moved_to_the_end_is_one_divergence():
    assert the_one(SIX, [RUN, *steps("bcdefa"), END]) == (1, "missing", 1, "node.started", "a")


def test_a_step_that_moved_to_the_front_is_one_divergence():
    assert the_one(SIX, [RUN, *steps("fabcde"), END]) == (1, "missing", 1, "node.started", "a")


def test_a_moved_step_with_another_result_is_reported_too():
    fork = [RUN, *steps("b"), *step("a", outputs=2), *steps("cdef"), END]
    assert [(found.kind, found.node_id) for _, found in replayed(SIX, fork)] == [("missing", "a"), ("output", "a")]


def test_a_node_that_fails_in_the_replay_is_a_mismatch_of_types():
    fork = [RUN, *steps("abc"), started("d"), failed("d"), *steps("ef"), END]
    assert the_one(SIX, fork) == (8, "type-mismatch", 8, "node.failed", "d")


def test_a_replay_that_fails_early_is_one_divergence():
    fork = [RUN, *steps("abc"), started("d"), failed("d"), content("run.failed", error="boom")]
    assert the_one(SIX, fork) == (8, "type-mismatch", 8, "node.failed", "d")


def test_a_replay_that_ends_early_leaves_one_missing():
    assert the_one(SIX, [RUN, *steps("abcd"), END]) == (9, "missing", 9, "node.started", "e")


def test_a_replay_that_goes_on_where_its_source_had_ended():
    source = [RUN, *steps("ab"), content("run.failed", error="boom")]
    assert the_one(source, SIX) == (5, "extra", 5, "node.started", "c")


def test_a_variable_more_and_a_variable_less_inside_a_step():
    variable = content("variable.changed", "b", name="v", next=1)
    inside = [RUN, *steps("a"), started("b"), variable, completed("b"), *steps("cdef"), END]
    assert the_one(SIX, inside) == (4, "extra", 4, "variable.changed", "b")
    assert the_one(inside, SIX) == (4, "missing", 4, "variable.changed", "b")


def test_an_event_of_one_visit_does_not_reach_into_the_next():
    variable = content("variable.changed", "l", name="v", next=1)
    source = [
        RUN,
        *(each for visit in range(1, 6) for each in (started("l", visit=visit), variable, completed("l"))),
        END,
    ]
    fork = [*source[:2], *source[3:], *[]]
    assert the_one(source, fork) == (2, "missing", 2, "variable.changed", "l")
    assert the_one(fork, source) == (2, "extra", 2, "variable.changed", "l")


def test_one_turn_of_a_loop_more_or_less():
    def loop(turns):
        return [RUN, *(each for visit in range(1, turns + 1) for each in step("l", visit=visit)), *steps("z"), END]

    assert the_one(loop(3), loop(4)) == (7, "extra", 7, "node.started", "l")
    assert the_one(loop(4), loop(3)) == (7, "missing", 7, "node.started", "l")


@pytest.mark.parametrize("node", ["", "n"])
def test_events_of_a_run_that_is_data_only(node):
    notes = [content("example.noted", node, note=number) for number in range(9)]
    assert replayed(notes, notes, is_open=True) == []
    fork = [*notes[:4], content("example.noted", node, note="other"), *notes[5:]]
    assert the_one(notes, fork, is_open=True)[:3] == (4, "output", 4)


def test_a_missing_and_an_extra_event_about_no_node_realign():
    notes = [content("example.noted", note=number) for number in range(9)]
    assert the_one(notes, [*notes[:4], *notes[5:]], is_open=True)[:3] == (4, "missing", 4)
    assert the_one(notes, [*notes[:4], content("example.noted", note="x"), *notes[4:]], is_open=True)[0] == 4


# -- no false alarms -----------------------------------------------------------------------------------------------------------------


INTERRUPTED = [
    content("interrupt.requested", "b", nodeId="b", interruptId="i", key="k"),
    content("node.suspended", "b", nodeId="b"),
    content("interrupt.resolved", "b", nodeId="b", interruptId="i", resumeValue=True),
]


@pytest.mark.parametrize(
    "between",
    [
        [*INTERRUPTED, started("b")],
        [*INTERRUPTED, content("node.resumed", "b", nodeId="b")],
        [content("run.paused"), content("run.resumed"), started("b", attempt=1)],
        [started("b"), started("b"), started("b")],
        [content("run.paused"), content("run.resumed")],
        [content("example.cancel-requested", reason="late")],
        [content("approval.requested", "b"), content("approval.granted", "b"), started("b")],
    ],
)
def test_what_interrupted_the_source_is_not_missing_in_its_replay(between):
    source = [RUN, *steps("a"), started("b"), *between, completed("b"), *steps("cdef"), END]
    assert replayed(source, SIX) == []


def test_a_replay_that_resolves_its_interrupt_again_is_no_difference():
    source = [RUN, *steps("a"), started("b"), *INTERRUPTED, started("b"), completed("b"), END]
    fork = [RUN, *steps("a"), started("b"), INTERRUPTED[-1], completed("b"), END]
    assert replayed(source, fork) == []


def test_an_interrupt_that_the_source_did_not_ask_for_is_extra():
    fork = [RUN, *steps("a"), started("b"), INTERRUPTED[0], INTERRUPTED[1]]
    assert the_one(SIX, fork) == (4, "extra", 4, "interrupt.requested", "b")


def test_a_changed_argument_of_a_node_whose_attempt_was_cut_is_seen():
    source = [RUN, *steps("a"), started("b"), started("b"), completed("b"), END]
    fork = [RUN, *steps("a"), started("b", "y"), completed("b"), END]
    assert the_one(source, fork)[:2] == (3, "output")


def test_a_replay_whose_own_attempt_was_cut_starts_its_node_again():
    fork = [RUN, *steps("a"), started("b"), started("b"), *steps("b")[1:], *steps("cdef"), END]
    assert replayed(SIX, fork) == []


def test_a_replay_that_was_paused_does_not_diverge():
    fork = [RUN, *steps("a"), content("run.paused"), content("run.resumed"), *steps("bcdef"), END]
    assert replayed(SIX, fork) == []


def test_a_replay_that_is_cancelled_from_outside_says_nothing_more():
    stopped = [content("example.cancel-requested"), content("node.cancelled", "b"), content("run.cancelled")]
    assert replayed(SIX, [RUN, *steps("a"), started("b"), *stopped]) == []


@pytest.mark.parametrize("begins_anew", [True, False])
def test_a_fork_inside_a_node_may_begin_the_node_anew_or_go_on(begins_anew):
    source = [completed("b"), *steps("cdef"), END]
    fork = [*([started("b")] if begins_anew else []), *source]
    assert replayed(source, fork, from_seq=4) == []


def test_recorded_failures_and_retries_replay_as_they_were():
    retried = content("node.retried", "b", attempt=1, delayMs=10)
    source = [RUN, started("b"), failed("b"), retried, started("b", attempt=1), completed("b"), END]
    assert replayed(source, source) == []


def test_a_failure_that_the_replay_does_not_repeat_is_one_divergence():
    retried = content("node.retried", "b", attempt=1, delayMs=10)
    source = [RUN, started("b"), failed("b"), retried, started("b", attempt=1), completed("b"), *steps("c"), END]
    assert the_one(source, [RUN, *steps("bc"), END]) == (2, "type-mismatch", 2, "node.completed", "b")


def test_a_source_that_is_a_replay_which_diverged_is_replayed_without_its_divergences():
    earlier = Difference(kind="output", at_seq=3, original=None, point="node.completed", node_id="b")
    source = [*SIX[:5], diverged("acme/source", earlier, "x" * 26), *SIX[5:]]
    assert replayed(source, SIX) == []
    assert replayed(SIX, source) == []


def test_declared_draws_may_differ_and_nothing_else_may():
    def drew(value, outputs):
        return content("node.completed", "a", "/draws/0", nodeId="a", outputs=outputs, draws=[value])

    source = [RUN, started("a"), drew(0.1, 1), END]
    assert replayed(source, [RUN, started("a"), drew(0.2, 1), END]) == []
    assert the_one(source, [RUN, started("a"), drew(0.1, 2), END])[:3] == (2, "output", 2)


def test_a_payload_with_another_order_of_keys_is_the_same():
    fork = [SIX[1]._replace(payload=json.dumps(dict(reversed(json.loads(SIX[1].payload).items()))).encode())]
    assert replayed(SIX[1:], [*fork, *SIX[2:]]) == []


@pytest.mark.parametrize("version", ["schema_version", "engine_version"])
def test_another_version_is_a_difference(version):
    assert the_one(SIX, [RUN, SIX[1]._replace(**{version: 2}), *SIX[2:]])[:3] == (1, "output", 1)


def test_what_stands_behind_the_end_is_not_compared():
    compensated = content("compensation.started", nodeId="a")
    assert replayed([*SIX, compensated], SIX) == []
    assert replayed(SIX, [*SIX, compensated]) == []


# -- a source that is still open -------------------------------------------------------------------------------------------------------


def test_a_replay_ahead_of_an_open_source_says_nothing():
    assert replayed(SIX[:5], SIX, is_open=True) == []


def test_a_difference_before_the_end_of_an_open_source_is_said():
    fork = [RUN, *step("a", outputs=2), *steps("bcdef"), END]
    assert the_one(SIX[:5], fork, is_open=True)[:3] == (2, "output", 2)


def test_an_alignment_goes_on_when_an_open_source_has_grown():
    alignment = Alignment(0)
    events = [SourceEvent(seq=seq, event_id="", content=each) for seq, each in enumerate(SIX)]
    for event in events[:3]:
        alignment.feed(event)
    alignment.read_out()
    assert [alignment.step(each) for each in SIX[:3]] == [None] * 3
    assert alignment.starving
    for event in events[3:]:
        alignment.feed(event)
    verdicts = [alignment.step(each) for each in [*SIX[3:5], *step("c", outputs=2)]]
    assert [verdict and verdict.at_seq for verdict in verdicts] == [None, None, None, 6]


# -- refusals ------------------------------------------------------------------------------------------------------------------------


REFUSED = content("envelope.refusal", "c", nodeId="c", provider="p", model="m")
WITH_REFUSAL = [RUN, *steps("ab"), started("c"), REFUSED, completed("c"), *steps("d"), END]
WITHOUT = [RUN, *steps("abcd"), END]


def test_a_refusal_in_both_is_no_difference():
    assert replayed(WITH_REFUSAL, WITH_REFUSAL) == []


def test_a_refusal_in_the_replay_only_fails_it():
    ((place, found),) = replayed(WITHOUT, WITH_REFUSAL)
    assert isinstance(found, RefusalDifference)
    assert (place, found.node_id, found.source_refused, found.at_seq) == (6, "c", False, 6)


@pytest.mark.parametrize("ending", [completed("c"), failed("c")])
def test_a_refusal_in_the_source_only_fails_the_replay(ending):
    ((place, found),) = replayed(WITH_REFUSAL, [RUN, *steps("ab"), started("c"), ending, END])
    assert isinstance(found, RefusalDifference)
    assert (place, found.node_id, found.source_refused, found.at_seq) == (6, "c", True, 6)


def test_a_refusal_of_a_node_that_the_source_does_not_have_is_only_extra():
    fork = [RUN, *steps("ab"), started("new"), REFUSED._replace(node_id="new"), completed("new"), *steps("cd"), END]
    assert the_one(WITHOUT, fork)[:2] == (5, "extra")


# -- bounds --------------------------------------------------------------------------------------------------------------------------


def test_the_stretch_ahead_is_bounded_by_events_and_by_bytes():
    for size, most in ((10, limits.REPLAY_LOOK_AHEAD_EVENTS), (1_000_000, 5)):
        alignment = Alignment(0)
        for seq in count():
            if not alignment.hungry:
                break
            alignment.feed(SourceEvent(seq=seq, event_id="", content=content("example.noted", text="x" * size)))
        assert seq <= most


def test_nothing_is_kept_of_a_source_that_was_walked():
    alignment = Alignment(0)
    for seq in range(3 * limits.REPLAY_LOOK_AHEAD_EVENTS):
        each = content("example.noted", note=seq)
        alignment.feed(SourceEvent(seq=seq, event_id="", content=each))
        assert alignment.step(content("example.noted", note=-seq)) is None or seq == 1
    kept = sum(len(part) for part in (alignment._items, alignment._places, alignment._moved))
    assert kept <= 2 * limits.REPLAY_LOOK_AHEAD_EVENTS
