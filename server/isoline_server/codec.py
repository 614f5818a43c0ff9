"""The stored form of an event: the protobuf message ``isoline.v1.Event``. The only maker of hashed bytes, and their only reader.

Bytes are made once, by ``encode``, when an event is accepted. Nothing re-serialises a record that was read.
"""

from collections.abc import Callable

from google.protobuf.message import DecodeError

from isoline.v1 import common_pb2 as pb
from isoline_server.domain.event import Event, EventContent, EventStamp, LegacyStamp


def encode(content: EventContent, stamp: EventStamp) -> bytes:
    """The record of an event. ``schema_version`` 1 and every empty field take no bytes."""
    # Fields are set one by one: half the cost of the constructors, on the path that every event takes.
    message = pb.Event()
    what, when = message.content, message.stamp
    what.type = content.type
    what.node_id = content.node_id
    what.payload = content.payload
    if content.schema_version != 1:
        what.schema_version = content.schema_version
    if content.engine_version:
        what.engine_version = content.engine_version
    if content.masked:
        what.masked.extend(content.masked)
    when.event_id = stamp.event_id
    when.recorded_at_us = stamp.recorded_at_us
    when.region = stamp.region
    if stamp.causation_id:
        when.causation_id = stamp.causation_id
    if stamp.engine:
        when.engine = stamp.engine
        when.engine_seq = stamp.engine_seq
    if stamp.legacy is not None:
        when.legacy_event_id = stamp.legacy.event_id
        when.legacy_digest = stamp.legacy.document_digest
    return (
        message.SerializeToString()
    )  # fields go in the order of their numbers, and nothing here is a map, whose order would be open


def decode(record: bytes) -> Event:
    """The event of a record. Raises ``ValueError`` when the bytes are not one."""
    message = _parse(record)
    stamp = message.stamp
    return Event(
        content=_content(message.content),
        stamp=EventStamp(
            event_id=stamp.event_id,
            causation_id=stamp.causation_id,
            recorded_at_us=stamp.recorded_at_us,
            region=stamp.region,
            engine=stamp.engine,
            engine_seq=stamp.engine_seq,
            legacy=LegacyStamp(document_digest=stamp.legacy_digest, event_id=stamp.legacy_event_id)
            if stamp.legacy_digest
            else None,
        ),
    )


def decode_content_if(record: bytes, wanted: Callable[[str], bool]) -> EventContent | None:
    """Only what happened, and only if its type is wanted: what a fold passes over is not made. The stamp is left unread."""
    content = _parse(record).content
    return _content(content) if wanted(content.type) else None


def _parse(record: bytes) -> pb.Event:
    try:
        return pb.Event.FromString(record)
    except DecodeError as error:
        raise ValueError("the record is not an isoline.v1.Event") from error


def _content(content: pb.EventContent) -> EventContent:
    return EventContent(
        type=content.type,
        node_id=content.node_id,
        schema_version=content.schema_version or 1,
        engine_version=content.engine_version,
        payload=content.payload,
        masked=tuple(content.masked),
    )
