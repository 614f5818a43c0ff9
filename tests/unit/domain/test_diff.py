import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isoline_server.domain import diff, limits
from isoline_server.domain.diff import Differ, diff_logs, same_event, state_diff
from isoline_server.domain.errors import Damaged
from isoline_server.domain.event import EventContent
from isoline_server.domain.state import EMPTY_STATE, RunState


def event(value=0, event_type="example.step", **others):
    payload = value if isinstance(value, dict) else {"value": value}
    return EventContent(type=event_type, payload=json.dumps(payload).encode(), **others)


def log(*values, start=0):
    return list(enumerate((event(value) for value in values), start=start))


def found(result):
    return [(one.seq, one.op) for one in result.events]


# --- when two events are the same ---


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (b'{"x":1,"y":2}', b'{"y":2, "x":1.0}'),
        (b'{"x":"\\u00e9"}', '{"x":"é"}'.encode()),
        (b'{"x":1,"runId":"t/a"}', b'{"x":1,"runId":"t/b"}'),
        (b'{"x":1,"timestamp":"t1","eventId":"e1"}', b'{"x":1}'),
        (b'{"traceparent":"00-a","correlationId":"c","causationId":"d"}', b"{}"),
    ],
)
def test_spelling_and_excluded_members_do_not_count(a, b):
    assert same_event(EventContent(type="example.step", payload=a), EventContent(type="example.step", payload=b))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (b'{"x":1}', b'{"x":2}'),
        (b'{"x":1}', b'{"x":true}'),
        (b'{"x":[1,2]}', b'{"x":[2,1]}'),
        (b'{"x":null}', b"{}"),
        (b'{"x":{"runId":"t/a"}}', b'{"x":{"runId":"t/b"}}'),
        (b'{"memoryId":"m1"}', b'{"memoryId":"m2"}'),
        (b'{"sourceRunId":"t/a"}', b'{"sourceRunId":"t/b"}'),
        (b'{"durationMs":1}', b'{"durationMs":2}'),
    ],
)
def test_everything_else_in_a_payload_counts(a, b):
    assert not same_event(EventContent(type="example.step", payload=a), EventContent(type="example.step", payload=b))


def test_the_type_counts_and_what_stands_outside_the_payload_does_not():
    assert not same_event(event(1), event(1, "example.other"))
    assert same_event(event(1), event(1, node_id="n1", schema_version=2, engine_version=3))


def test_equal_bytes_are_not_parsed(monkeypatch):
    monkeypatch.setattr(diff, "parse_payload", None)
    assert same_event(event(1), event(1, node_id="n1"))
    assert not same_event(event(1), event(2, "example.other"))


def test_a_damaged_payload_is_not_called_a_difference():
    with pytest.raises(Damaged):
        diff_logs(log(1), [(0, EventContent(type="example.step", payload=b"{"))])


# --- logs ---


@settings(deadline=None)
@given(st.lists(st.integers(0, 3)))
def test_a_log_does_not_differ_from_itself(values):
    result = diff_logs(log(*values), log(*values))
    assert (result.diverged_at_seq, result.events, result.truncated) == (None, (), False)


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1), st.data())
def test_a_change_at_one_seq_is_found_there_and_nowhere_else(values, data):
    seq = data.draw(st.integers(0, len(values) - 1))
    changed = [*values[:seq], "changed", *values[seq + 1 :]]
    result = diff_logs(log(*values), log(*changed))
    assert result.diverged_at_seq == seq
    assert found(result) == [(seq, "changed")]
    assert (result.events[0].a, result.events[0].b) == (event(values[seq]), event("changed"))


def test_what_stands_in_one_log_only_is_added_or_removed():
    assert found(diff_logs(log(1), log(1, 2, 3))) == [(1, "added"), (2, "added")]
    assert found(diff_logs(log(1, 2), log(1))) == [(1, "removed")]
    assert found(diff_logs([], log(1))) == [(0, "added")]
    assert found(diff_logs([], [])) == []


def test_the_sides_change_places():
    a, b = log(1, 2, 3), log(1, 9)
    assert found(diff_logs(a, b)) == [(1, "changed"), (2, "removed")]
    assert found(diff_logs(b, a)) == [(1, "changed"), (2, "added")]


def test_logs_may_be_compared_from_behind_the_prefix_that_they_share():
    assert found(diff_logs(log(1, 2, start=500), log(1, 3, 4, start=500))) == [(501, "changed"), (502, "added")]


def test_logs_that_begin_at_different_seqs_are_aligned_by_seq():
    assert found(diff_logs(log(1, 2), log(2, start=1))) == [(0, "removed")]


def test_the_end_of_an_open_log_is_truncated_and_no_difference():
    a, b = log(1, 2, 3), log(1)
    for result in (diff_logs(a, b, b_open=True), diff_logs(b, a, a_open=True)):
        assert (found(result), result.truncated) == ([], True)


def test_what_an_open_log_has_more_than_an_ended_one_is_a_difference():
    result = diff_logs(log(1), log(1, 2), b_open=True)
    assert (found(result), result.truncated) == ([(1, "added")], True)


def test_differences_before_the_end_of_an_open_log_are_found():
    result = diff_logs(log(1, 2), log(9), b_open=True)
    assert (found(result), result.truncated) == ([(0, "changed")], True)


def test_reading_stops_at_one_difference_more_than_the_limit():
    read = []

    def rows():
        for seq in range(1_000):
            read.append(seq)
            yield seq, event(seq)

    result = diff_logs(rows(), ((seq, event(-1)) for seq in range(1_000)), limit=3)
    assert (found(result), result.truncated) == ([(0, "changed"), (1, "changed"), (2, "changed")], True)
    assert len(read) < 10


def test_as_many_differences_as_the_limit_are_the_whole_answer():
    result = diff_logs(log(1, 2, 3), log(1, 8, 9), limit=2)
    assert (len(result.events), result.truncated) == (2, False)


def test_no_answer_is_longer_than_the_limit_of_the_service():
    many = limits.DIFF_EVENTS_MAX + 5
    result = diff_logs(log(*range(many)), log(*range(1, many + 1)))
    assert (len(result.events), result.truncated) == (limits.DIFF_EVENTS_MAX, True)


def test_page_by_page_gives_the_same_answer():
    a, b = log(1, 2, 3, 4), log(1, 9, 3)
    differ = Differ()
    for seq in range(4):
        differ.compare(seq, a[seq][1], b[seq][1] if seq < 3 else None)
    assert differ.result() == diff_logs(a, b)


# --- two executions of one run ---


def drawn(now, value=1):
    return event({"now": now, "value": value}, masked=("/now",))


def test_g7_from_the_boundary_on_declared_values_may_differ():
    a, b = [(4, drawn(1)), (5, drawn(1))], [(4, drawn(1)), (5, drawn(2))]
    assert found(diff_logs(a, b, masked_from=5)) == []
    assert found(diff_logs(a, b)) == [(5, "changed")]


def test_g7_before_the_boundary_nothing_is_masked():
    a, b = [(4, drawn(1)), (5, drawn(1))], [(4, drawn(2)), (5, drawn(2))]
    assert found(diff_logs(a, b, masked_from=5)) == [(4, "changed")]


def test_g7_behind_the_boundary_everything_undeclared_counts():
    for other in (drawn(1, value=2), drawn(1)._replace(node_id="n2"), drawn(1)._replace(masked=())):
        assert found(diff_logs([(5, drawn(1))], [(5, other)], masked_from=5)) == [(5, "changed")]


# --- states ---


def test_equal_states_have_an_empty_diff():
    state = RunState(phase="running", variables={"a": [1.0]}, channels={"c": {"x": 1, "y": 2}})
    same = RunState(phase="running", variables={"a": [1]}, channels={"c": {"y": 2, "x": 1}}, at_seq=9)
    assert state_diff(state, same) == {} == state_diff(EMPTY_STATE, EMPTY_STATE)


def test_a_state_diff_names_what_is_added_removed_and_changed():
    a = RunState(phase="running", variables={"gone": 1, "same": 2, "other": 3}, channels={"c": [1]})
    b = RunState(phase="failed", variables={"new": None, "same": 2, "other": True}, channels={"c": [1, 2]})
    assert state_diff(a, b) == {
        "status": {"a": "running", "b": "failed"},
        "variables": {
            "added": {"new": {"value": None}},
            "removed": {"gone": {"value": 1}},
            "changed": {"other": {"a": {"value": 3}, "b": {"value": True}}},
        },
        "channels": {"changed": {"c": {"a": {"value": [1]}, "b": {"value": [1, 2]}}}},
    }


@pytest.mark.parametrize("value", [1, 0, 1.5, "1", None, [1], {"1": 1}])
def test_true_differs_from_every_other_value(value):
    assert state_diff(RunState(variables={"a": True}), RunState(variables={"a": value}))


CREDENTIALS = [
    "sk-abcdef",
    "Bearer abc",
    "my secret",
    "API_KEY=1",
    {"apiKey": "x"},
    [{"deep": {"Password": "x"}}],
    {"refresh_token": "x"},
]


@pytest.mark.parametrize("value", CREDENTIALS)
def test_a_value_that_looks_like_a_credential_is_not_shown(value):
    shown = state_diff(RunState(variables={"a": value}), RunState(variables={"a": 1}))
    assert shown == {"variables": {"changed": {"a": {"a": {"redacted": True}, "b": {"value": 1}}}}}


@pytest.mark.parametrize("name", ["clientSecret", "openai_api_key", "sk-live", "authorization", "sessionToken"])
def test_an_entry_whose_name_looks_like_a_credential_is_only_counted(name):
    assert state_diff(EMPTY_STATE, RunState(variables={name: 1}, channels={name: 2})) == {"redacted": 2}


def test_ordinary_words_are_shown():
    value = {"maxTokens": 5, "task-1": "ask-me", "bearer": 1}
    assert state_diff(EMPTY_STATE, RunState(variables={"a": value})) == {
        "variables": {"added": {"a": {"value": value}}}
    }


def test_a_long_value_is_shown_as_its_size_and_digest():
    value = state_diff(EMPTY_STATE, RunState(channels={"c": "x" * 2_000}))["channels"]["added"]["c"]
    assert value["bytes"] == 2_002
    assert len(value["sha256"]) == 64


def test_a_state_diff_shows_at_most_as_many_names_as_the_limit():
    many = {f"v{number:04}": number for number in range(limits.DIFF_EVENTS_MAX + 1)}
    shown = state_diff(EMPTY_STATE, RunState(variables=many, channels={"c": 1}))
    assert shown["truncated"] is True
    assert len(shown["variables"]["added"]) == limits.DIFF_EVENTS_MAX
    assert "channels" not in shown
