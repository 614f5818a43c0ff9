import json
from itertools import repeat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isoline_server.domain import limits
from isoline_server.domain.errors import Damaged, StateTooLarge
from isoline_server.domain.event import EventContent
from isoline_server.domain.state import (
    EMPTY_STATE,
    Fold,
    RunState,
    apply,
    fold,
    from_canonical,
    observable,
    observable_bytes,
    state_digest,
    to_canonical,
    unpaused,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "state"


def event(event_type, payload=None, node=""):
    return EventContent(type=event_type, payload=json.dumps(payload or {}).encode(), node_id=node)


def written(channel, value, reducer="replace"):
    return event(
        "channel.written", {"channel": channel, "value": value, "reducer": reducer, "writtenAt": "2026-01-01T00:00:00Z"}
    )


def status_behind(*contents):
    return fold(EMPTY_STATE, contents).status


def variables_behind(*contents):
    return fold(EMPTY_STATE, contents).variables


def channel_behind(*writes, before=None):
    start = [] if before is None else [written("c", before)]
    return fold(EMPTY_STATE, start + [written("c", value, reducer) for value, reducer in writes]).channels.get("c")


START = event("run.started", {"workflowId": "w"})
ASK = event("interrupt.requested", {"kind": "approval", "key": "k", "data": {}}, node="n1")

# --- status ---


def test_the_empty_run_is_pending_and_has_nothing():
    assert observable_bytes(EMPTY_STATE) == b'{"channels":{},"status":"pending","variables":{}}'


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_a_run_is_running_from_its_start_to_its_end(end):
    assert status_behind(START) == "running"
    assert status_behind(START, event(f"run.{end}")) == end
    assert status_behind(event(f"run.{end}")) == end


def test_the_first_end_decides():
    late = [event("run.failed"), START, event("run.paused"), ASK]
    assert status_behind(START, event("run.completed"), *late) == "completed"


def test_an_ended_run_waits_for_nothing():
    assert fold(EMPTY_STATE, [START, ASK, event("run.failed")]).waiting_node is None
    assert fold(EMPTY_STATE, [START, event("run.failed"), ASK]).waiting_node is None


def test_only_a_resume_or_an_end_leaves_a_pause():
    paused = [START, event("run.paused")]
    assert status_behind(*paused) == "paused"
    assert status_behind(*paused, ASK, event("node.started", {"nodeId": "n2"})) == "paused"
    assert status_behind(*paused, event("run.resumed")) == "running"
    assert status_behind(*paused, event("run.resume-started", {"fromStatus": "paused"})) == "running"
    assert status_behind(*paused, event("run.cancelled")) == "cancelled"


def test_a_run_that_waited_before_a_pause_waits_again_behind_it():
    assert status_behind(START, ASK, event("run.paused"), event("run.resumed")) == "waiting-approval"


def test_a_run_paused_before_its_start_still_gets_its_inputs():
    state = fold(EMPTY_STATE, [event("run.paused"), event("run.resumed"), event("run.started", {"inputs": {"a": 1}})])
    assert (state.status, state.variables) == ("running", {"a": 1})


def test_a_replay_may_fold_a_pause_as_nothing():
    state = fold(EMPTY_STATE, [START, event("run.paused")])
    assert unpaused(state).status == "running"
    assert unpaused(unpaused(state)) == unpaused(state)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("approval", "waiting-approval"),
        ("low-confidence", "waiting-approval"),
        ("custom", "waiting-approval"),
        ("made-up", "waiting-approval"),
        ("clarification", "waiting-input"),
        ("credential", "waiting-input"),
        ("conversation.exchange", "waiting-input"),
        ("external-event", "waiting-external"),
    ],
)
@pytest.mark.parametrize("asked_by", ["interrupt.requested", "node.suspended"])
def test_the_kind_of_an_interrupt_names_the_wait(asked_by, kind, status):
    assert status_behind(START, event(asked_by, {"nodeId": "n1", "interruptId": "t/i", "kind": kind})) == status


@pytest.mark.parametrize(
    ("asked_by", "status"),
    [
        ("node.suspended", "waiting-approval"),
        ("approval.requested", "waiting-approval"),
        ("clarification.requested", "waiting-input"),
    ],
)
def test_an_interrupt_without_a_kind_waits_as_its_type_says(asked_by, status):
    assert status_behind(START, event(asked_by, {"nodeId": "n1"})) == status


@pytest.mark.parametrize(
    "answer",
    [
        "interrupt.resolved",
        "approval.granted",
        "approval.rejected",
        "approval.overridden",
        "clarification.resolved",
        "node.resumed",
        "node.suspend-failed",
        "node.completed",
        "node.failed",
        "node.skipped",
        "node.cancelled",
    ],
)
def test_what_resolves_resumes_or_ends_the_node_ends_the_wait(answer):
    suspended = event("node.suspended", {"nodeId": "n1", "interruptId": "t/i"})
    assert status_behind(START, ASK, suspended, event(answer, {"nodeId": "n1", "interruptId": "t/i"})) == "running"
    assert status_behind(START, ASK, suspended, event(answer, {"nodeId": "n2"})) == "waiting-approval"
    assert status_behind(START, ASK, suspended, event(answer, node="n1")) == "running"


def test_a_vote_that_decides_nothing_ends_no_wait():
    assert status_behind(START, ASK, event("approval.received", {"nodeId": "n1"})) == "waiting-approval"


def test_a_second_word_of_one_interrupt_does_not_forget_its_kind():
    ask = event("interrupt.requested", {"kind": "external-event"}, node="n1")
    state = fold(EMPTY_STATE, [START, ask, event("node.suspended", {"nodeId": "n1", "interruptId": "t/i"})])
    assert (state.status, state.waiting_node) == ("waiting-external", "n1")


def test_of_several_waiting_nodes_the_last_names_the_status():
    other = event("interrupt.requested", {"kind": "clarification"}, node="n2")
    state = fold(EMPTY_STATE, [START, ASK, other])
    assert (state.status, state.waiting_node) == ("waiting-input", "n2")
    state = apply(state, event("interrupt.resolved", {"nodeId": "n2"}))
    assert (state.status, state.waiting_node) == ("waiting-approval", "n1")


def test_an_interrupt_of_no_node_cannot_be_resolved_and_is_ignored():
    assert status_behind(START, event("interrupt.requested", {"kind": "approval"})) == "running"


# --- variables ---


def test_variables_are_the_inputs_and_what_changed_them():
    started = event("run.started", {"inputs": {"a": 1, "b": [2]}})
    changes = [
        event("variable.changed", {"name": "a", "next": None}),
        event("variable.changed", {"name": "c", "previous": 0, "next": "x"}),
    ]
    assert variables_behind(started, *changes) == {"a": None, "b": [2], "c": "x"}


def test_a_change_without_next_removes_the_variable():
    assert (
        variables_behind(event("variable.changed", {"name": "a", "next": 1}), event("variable.changed", {"name": "a"}))
        == {}
    )


def test_only_the_first_start_brings_inputs():
    assert variables_behind(event("run.started", {"inputs": {"a": 1}}), event("run.started", {"inputs": {"a": 2}})) == {
        "a": 1
    }


def test_the_outputs_of_a_node_are_no_variables_of_themselves():
    assert variables_behind(START, event("node.completed", {"nodeId": "n1", "outputs": {"x": 1}})) == {}


@pytest.mark.parametrize(
    "malformed",
    [
        event("run.started", {"inputs": [1]}),
        event("variable.changed", {"next": 1}),
        event("variable.changed", {"name": "", "next": 1}),
        event("variable.changed", {"name": 5, "next": 1}),
        event("channel.written", {"value": 1}),
        event("channel.written", {"channel": "c"}),
        event("channel.written", {"channel": ["c"], "value": 1}),
        event("example.unknown-type", {"name": "a", "next": 1}),
    ],
)
def test_an_event_without_what_its_step_needs_changes_nothing(malformed):
    state = fold(EMPTY_STATE, [malformed])
    assert (state.variables, state.channels) == ({}, {})


# --- channels ---


@pytest.mark.parametrize(
    ("writes", "result"),
    [
        ([(1, "replace"), ({"a": 2}, "replace")], {"a": 2}),
        ([([1], "append"), (2, "append")], [[1], 2]),
        ([("a", "feedback"), ("b", "feedback")], ["a", "b"]),
        ([({"a": 1, "b": {"x": 1}}, "merge"), ({"b": 2}, "merge")], {"a": 1, "b": 2}),
        ([(2, "counter"), (-5, "counter"), (0.5, "counter")], -2.5),
        (
            [({"voter": "u", "vote": 1}, "votes"), ({"voter": "v"}, "votes"), ({"userId": "u"}, "votes")],
            [{"voter": "v"}, {"userId": "u"}],
        ),
        (
            [({"messageId": "m", "n": 1}, "message"), ({"messageId": "m", "n": 2}, "message")],
            [{"messageId": "m", "n": 1}],
        ),
        ([(1, "vendor.acme.mine"), (2, "vendor.acme.mine")], 2),
        ([(1, None), (2, ["append"])], 2),
    ],
)
def test_each_reducer_folds_as_the_specification_says(writes, result):
    assert channel_behind(*writes) == result


@pytest.mark.parametrize(
    ("value", "reducer"),
    [
        (5, "merge"),
        ([1], "merge"),
        ("1", "counter"),
        (True, "counter"),
        (None, "counter"),
        ({}, "votes"),
        ({"voter": 1}, "votes"),
        ("m", "message"),
    ],
)
def test_a_write_that_does_not_fit_its_reducer_changes_nothing(value, reducer):
    assert channel_behind((value, reducer)) is None
    assert channel_behind((value, reducer), before="kept") == "kept"


@pytest.mark.parametrize(
    ("value", "reducer", "result"),
    [(1, "append", [1]), ({"a": 1}, "merge", {"a": 1}), (3, "counter", 3), ({"voter": "u"}, "votes", [{"voter": "u"}])],
)
def test_a_channel_that_does_not_fit_the_new_reducer_begins_anew(value, reducer, result):
    assert channel_behind((value, reducer), before="text") == result


def test_a_list_and_an_object_that_were_there_are_gone_on_with():
    assert channel_behind((2, "append"), before=[1]) == [1, 2]
    assert channel_behind(({"b": 2}, "merge"), before={"a": 1}) == {"a": 1, "b": 2}
    assert channel_behind(({"voter": "u"}, "votes"), before=[{"voter": "u"}, 1, {"userId": "u"}]) == [1, {"voter": "u"}]


@pytest.mark.parametrize(
    ("summands", "spelling"),
    [
        ([0.5, 0.5], b"1"),
        ([2**53 - 1, 1], b"9007199254740992"),
        ([2**53 - 1, 2**53 - 1, -1], b"18014398509481980"),
        ([1e308, 1e308], b"1e+308"),
        ([-0.0], b"0"),
    ],
)
def test_g4_a_counter_adds_as_doubles_do_on_both_sides_of_a_snapshot(summands, spelling):
    state = EMPTY_STATE
    for summand in summands:
        state = from_canonical(to_canonical(apply(state, written("c", summand, "counter"))))
    whole = fold(EMPTY_STATE, [written("c", summand, "counter") for summand in summands])
    assert observable_bytes(state) == observable_bytes(whole)
    assert observable_bytes(whole) == b'{"channels":{"c":' + spelling + b'},"status":"pending","variables":{}}'


# --- the fold as a whole ---

NAMES = st.sampled_from(["a", "b", "c"])
NUMBERS = (
    st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.just(-0.0)
    | st.just(1e20)
)
LOOSE = (
    st.none()
    | NUMBERS
    | NAMES
    | st.fixed_dictionaries({}, optional={"voter": NAMES, "userId": NAMES, "messageId": NAMES, "x": NUMBERS})
)
WRITES = st.fixed_dictionaries(
    {"channel": NAMES, "value": LOOSE | st.lists(LOOSE, max_size=3)},
    optional={
        "reducer": st.sampled_from(
            ["replace", "append", "feedback", "merge", "counter", "votes", "message", "vendor.x.y", 7]
        )
    },
)
PAYLOADS = st.fixed_dictionaries(
    {},
    optional={
        "nodeId": NAMES | st.just(3),
        "kind": st.sampled_from(["approval", "clarification", "external-event", 0]),
        "inputs": st.dictionaries(NAMES, LOOSE, max_size=2) | st.just([]),
        "name": NAMES | st.just(""),
        "next": LOOSE,
    },
)
TYPES = st.sampled_from(
    [
        "run.started",
        "run.paused",
        "run.resumed",
        "run.resume-started",
        "run.completed",
        "run.failed",
        "node.suspended",
        "interrupt.requested",
        "clarification.requested",
        "interrupt.resolved",
        "approval.granted",
        "node.completed",
        "node.resumed",
        "variable.changed",
        "example.other-thing",
    ]
)
EVENTS = st.builds(event, TYPES, PAYLOADS, st.sampled_from(["", "a", "b"])) | st.builds(
    event, st.just("channel.written"), WRITES
)
LOGS = st.lists(EVENTS, max_size=30)


@settings(deadline=None, max_examples=200)
@given(LOGS, st.data())
def test_g4_folding_in_two_parts_is_folding_the_whole(log, data):
    cut = data.draw(st.integers(0, len(log)))
    whole = fold(EMPTY_STATE, log)
    half = fold(EMPTY_STATE, log[:cut])
    assert to_canonical(fold(half, log[cut:])) == to_canonical(whole)
    assert to_canonical(fold(from_canonical(to_canonical(half)), log[cut:])) == to_canonical(whole)
    assert from_canonical(to_canonical(whole)) == whole
    assert whole.at_seq == len(log)


@settings(deadline=None)
@given(LOGS)
def test_g4_event_by_event_is_the_same_and_leaves_every_earlier_state_alone(log):
    running, states, spelled = Fold(), [], []
    for content in log:
        running.add(content)
        states.append(running.result())
        spelled.append(to_canonical(states[-1]))
    assert [to_canonical(state) for state in states] == spelled
    assert not log or spelled[-1] == to_canonical(fold(EMPTY_STATE, log))


@pytest.mark.parametrize(
    ("reducer", "first", "second"),
    [
        ("append", 1, 2),
        ("merge", {"a": 1}, {"b": 2}),
        ("votes", {"voter": "u"}, {"voter": "v"}),
        ("message", {"messageId": "m"}, {"messageId": "n"}),
    ],
)
def test_g4_a_state_keeps_its_lists_and_objects_while_the_fold_goes_on(reducer, first, second):
    running = Fold()
    running.add(written("c", first, reducer))
    state, spelled = running.result(), to_canonical(running.result())
    running.add(written("c", second, reducer))
    fold(state, [written("c", second, reducer)])
    assert to_canonical(state) == spelled


def naive_channel(current, value, reducer):
    """The list reducers as the specification writes them: slow, and without any cleverness."""
    rows = current if isinstance(current, list) else []
    if reducer in ("append", "feedback"):
        return [*rows, value]
    if reducer == "replace":
        return value
    members = ("voter", "userId") if reducer == "votes" else ("messageId",)
    names = [name_of(row, members) for row in rows]
    name = name_of(value, members)
    if name is None:
        return current
    if reducer == "message":
        return rows if name in names else [*rows, value]
    return [*(row for row, other in zip(rows, names, strict=True) if other != name), value]


def name_of(value, members):
    return next((value[member] for member in members if member in value), None) if isinstance(value, dict) else None


ENTRIES = st.sampled_from(
    [
        {"voter": "u", "messageId": "m"},
        {"voter": "v", "messageId": "m"},
        {"userId": "u", "messageId": "n"},
        {"voter": "v"},
        {"messageId": "n"},
        {},
        1,
    ]
)
LIST_WRITES = st.lists(st.tuples(ENTRIES, st.sampled_from(["append", "votes", "message"])), max_size=25)


@settings(deadline=None, max_examples=200)
@given(st.lists(ENTRIES, max_size=8) | st.just("text"), LIST_WRITES, LIST_WRITES)
def test_g4_lists_fold_as_the_naive_reducers_do(before, first, second):
    writes = [*first, (before, "replace"), *second]
    expected = None
    for value, reducer in writes:
        expected = naive_channel(expected, value, reducer)
    assert channel_behind(*writes) == expected


def test_g4_a_state_says_nothing_of_how_its_payloads_were_spelled():
    one = EventContent(type="variable.changed", payload=b'{"name":"a","next":{"x":1.0,"y":"\\u00e9"}}')
    two = EventContent(type="variable.changed", payload='{ "next": {"y":"é", "x":1}, "name": "a" }'.encode())
    assert state_digest(fold(EMPTY_STATE, [one])) == state_digest(fold(EMPTY_STATE, [two]))


def test_g4_what_is_not_observable_does_not_change_the_digest():
    plain = fold(EMPTY_STATE, [START])
    detour = fold(EMPTY_STATE, [START, event("run.paused"), event("run.resumed"), event("example.other-thing")])
    assert plain != detour
    assert state_digest(plain) == state_digest(detour)


def test_a_damaged_payload_stops_the_fold_and_names_its_seq():
    with pytest.raises(Damaged, match=r"^seq 1: "):
        fold(EMPTY_STATE, [START, EventContent(type="variable.changed", payload=b"{")])


def test_a_state_that_outgrows_its_limit_is_refused_before_it_fills_the_memory():
    chunk = written("c", "x" * (limits.PAYLOAD_BYTES_MAX // 2), "append")
    with pytest.raises(StateTooLarge) as refused:
        fold(EMPTY_STATE, repeat(chunk))
    assert limits.STATE_BYTES_MAX < refused.value.size < 3 * limits.STATE_BYTES_MAX


def test_any_number_of_bytes_may_pass_through_a_small_state():
    chunk = written("c", "x" * (limits.PAYLOAD_BYTES_MAX // 2))
    assert fold(EMPTY_STATE, [chunk] * 40).at_seq == 40


# --- snapshots ---


def golden_events():
    for line in (GOLDEN / "v1.events.jsonl").read_bytes().splitlines():
        row = json.loads(line)
        yield event(row["type"], row["payload"], row.get("nodeId", ""))


def test_g4_the_recorded_log_still_folds_to_the_recorded_bytes():
    state = fold(EMPTY_STATE, golden_events())
    assert to_canonical(state) == (GOLDEN / "v1.snapshot.json").read_bytes()
    assert observable_bytes(state) == (GOLDEN / "v1.state.json").read_bytes()
    assert state_digest(state).hex() == (GOLDEN / "v1.state.sha256").read_text().strip()


def test_g4_a_recorded_snapshot_is_still_read():
    stored = (GOLDEN / "v1.snapshot.json").read_bytes()
    state = from_canonical(stored)
    assert to_canonical(state) == stored
    assert observable(state) == json.loads((GOLDEN / "v1.state.json").read_bytes())


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"format": True},
        {"phase": "paused"},
        {"phase": []},
        {"paused": 0},
        {"at_seq": "0"},
        {"at_seq": -1},
        {"variables": []},
        {"channels": None},
        {"waits": [["n1", "running"]]},
        {"waits": ["ab"]},
    ],
)
def test_a_snapshot_of_another_shape_is_damage(change):
    with pytest.raises(Damaged):
        from_canonical(json.dumps(json.loads(to_canonical(EMPTY_STATE)) | change).encode())


@pytest.mark.parametrize("stored", [b"", b"null", b"{}", b"\xff", b'{"format":1', b"[" * 100_000])
def test_bytes_that_are_no_snapshot_are_damage(stored):
    with pytest.raises(Damaged):
        from_canonical(stored)


def test_a_state_cannot_be_assigned_to():
    with pytest.raises(AttributeError):
        RunState().phase = "running"
