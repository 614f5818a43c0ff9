from datetime import UTC, datetime

import pytest
from ulid import ULID

from isoline.v1 import common_pb2 as pb
from isoline_client import Event, InvalidRequest, NewEvent, Position, TooLarge, VerificationFailed
from isoline_client import limits as client_limits
from isoline_server.domain import limits as server_limits

STAMP = pb.EventStamp(
    event_id=ULID.from_str("01HZZZZZZZZZZZZZZZZZZZZZZZ").bytes,
    causation_id="because-of-that-1",
    recorded_at_us=1_700_000_000_000_001,
    region="eu",
    engine="e1",
    engine_seq=7,
)
CONTENT = pb.EventContent(type="node.completed", node_id="n", engine_version=2, payload=b'{"a": 1}', masked=["/a"])
RECORD = pb.Event(content=CONTENT, stamp=STAMP).SerializeToString()


def test_a_mapping_is_encoded_once_compactly_and_without_escapes():
    payload = {"b": "é", "a": [1, 2]}
    event = NewEvent("node.completed", payload)
    payload["b"] = "changed later"
    assert event.payload_bytes == '{"b":"é","a":[1,2]}'.encode()


@pytest.mark.parametrize("payload", [b'{ "a": 1.0}', '{ "a": 1.0}'])
def test_bytes_and_text_are_kept_verbatim(payload):
    assert NewEvent("node.completed", payload).payload_bytes == b'{ "a": 1.0}'


@pytest.mark.parametrize("payload", [{"a": float("nan")}, {"a": object()}, {"a": "\ud800"}, "\ud800"])
def test_what_is_not_json_is_refused_and_the_field_named(payload):
    with pytest.raises(InvalidRequest, match="payload: ") as refused:
        NewEvent("node.completed", payload)
    assert refused.value.field == "payload"


def test_a_payload_over_the_limit_is_refused_before_it_is_sent():
    NewEvent("node.completed", b"x" * client_limits.PAYLOAD_BYTES_MAX)
    with pytest.raises(TooLarge) as refused:
        NewEvent("node.completed", b"x" * (client_limits.PAYLOAD_BYTES_MAX + 1))
    assert (refused.value.field, refused.value.size, refused.value.limit) == ("payload", 1048577, 1048576)


@pytest.mark.parametrize("name", ["PAYLOAD_BYTES_MAX", "APPEND_EVENTS_MAX", "APPEND_BYTES_MAX"])
def test_the_bounds_are_the_servers(name):
    assert getattr(client_limits, name) == getattr(server_limits, name)


def test_an_event_tells_what_its_record_holds():
    event = Event(4, RECORD, b"d" * 32)
    assert (event.type, event.node_id, event.payload, event.payload_bytes) == (
        "node.completed",
        "n",
        {"a": 1},
        b'{"a": 1}',
    )
    assert (event.masked, event.schema_version, event.engine_version) == (("/a",), 1, 2)
    assert (event.event_id, event.causation_id) == ("01HZZZZZZZZZZZZZZZZZZZZZZZ", "because-of-that-1")
    assert event.recorded_at == datetime(2023, 11, 14, 22, 13, 20, 1, tzinfo=UTC)
    assert (event.region, event.engine, event.engine_seq) == ("eu", "e1", 7)
    assert event.position == Position(4, b"d" * 32)
    assert event.content.payload == {"a": 1}
    assert not event.is_terminal


def test_events_are_equal_when_seq_and_record_are():
    assert Event(4, RECORD) == Event(4, RECORD, b"d" * 32)
    assert len({Event(4, RECORD), Event(4, RECORD), Event(5, RECORD)}) == 2
    assert Event(4, RECORD).position is None


def test_a_record_is_parsed_when_it_is_looked_into():
    event = Event(4, b"\xff\xff")
    with pytest.raises(VerificationFailed, match="seq 4: the record is not an event"):
        _ = event.type
