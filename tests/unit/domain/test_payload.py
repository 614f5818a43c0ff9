import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isoline_server.domain import limits
from isoline_server.domain.errors import Damaged, InvalidField, TooLarge
from isoline_server.domain.event import EventContent
from isoline_server.domain.payload import MASK, check_masked, check_payload, masked_form, parse_payload

FIELD = "events[3].content.payload"
OBJECTS = st.dictionaries(
    st.text(),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53) + 1, 2**53 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    ),
    max_size=5,
)


def nested(levels):
    return b'{"a":' * (levels - 1) + b"{}" + b"}" * (levels - 1)


@settings(deadline=None)
@given(OBJECTS, st.booleans())
def test_every_json_object_comes_through_the_door_as_it_is(value, ascii_only):
    payload = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert check_payload(payload, FIELD) == value == parse_payload(payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"{}",
        b' \r\n\t{"a": 1} \n',
        b'{"a":{"x":1},"b":{"x":1}}',
        b'{"n":9007199254740991,"m":-9007199254740991,"f":1e300,"z":-0}',
        b'{"emoji":"\\ud83d\\ude00","text":"\\\\ud800","raw":"\xf0\x9f\x98\x80"}',
        nested(limits.PAYLOAD_DEPTH_MAX),
        b'{"many":[' + b"[]," * 1000 + b"[]]}",
    ],
)
def test_what_every_reader_sees_alike_is_accepted(payload):
    assert check_payload(payload, FIELD) == json.loads(payload)


@pytest.mark.parametrize(
    ("payload", "rule"),
    [
        (b"", "must be JSON"),
        (b"{", "must be JSON"),
        (b"{'a':1}", "must be JSON"),
        (b'{"a":1,}', "must be JSON"),
        (b'{"a":01}', "must be JSON"),
        (b'{"a":.5}', "must be JSON"),
        (b'{"a":"\n"}', "must be JSON"),
        (b"\xc2\xa0{}", "must be JSON"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{"a":"\xff"}', "must be UTF-8 (byte 6"),
        (b'{"a":"\xed\xa0\x80"}', "must be UTF-8"),
        ("{}".encode("utf-16"), "must be UTF-8"),
        (b"{} {}", "must end behind its JSON object"),
        (b"{}x", "must end behind its JSON object"),
        (b"[]", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'"{}"', "must be a JSON object"),
        (b'{"a":NaN}', "must not hold NaN"),
        (b'{"a":[-Infinity]}', "must not hold -Infinity"),
        (b'{"a":1e999}', "must hold only numbers"),
        (b'{"a":-1' + b"0" * 400 + b".5}", "must hold only numbers"),
        (b'{"a":9007199254740992}', "must hold only integers"),
        (b'{"a":{"b":[-9007199254740992]}}', "must hold only integers"),
        (b'{"a":' + b"9" * 10_000 + b"}", "must hold only integers"),
        (b'{"a":1,"b":2,"a":1}', "key twice in one object ('a')"),
        (b'{"x":[{"k":1,"\\u006b":1}]}', "key twice in one object ('k')"),
        (b'{"\\ud800":1,"\\ud800":1}', r"key twice in one object ('\ud800')"),
        (b'{"a":"\\ud800"}', "half of a surrogate pair"),
        (b'{"a":"\\uDE00\\uD83D"}', "half of a surrogate pair"),
        (b'{"a":[{"\\udfff":1}]}', "half of a surrogate pair"),
        (nested(limits.PAYLOAD_DEPTH_MAX + 1), "nested at most 64 deep"),
        (b'{"a":' + b"[" * 64 + b"]" * 64 + b"}", "nested at most 64 deep"),
        (b'{"a":' + b"[" * 500_000, "nested at most 64 deep"),
    ],
)
def test_what_readers_could_see_differently_is_refused_by_field_and_rule(payload, rule):
    with pytest.raises(InvalidField) as refused:
        check_payload(payload, FIELD)
    assert refused.value.field == FIELD
    assert rule in str(refused.value)
    str(refused.value).encode()


def test_a_payload_is_refused_from_the_first_byte_over_the_limit():
    fits = b'{"a":"' + b"x" * (limits.PAYLOAD_BYTES_MAX - 8) + b'"}'
    assert check_payload(fits, FIELD)
    with pytest.raises(TooLarge) as refused:
        check_payload(fits + b" ", FIELD)
    assert refused.value.details() == {"field": FIELD, "size": "1048577", "limit": "1048576", "unit": "bytes"}


@pytest.mark.parametrize("payload", [b"", b"\x00", b"[1]", b'{"a":1,"a":2}', b'{"a":"\\ud800"}', b"[" * 100_000])
def test_a_stored_payload_that_breaks_a_rule_is_damage(payload):
    with pytest.raises(Damaged):
        parse_payload(payload)


def test_a_stored_payload_is_read_also_when_todays_limits_would_refuse_it():
    assert parse_payload(nested(limits.PAYLOAD_DEPTH_MAX + 1))


PAYLOAD = {"at": 1, "a/b": {"m~n": [10, {"id": "x"}]}, "": {"": 0}, "01": 5}


@pytest.mark.parametrize("pointer", ["/at", "/a~1b/m~0n/0", "/a~1b/m~0n/1/id", "/", "//", "/01", "/a~1b"])
def test_a_pointer_at_something_inside_the_payload_is_accepted(pointer):
    check_masked([pointer], PAYLOAD, "masked")


@pytest.mark.parametrize(
    ("pointer", "rule"),
    [
        ("", "JSON Pointer"),
        ("at", "JSON Pointer"),
        ("/a~2b", "JSON Pointer"),
        ("/at~", "JSON Pointer"),
        ("/missing", "inside the payload"),
        ("/at/deeper", "inside the payload"),
        ("/a~1b/m~0n/2", "inside the payload"),
        ("/a~1b/m~0n/00", "inside the payload"),
        ("/a~1b/m~0n/-", "inside the payload"),
        ("/a~1b/m~0n/-1", "inside the payload"),
        ("/a~1b/m~0n/\u0661", "inside the payload"),
        ("/a~1b/m~0n/" + "9" * 200, "inside the payload"),
    ],
)
def test_a_pointer_at_nothing_is_refused_by_name(pointer, rule):
    with pytest.raises(InvalidField, match=rule) as refused:
        check_masked(["/at", pointer], PAYLOAD, "masked")
    assert refused.value.field == "masked[1]"


def test_too_many_or_too_long_pointers_are_refused():
    with pytest.raises(TooLarge, match="masked: 33 pointers"):
        check_masked(["/at"] * (limits.MASKED_POINTERS_MAX + 1), PAYLOAD, "masked")
    with pytest.raises(TooLarge, match=r"masked\[0\]: 257 characters"):
        check_masked(["/" + "a" * limits.MASKED_POINTER_CHARS_MAX], PAYLOAD, "masked")


def content(payload, *masked, **others):
    return EventContent(type="example.drawn", payload=json.dumps(payload).encode(), masked=masked, **others)


def test_g7_declared_values_do_not_count_and_all_others_do():
    source = content({"now": 1, "draws": [0.5, 0.25], "sum": 3}, "/now", "/draws/1", node_id="n1")
    assert masked_form(source) == masked_form(source._replace(payload=b'{"sum":3, "draws":[0.5,0.9],"now":2}'))
    assert masked_form(source) != masked_form(source._replace(payload=b'{"now":1,"draws":[0.5,0.25],"sum":4}'))
    assert masked_form(source) != masked_form(source._replace(payload=b'{"now":1,"draws":[0.1,0.25],"sum":3}'))
    for changed in ({"type": "example.other"}, {"node_id": "n2"}, {"schema_version": 2}, {"engine_version": 1}):
        assert masked_form(source) != masked_form(source._replace(**changed))


def test_g7_the_text_of_the_mask_in_a_payload_is_not_taken_for_a_mask():
    assert masked_form(content({"now": 1}, "/now")) != masked_form(content({"now": MASK}))


def test_g7_a_mask_within_a_mask_and_the_order_of_pointers_change_nothing():
    assert masked_form(content({"a": {"b": 1}}, "/a", "/a/b")) == masked_form(content({"a": {"b": 2}}, "/a/b", "/a"))


def test_g7_the_masked_form_is_canonical_json():
    form = masked_form(content({"z": 1.0, "now": 5}, "/now", node_id="n1", engine_version=7))
    assert form == (
        b'{"engineVersion":7,"masked":["/now"],"nodeId":"n1","payload":{"now":"<masked>","z":1},'
        b'"schemaVersion":1,"type":"example.drawn"}'
    )


def test_a_stored_pointer_at_nothing_is_damage():
    with pytest.raises(Damaged):
        masked_form(content({"now": 1}, "/then"))
