"""Events as the caller sees them: what is to be appended, and what was read. How they travel is ``wire``'s business.

A record is kept as the bytes that were hashed; it is parsed when somebody asks for what is in it, so that reading a page costs one small
object for each event.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf.message import DecodeError
from ulid import ULID

from isoline.v1 import common_pb2 as pb
from isoline_client.errors import InvalidRequest, TooLarge, VerificationFailed
from isoline_client.limits import PAYLOAD_BYTES_MAX
from isoline_client.verify import Position

TERMINAL_TYPES: Final = frozenset({"run.completed", "run.failed", "run.cancelled"})
"""One of these ends a run."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_write_json: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encode_json(value: Mapping[str, Any] | bytes | str, field: str) -> bytes:
    """Write a JSON object: a mapping compactly, text and bytes as they are."""
    if isinstance(value, bytes):
        return value
    try:
        return (value if isinstance(value, str) else _write_json(value)).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(message=f"{field}: {error}", field=field, rule="must be a JSON object") from error


class NewEvent:
    """An event to be appended. A mapping given as payload is encoded here and now, once; bytes and text are kept verbatim.

    ``masked`` are JSON Pointers into the payload that hold declared clock or entropy values.
    """

    __slots__ = ("causation_id", "engine_version", "masked", "node_id", "payload_bytes", "schema_version", "type")

    def __init__(
        self,
        type: str,  # noqa: A002 - the name of the field
        payload: Mapping[str, Any] | bytes | str = b"{}",
        *,
        node_id: str = "",
        masked: Sequence[str] = (),
        schema_version: int = 1,
        engine_version: int = 0,
        causation_id: str = "",
    ) -> None:
        self.type = type
        self.payload_bytes = encode_json(payload, "payload")
        self.node_id = node_id
        self.masked = tuple(masked)
        self.schema_version = schema_version
        self.engine_version = engine_version
        self.causation_id = causation_id
        size = len(self.payload_bytes)
        if size > PAYLOAD_BYTES_MAX:
            text = f"payload: {size} bytes are over the limit of {PAYLOAD_BYTES_MAX}"
            raise TooLarge(message=text, field="payload", size=size, limit=PAYLOAD_BYTES_MAX, unit="bytes")

    def __repr__(self) -> str:
        return f"NewEvent({self.type!r}, {self.payload_bytes!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventContent:
    """What happened, without when, where and by whom."""

    type: str
    node_id: str
    schema_version: int
    engine_version: int
    payload_bytes: bytes
    masked: tuple[str, ...]

    @property
    def payload(self) -> dict[str, Any]:
        """The payload, parsed anew at each access."""
        return _parse_object(self.payload_bytes)


class Event:
    """A record that was read, and the digest of the prefix it ends (None when verification was switched off)."""

    __slots__ = ("_message", "digest", "record", "seq")

    def __init__(self, seq: int, record: bytes, digest: bytes | None = None) -> None:
        self.seq = seq
        self.record = record
        self.digest = digest
        self._message: pb.Event | None = None

    @property
    def position(self) -> Position | None:
        """The event as a place to go on from, as ``known``; None when verification was switched off."""
        return None if self.digest is None else Position(self.seq, self.digest)

    @property
    def type(self) -> str:
        return self._parsed.content.type

    @property
    def node_id(self) -> str:
        return self._parsed.content.node_id

    @property
    def payload_bytes(self) -> bytes:
        return self._parsed.content.payload

    @property
    def payload(self) -> dict[str, Any]:
        """The payload, parsed anew at each access."""
        return _parse_object(self.payload_bytes)

    @property
    def content(self) -> EventContent:
        return content_of(self._parsed.content)

    @property
    def masked(self) -> tuple[str, ...]:
        return tuple(self._parsed.content.masked)

    @property
    def schema_version(self) -> int:
        return self._parsed.content.schema_version or 1

    @property
    def engine_version(self) -> int:
        return self._parsed.content.engine_version

    @property
    def event_id(self) -> str:
        """The ULID, as 26 characters; or whatever id a v1 host gave it."""
        stamp = self._parsed.stamp
        return stamp.legacy_event_id or str(ULID.from_bytes(stamp.event_id))

    @property
    def causation_id(self) -> str:
        return self._parsed.stamp.causation_id

    @property
    def recorded_at(self) -> datetime:
        """Wall clock of the accepting server: advisory, order comes from ``seq``."""
        return time_of(self._parsed.stamp.recorded_at_us)

    @property
    def region(self) -> str:
        return self._parsed.stamp.region

    @property
    def legacy_digest(self) -> bytes:
        """SHA-256 of the document that a v1 host wrote; empty on every other event."""
        return self._parsed.stamp.legacy_digest

    @property
    def engine(self) -> str:
        return self._parsed.stamp.engine

    @property
    def engine_seq(self) -> int:
        return self._parsed.stamp.engine_seq

    @property
    def is_terminal(self) -> bool:
        """Whether it ends the run."""
        return self.type in TERMINAL_TYPES

    @property
    def _parsed(self) -> pb.Event:
        if self._message is None:
            self._message = _parse_record(self.seq, self.record)
        return self._message

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and (self.seq, self.record) == (other.seq, other.record)

    def __hash__(self) -> int:
        return hash((self.seq, self.record))

    def __repr__(self) -> str:
        return f"Event(seq={self.seq}, type={self.type!r}, node_id={self.node_id!r}, payload={self.payload_bytes!r})"


def content_of(message: pb.EventContent) -> EventContent:
    """Take an event's content off the wire."""
    return EventContent(
        type=message.type,
        node_id=message.node_id,
        schema_version=message.schema_version or 1,
        engine_version=message.engine_version,
        payload_bytes=message.payload,
        masked=tuple(message.masked),
    )


def time_of(microseconds: int) -> datetime:
    """A time off the wire, exact to the microsecond."""
    return _EPOCH + timedelta(microseconds=microseconds)


def _parse_object(payload: bytes) -> dict[str, Any]:
    value = json.loads(payload)
    assert isinstance(value, dict), "the server accepts JSON objects only"
    return value


def _parse_record(seq: int, record: bytes) -> pb.Event:
    try:
        return pb.Event.FromString(record)
    except DecodeError as error:
        raise VerificationFailed(
            seq=seq, what="the record is not an event", expected="Event", actual=record[:32].hex()
        ) from error
