import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isoline_client.cli.lines import LineError, parse_line


def parsed(text, number=1, keep_timestamp=False):
    return parse_line(number, text if isinstance(text, bytes) else text.encode(), keep_timestamp=keep_timestamp)


def refused(text, **options):
    with pytest.raises(LineError) as caught:
        parsed(text, 7, **options)
    assert str(caught.value).startswith("line 7: ")
    return str(caught.value).removeprefix("line 7: ")


def test_every_member_becomes_what_it_says():
    line = parsed(
        '{"type":"a.b","nodeId":"n","payload":{"at":1},"masked":["/at"],"causationId":"01ARZ3NDEKTSV4RRFFQ69G5FAV",'
        '"schemaVersion":2,"engineVersion":3}'
    )
    event = line.event
    assert (event.type, event.node_id, event.payload_bytes, event.masked) == ("a.b", "n", b'{"at":1}', ("/at",))
    assert (event.causation_id, event.schema_version, event.engine_version) == ("01ARZ3NDEKTSV4RRFFQ69G5FAV", 2, 3)


@pytest.mark.parametrize(
    "payload", ['{"b":1.0, "a":1e5}', "{ }", '{"x":"\\u00e9é"}', '{"a":{"b":[1,  2]}}', '{"a":12345678901234567890}']
)
def test_the_payload_keeps_its_spelling(payload):
    assert parsed(f' {{ "payload" : {payload} , "type":"a.b"}} ').event.payload_bytes == payload.encode()


ANYTHING = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=9), ANYTHING | st.lists(ANYTHING, max_size=3), max_size=3), st.booleans())
def test_any_payload_goes_through_unchanged(payload, compact):
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":") if compact else None)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return
    assert parsed(b'{"type":"a.b","payload":' + data + b"}").event.payload_bytes == data


@pytest.mark.parametrize("text", ["", "   ", "\r", "\t \r"])
def test_a_blank_line_is_no_event(text):
    assert parsed(text) is None


def test_a_byte_order_mark_is_taken_at_the_start_of_the_input_only():
    assert parsed(b'\xef\xbb\xbf{"type":"a.b","payload":{}}').event.type == "a.b"
    assert "must be a JSON object" in refused(b'\xef\xbb\xbf{"type":"a.b","payload":{}}')


def test_what_only_a_log_can_give_is_left_aside():
    line = parsed(
        '{"seq":4,"type":"a.b","payload":{},"stamp":{"region":"eu"},"digest":"00","timestamp":"2024-01-01T00:00:00Z"}'
    )
    assert line.event.payload_bytes == b"{}"
    assert line.has_timestamp


@pytest.mark.parametrize(
    ("payload", "kept"),
    [("{}", '{"timestamp":"t"}'), ('{"a":1 }', '{"a":1,"timestamp":"t"}'), ("{ }", '{"timestamp":"t"}')],
)
def test_a_timestamp_can_be_kept_as_a_masked_member_of_the_payload(payload, kept):
    event = parsed(f'{{"type":"a.b","payload":{payload},"timestamp":"t","masked":["/a"]}}', keep_timestamp=True).event
    assert (event.payload_bytes.decode(), event.masked) == (kept, ("/a", "/timestamp"))


def test_a_timestamp_does_not_replace_the_payloads_own():
    line = '{"type":"a.b","payload":{"timestamp":1},"timestamp":2}'
    assert "a timestamp of its own" in refused(line, keep_timestamp=True)
    assert parsed(line).event.payload_bytes == b'{"timestamp":1}'


def test_a_line_without_a_timestamp_is_not_masked():
    assert parsed('{"type":"a.b","payload":{}}', keep_timestamp=True).event.masked == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"type":"a.b","payload":{},"node_id":"n"}', "has a member 'node_id', which is not known here"),
        ('{"type":"a.b","payload":{},"payload":{}}', "has 'payload' twice"),
        ('{"type":"a.b"}', "payload: is missing"),
        ('{"payload":{}}', "type: is missing"),
        ('{"type":"","payload":{}}', "type: must not be empty"),
        ('{"type":1,"payload":{}}', "type: must be a string"),
        ('{"type":"a.b","payload":[]}', "payload: must be a JSON object"),
        ('{"type":"a.b","payload":null}', "payload: must be a JSON object"),
        ('{"type":"a.b","payload":{},"nodeId":null}', "nodeId: must be a string"),
        ('{"type":"a.b","payload":{},"masked":"/a"}', "masked: must be an array"),
        ('{"type":"a.b","payload":{},"masked":[1]}', "masked: must be an array"),
        ('{"type":"a.b","payload":{},"schemaVersion":true}', "schemaVersion: must be a whole number"),
        ('{"type":"a.b","payload":{},"engineVersion":-1}', "engineVersion: must be a whole number"),
        ('{"type":"a.b","payload":{},"schemaVersion":2147483648}', "schemaVersion: must be a whole number"),
        ('{"type":"\\ud800","payload":{}}', "type: holds half of a surrogate pair"),
        ("{}", "payload: is missing"),
        ("[]", "must be a JSON object"),
        ('"text"', "must be a JSON object"),
        ("{1:2}", "must be a JSON object"),
        ("{", "must be JSON"),
        ('{"type" "a"}', "':' is missing"),
        ('{"type":"a" "b"}', "',' is missing"),
        ('{"type":"a.b","payload":{},}', "must be JSON"),
        ('{"type":"a.b","payload":{}} {}', "must end behind its JSON object"),
        (b"\xff", "must be UTF-8"),
        ("[" * 100_000, "must be a JSON object"),
        ('{"type":"a.b","payload":' + '{"a":' * 100_000, "nested too deep"),
    ],
)
def test_what_is_wrong_is_said_with_the_line(text, why):
    assert why in refused(text)


def test_a_payload_over_the_limit_is_refused_before_it_is_sent():
    assert "over the limit of 1048576" in refused('{"type":"a.b","payload":{"a":"' + "x" * 1024 * 1024 + '"}}')


@given(st.text())
def test_no_text_makes_anything_but_an_event_or_a_line_error(text):
    with contextlib.suppress(LineError, UnicodeEncodeError):
        parsed(text, 3)
