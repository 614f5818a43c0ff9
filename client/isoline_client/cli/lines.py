"""One line of input to one event. Pure.

A line is a JSON object: ``type``, ``payload`` (an object), and perhaps ``nodeId``, ``masked``, ``causationId``, ``schemaVersion``,
``engineVersion``. The payload's text is kept as it stands in the line: it is taken out, not written anew, so numbers keep their spelling
and members their order. Members that only a log can give (``seq``, ``stamp``, ``digest``) and ``timestamp`` are taken and left aside;
any other member is an error, for a misspelled name would otherwise lose data in silence.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from isoline_client.errors import IsolineError
from isoline_client.events import NewEvent

LINE_BYTES_MAX: Final = 2 * 1024 * 1024
"""One line: a payload at its limit of 1 MiB, with its masks and names, and as much again."""

TIMESTAMP: Final = "timestamp"
_TAKEN: Final = frozenset({"type", "payload", "nodeId", "masked", "causationId", "schemaVersion", "engineVersion"})
_LEFT: Final = frozenset({TIMESTAMP, "seq", "stamp", "digest"})
_INT32_MAX: Final = 2**31 - 1
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_decode: Final = json.JSONDecoder().raw_decode


class LineError(Exception):
    """A line that is no event; the message says why."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(f"line {number}: {message}")
        self.number = number


class _Fault(ValueError):
    """What is wrong with a line, whichever it is."""


@dataclass(slots=True)
class Line:
    """An event and the line it comes from. ``cost`` is about what it takes in a request."""

    number: int
    event: NewEvent
    has_timestamp: bool
    cost: int


def parse_line(number: int, raw: bytes, *, keep_timestamp: bool) -> Line | None:
    """Read a line; None for a blank one. With ``keep_timestamp`` a ``timestamp`` becomes a masked member of the payload."""
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        if not text.strip():
            return None
        members = _members(text)
        event = _event(members, keep_timestamp=keep_timestamp)
    except UnicodeDecodeError as error:
        raise LineError(number, f"must be UTF-8 (byte {error.start} is not)") from None
    except json.JSONDecodeError as error:
        raise LineError(number, f"must be JSON ({error.msg} at character {error.pos})") from None
    except RecursionError:
        raise LineError(number, "is nested too deep") from None
    except (_Fault, IsolineError) as error:
        raise LineError(number, str(error)) from None
    return Line(number, event, TIMESTAMP in members, _cost(event))


def _members(text: str) -> dict[str, tuple[Any, str]]:
    """The members of the object in ``text``: each one's value and its text."""
    found: dict[str, tuple[Any, str]] = {}
    place = _behind(text, _BLANK.match(text, 0).end(), "{")  # type: ignore[union-attr]  # blanks always match
    while text[place : place + 1] != "}" or found:
        name, place = _decode(text, place)
        if not isinstance(name, str):
            raise _Fault("must be a JSON object")
        if name in found:
            raise _Fault(f"has {name!r} twice")
        start = _behind(text, _skip(text, place), ":")
        value, place = _decode(text, start)
        found[name] = (value, text[start:place])
        place = _skip(text, place)
        if text[place : place + 1] == "}":
            break
        place = _behind(text, place, ",")
    end = _skip(text, place + 1)
    if end != len(text):
        raise _Fault(f"must end behind its JSON object (character {end})")
    return found


def _skip(text: str, place: int) -> int:
    return _BLANK.match(text, place).end()  # type: ignore[union-attr]


def _behind(text: str, place: int, mark: str) -> int:
    """The place of what stands behind ``mark``."""
    if text[place : place + 1] != mark:
        what = "must be a JSON object" if mark == "{" else f"must be JSON ({mark!r} is missing at character {place})"
        raise _Fault(what)
    return _skip(text, place + 1)


def _event(members: dict[str, tuple[Any, str]], *, keep_timestamp: bool) -> NewEvent:
    unknown = members.keys() - _TAKEN - _LEFT
    if unknown:
        raise _Fault(
            f"has a member {min(unknown)!r}, which is not known here (known: {', '.join(sorted(_TAKEN))}, {TIMESTAMP})"
        )
    payload, masked = _payload(members), _masked(members)
    if keep_timestamp and TIMESTAMP in members:
        payload, masked = _with_timestamp(members, payload), [*masked, f"/{TIMESTAMP}"]
    kind = _text(members, "type")
    if not kind:
        raise _Fault("type: is missing" if "type" not in members else "type: must not be empty")
    return NewEvent(
        kind,
        payload,
        node_id=_text(members, "nodeId"),
        masked=masked,
        schema_version=_number(members, "schemaVersion", 1),
        engine_version=_number(members, "engineVersion", 0),
        causation_id=_text(members, "causationId"),
    )


def _payload(members: dict[str, tuple[Any, str]]) -> str:
    value, text = members.get("payload", (None, ""))
    if not isinstance(value, dict):
        raise _Fault("payload: must be a JSON object" if text else "payload: is missing")
    return text


def _with_timestamp(members: dict[str, tuple[Any, str]], payload: str) -> str:
    value = members["payload"][0]
    if TIMESTAMP in value:
        raise _Fault("payload: has a timestamp of its own, so the line's cannot be kept there")
    comma = "," if value else ""
    return f'{payload[:-1].rstrip()}{comma}"{TIMESTAMP}":{members[TIMESTAMP][1]}}}'


def _masked(members: dict[str, tuple[Any, str]]) -> list[str]:
    value = members.get("masked", ([], ""))[0]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _Fault("masked: must be an array of JSON Pointers")
    return [_encodable(each, "masked") for each in value]


def _text(members: dict[str, tuple[Any, str]], name: str) -> str:
    value = members.get(name, ("", ""))[0]
    if not isinstance(value, str):
        raise _Fault(f"{name}: must be a string")
    return _encodable(value, name)


def _encodable(text: str, name: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Fault(f"{name}: holds half of a surrogate pair") from None
    return text


def _number(members: dict[str, tuple[Any, str]], name: str, default: int) -> int:
    value = members.get(name, (default, ""))[0]
    if type(value) is not int or not 0 <= value <= _INT32_MAX:
        raise _Fault(f"{name}: must be a whole number from 0 to {_INT32_MAX}")
    return value


def _cost(event: NewEvent) -> int:
    names = len(event.type) + len(event.node_id) + len(event.causation_id)
    return len(event.payload_bytes) + names + sum(map(len, event.masked)) + 64
