"""A v1 event as its host wrote it, and what it reads as in v2 (OpenWOP v2 persistence.md and replay.md, "Forking a v1 run").

Belongs here: the grammar of a v1 document, the translation of one event, the legacy Subject. Everything is a pure function of the document
and of what was stamped on it when it came, so every region translates to the same bytes. Not here: names and payload seats (``codemap``),
the stored bytes around a document (``era2``).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final

from isoline_server.domain import limits
from isoline_server.domain.canonical import Json, JsonObject, canonical
from isoline_server.domain.codemap import Codemap
from isoline_server.domain.errors import EventTypeUnmapped, InvalidField, PayloadUnprojectable, TooLarge
from isoline_server.domain.event import Event, EventContent, EventStamp, LegacyStamp
from isoline_server.domain.ids import Tenant, check_name
from isoline_server.domain.payload import check_payload

LEGACY_ISSUER: Final = "urn:openwop:legacy"
RUN_STARTED: Final = "run.started"
LANES: Final = ("api-key", "oauth2", "oidc", "mtls", "ldap", "workload", "session", "anonymous")
"""The lanes a legacy Subject may be attested with: those of subject.schema.json that need no further member."""
KINDS: Final = ("user", "agent", "anonymous", "workload")

_REQUIRED: Final = ("eventId", "type", "payload", "timestamp", "sequence")
_KNOWN: Final = frozenset({*_REQUIRED, "nodeId", "causationId", "schemaVersion", "engineVersion", "runId"})
"""``runId`` is the v1 host's; it is kept in the document and left out of the event, whose run has an id of this service."""

_KEYS_CHARS_MAX: Final = 1_000
"""As much of the unseated names as an error carries."""

_INT32_MAX: Final = 2**31 - 1
_BLANK: Final = re.compile(r"[ \t\r]*")
_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")
_TYPE: Final = re.compile(r"(?=.{1,128}\Z)[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z][A-Za-z0-9_-]*)+")
_TIMESTAMP: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.(?P<fraction>\d{1,18}))?(?:Z|[+-]\d\d:\d\d)", re.ASCII
)
_SUBJECT_ID: Final = re.compile(r"[^\s/]{1,256}")
_ULID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_CROCKFORD: Final = {character: value for value, character in enumerate("0123456789ABCDEFGHJKMNPQRSTVWXYZ")}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyEvent:
    """What a v1 document says. ``payload`` is the document's own spelling of ``members``."""

    event_id: str
    type: str
    payload: bytes
    members: JsonObject
    recorded_at_us: int
    sequence: int
    node_id: str
    causation_id: str
    schema_version: int
    engine_version: int
    document_digest: bytes


def check_document(document: bytes, seq: int, field: str) -> LegacyEvent:
    """Read a document at the door: all that ``parse_document`` asks, its place in the log, its size, and what every payload must keep."""
    if len(document) > limits.PAYLOAD_BYTES_MAX:
        raise TooLarge(field, len(document), limits.PAYLOAD_BYTES_MAX, "bytes")
    event = parse_document(document, field)
    if event.sequence != seq:
        raise InvalidField(f"{field}.sequence", f"must be {seq}, for sequences have no holes", got=str(event.sequence))
    check_payload(event.payload, f"{field}.payload")
    return event


def parse_document(document: bytes, field: str) -> LegacyEvent:
    """Read a document; raise ``InvalidField`` naming the member that is wrong. Nothing is given a value that the document does not say."""
    found = _members(document, field)
    unknown = found.keys() - _KNOWN
    if unknown:
        name = min(unknown)[:100].encode(errors="replace").decode()
        raise InvalidField(f"{field}.{name}", "is no member of a v1 event, and v2 has no seat for it")
    for name in _REQUIRED:
        if name not in found:
            raise InvalidField(f"{field}.{name}", "is missing")
    members, payload = found["payload"]
    if not isinstance(members, dict):
        raise InvalidField(f"{field}.payload", "must be a JSON object")
    if "runId" in found:
        _text(found, "runId", _ID, field)
    node_id = _text(found, "nodeId", None, field) if "nodeId" in found else ""
    return LegacyEvent(
        event_id=_text(found, "eventId", _ID, field),
        type=_text(found, "type", _TYPE, field),
        payload=payload.encode(),
        members=members,
        recorded_at_us=_microseconds(_text(found, "timestamp", _TIMESTAMP, field), f"{field}.timestamp"),
        sequence=_number(found, "sequence", 0, limits.SEQ_MAX, field),
        node_id=check_name(node_id, f"{field}.nodeId") if "nodeId" in found else "",
        causation_id=_text(found, "causationId", _ID, field) if "causationId" in found else "",
        schema_version=_number(found, "schemaVersion", 1, _INT32_MAX, field) if "schemaVersion" in found else 1,
        engine_version=_number(found, "engineVersion", 0, _INT32_MAX, field) if "engineVersion" in found else 0,
        document_digest=sha256(document).digest(),
    )


def translate(event: LegacyEvent, owner: bytes, codemap: Codemap) -> Event:
    """The v2 event that a v1 event reads as. ``owner`` was stamped on its document, or is empty.

    The payload keeps its spelling. Raises ``EventTypeUnmapped`` or ``PayloadUnprojectable``.
    """
    v2_type = project(codemap, event.type, event.members, event_id=event.event_id, seq=event.sequence)
    is_ulid = _ULID.fullmatch(event.event_id) is not None
    return Event(
        content=EventContent(
            type=v2_type,
            payload=_with_owner(event, owner) if owner else event.payload,
            node_id=event.node_id,
            schema_version=event.schema_version,
            engine_version=event.engine_version,
        ),
        stamp=EventStamp(
            event_id=_ulid_bytes(event.event_id) if is_ulid else b"",
            recorded_at_us=event.recorded_at_us,
            region="",
            causation_id=event.causation_id,
            legacy=LegacyStamp(document_digest=event.document_digest, event_id="" if is_ulid else event.event_id),
        ),
    )


def project(codemap: Codemap, v1_type: str, payload: Mapping[str, Json], *, event_id: str, seq: int) -> str:
    """The v2 type of an event whose payload its v2 definition seats. Raises ``EventTypeUnmapped`` or ``PayloadUnprojectable``."""
    v2_type = codemap.v2_type(v1_type)
    if v2_type is None:
        raise EventTypeUnmapped(type=v1_type, seq=seq)
    keys = codemap.unseated(v2_type, payload)
    if keys:
        raise PayloadUnprojectable(type=v1_type, keys=",".join(keys)[:_KEYS_CHARS_MAX], event_id=event_id, seq=seq)
    return v2_type


def legacy_owner(event: LegacyEvent, tenant: Tenant, subject: JsonObject) -> bytes:
    """What is stamped on a document when this service first sees it: the owner, on a ``run.started`` that names none; else nothing."""
    if event.type != RUN_STARTED or "owner" in event.members:
        return b""
    return canonical({"subject": {**subject, "tenant": tenant}, "tenant": tenant})


def legacy_subject(subject_id: str, lane: str, kind: str) -> JsonObject:
    """The Subject of a run that predates subjects: as attested, else lane ``api-key`` and kind ``user`` (OpenWOP v2 identity.md §1.2)."""
    lane, kind, subject_id = lane or "api-key", kind or "user", subject_id or "legacy"
    if lane not in LANES:
        raise InvalidField("subject.lane", f"must be one of {', '.join(LANES)}", got=lane[:200])
    if kind not in KINDS:
        raise InvalidField("subject.kind", f"must be one of {', '.join(KINDS)}", got=kind[:200])
    if (lane == "anonymous") != (kind == "anonymous"):
        raise InvalidField("subject.kind", "lane and kind must both be anonymous or neither")
    if _SUBJECT_ID.fullmatch(subject_id) is None:
        raise InvalidField(
            "subject.subject_id", "must be 1 to 256 characters, no blank and no slash", got=subject_id[:200]
        )
    return {"issuer": LEGACY_ISSUER, "kind": kind, "lane": lane, "subjectId": subject_id}


def _with_owner(event: LegacyEvent, owner: bytes) -> bytes:
    """The payload with one member more, behind its own."""
    comma = b"," if event.members else b""
    return event.payload[:-1].rstrip() + comma + b'"owner":' + owner + b"}"


# -- reading a document --------------------------------------------------------------------------------------------------------------


def _members(document: bytes, field: str) -> dict[str, tuple[Json, str]]:
    """The document's members, each with its value and its text."""
    try:
        text = document.decode()
        return _scan(text)
    except UnicodeDecodeError:
        raise InvalidField(field, "must be UTF-8") from None
    except json.JSONDecodeError as error:
        raise InvalidField(
            field, f"must be one JSON object on one line ({error.msg} at character {error.pos})"
        ) from None
    except ValueError:  # a number of thousands of digits
        raise InvalidField(field, "must be JSON that a reader takes") from None
    except RecursionError:
        raise InvalidField(field, f"must be nested at most {limits.PAYLOAD_DEPTH_MAX} deep") from None


def _scan(text: str) -> dict[str, tuple[Json, str]]:
    found: dict[str, tuple[Json, str]] = {}
    place, ends = _behind(text, _skip(text, 0), "{"), "}"
    while text[place : place + 1] != ends:
        ends = ""  # only an empty object may end before its first member
        name, place = _value(text, place)
        if not isinstance(name, str) or name in found:
            raise json.JSONDecodeError("a member's name is expected, each once", text, place)
        start = _behind(text, _skip(text, place), ":")
        value, place = _value(text, start)
        found[name] = (value, text[start:place])
        place = _skip(text, place)
        if text[place : place + 1] == "}":
            break
        place = _behind(text, place, ",")
    if _skip(text, place + 1) != len(text):
        raise json.JSONDecodeError("nothing may follow the object", text, place + 1)
    return found


def _value(text: str, place: int) -> tuple[Json, int]:
    value, end = _DECODER.raw_decode(text, place)
    return value, end


def _behind(text: str, place: int, mark: str) -> int:
    if text[place : place + 1] != mark:
        raise json.JSONDecodeError(f"{mark!r} is expected", text, place)
    return _skip(text, place + 1)


def _skip(text: str, place: int) -> int:
    blank = _BLANK.match(text, place)
    assert blank is not None  # it matches nothing as well
    return blank.end()


def _text(found: Mapping[str, tuple[Json, str]], name: str, pattern: re.Pattern[str] | None, field: str) -> str:
    value = found[name][0]
    if not isinstance(value, str):
        raise InvalidField(f"{field}.{name}", "must be a string")
    if pattern is not None and pattern.fullmatch(value) is None:
        raise InvalidField(f"{field}.{name}", _RULES[name], got=value[:200])
    return value


_RULES: Final = {
    "eventId": "must be 1 to 128 visible ASCII characters",
    "causationId": "must be 1 to 128 visible ASCII characters",
    "runId": "must be 1 to 128 visible ASCII characters",
    "type": "must be a v1 event name: dotted words of letters, digits, - and _",
    "timestamp": "must be an ISO 8601 time with a zone, such as 2026-01-15T10:00:00.000Z",
}


def _number(found: Mapping[str, tuple[Json, str]], name: str, smallest: int, largest: int, field: str) -> int:
    value, text = found[name]
    if type(value) is not int or not smallest <= value <= largest:
        raise InvalidField(f"{field}.{name}", f"must be a whole number from {smallest} to {largest}", got=text[:200])
    return value


def _microseconds(text: str, field: str) -> int:
    match = _TIMESTAMP.fullmatch(text)
    assert match is not None
    fraction = match["fraction"] or ""
    if fraction[6:].strip("0"):
        raise InvalidField(field, "is finer than a microsecond, which could not be kept", got=text)
    try:
        moment = datetime.fromisoformat(text.replace(f".{fraction}", "") if fraction else text)
        whole = (moment - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise InvalidField(field, "is no time that exists", got=text) from None
    return whole + int(fraction[:6].ljust(6, "0"))


def _ulid_bytes(text: str) -> bytes:
    number = 0
    for character in text:
        number = number << 5 | _CROCKFORD[character]
    return number.to_bytes(16, "big")
