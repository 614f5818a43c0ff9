"""Payloads at the door: is it a JSON object that every reader sees alike, and which parts of it are declared clock and entropy values?

Belongs here: reading payload bytes, the rules a new payload must keep (RFC 8259, I-JSON RFC 7493), JSON Pointers into it (RFC 6901), the
masked form (guarantee G7). Not here: what a payload means; ``state`` folds it. A payload is never changed: its bytes are stored as sent.
"""

import json
import re
from collections.abc import Sequence
from math import isfinite
from typing import Final

from isoline_server.domain import limits
from isoline_server.domain.canonical import Json, JsonObject, canonical
from isoline_server.domain.errors import Damaged, InvalidField, TooLarge
from isoline_server.domain.event import EventContent

MASK: Final = "<masked>"
"""What stands in a masked form for a declared clock or entropy value."""

_WHITESPACE: Final = " \t\n\r"
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_SAFE: Final = limits.SAFE_INTEGER_MAX
_SAFE_DIGITS: Final = len(str(-_SAFE))
_TOO_DEEP: Final = f"must be nested at most {limits.PAYLOAD_DEPTH_MAX} deep"


class _Fault(ValueError):
    """A rule that payload bytes break; the caller says whose payload it is."""


def check_payload(payload: bytes, field: str) -> JsonObject:
    """Return the JSON object in ``payload``; raise ``InvalidField`` or ``TooLarge``, naming ``field``, when it breaks a rule.

    Every append passes here, so a small payload pays for what it holds: slow walks start only where a cheap look says they must.
    """
    if len(payload) > limits.PAYLOAD_BYTES_MAX:
        raise TooLarge(field, len(payload), limits.PAYLOAD_BYTES_MAX, "bytes")
    try:
        value = _decode(payload)
        if payload.count(b"{") + payload.count(b"[") > limits.PAYLOAD_DEPTH_MAX:
            _check_depth(value)
    except _Fault as fault:
        raise InvalidField(field, str(fault)) from None
    return value


def parse_payload(payload: bytes) -> JsonObject:
    """Return the JSON object in a stored payload; raise ``Damaged`` when there is none.

    It was checked when it came, so whatever is wrong now is damage. Size and depth are not asked again: those limits may have been
    higher when the event was accepted.
    """
    try:
        return _decode(payload)
    except _Fault as fault:
        raise Damaged(f"a stored payload {fault}") from None


def check_masked(pointers: Sequence[str], payload: JsonObject, field: str) -> None:
    """Raise ``InvalidField`` or ``TooLarge`` unless every pointer is an RFC 6901 pointer at something inside ``payload``.

    The empty pointer, the whole payload, is refused: an event of which everything is masked could not differ from anything.
    """
    if len(pointers) > limits.MASKED_POINTERS_MAX:
        raise TooLarge(field, len(pointers), limits.MASKED_POINTERS_MAX, "pointers")
    for place, pointer in enumerate(pointers):
        name = f"{field}[{place}]"
        if len(pointer) > limits.MASKED_POINTER_CHARS_MAX:
            raise TooLarge(name, len(pointer), limits.MASKED_POINTER_CHARS_MAX, "characters")
        try:
            _locate(payload, _tokens(pointer))
        except _Fault as fault:
            raise InvalidField(name, str(fault), got=pointer) from None


def masked_form(content: EventContent) -> bytes:
    """Canonical JSON of ``content`` with its declared clock and entropy values replaced by ``MASK`` (guarantee G7).

    Two events are the same but for such values when their masked forms are equal. The pointers themselves are part of the form, so a
    payload that holds the text of ``MASK`` is not taken for one that is masked there.
    """
    payload = parse_payload(content.payload)
    try:
        for tokens in sorted((_tokens(pointer) for pointer in content.masked), key=len, reverse=True):
            parent, key = _locate(payload, tokens)
            parent[key] = MASK  # type: ignore[index]  # ``_locate`` pairs lists with ints, dicts with text
    except _Fault as fault:
        raise Damaged(f"a stored mask pointer {fault}") from None
    form: JsonObject = {
        "engineVersion": content.engine_version,
        "masked": sorted(set(content.masked)),  # type: ignore[dict-item]  # list is invariant
        "nodeId": content.node_id,
        "payload": payload,
        "schemaVersion": content.schema_version,
        "type": content.type,
    }
    return canonical(form)


def _decode(payload: bytes) -> JsonObject:
    """The object in ``payload``; raise ``_Fault`` with the rule that it breaks."""
    try:
        text = payload.decode()
        if text[:1] != "{":
            text = text.lstrip(_WHITESPACE)
        value, end = _DECODER.raw_decode(text)
    except UnicodeDecodeError as error:
        raise _Fault(f"must be UTF-8 (byte {error.start} is not)") from None
    except json.JSONDecodeError as error:
        raise _Fault(_syntax_rule(payload, error)) from None
    except RecursionError:
        raise _Fault(_TOO_DEEP) from None
    if type(value) is not dict:
        raise _Fault("must be a JSON object")
    if end != len(text) and text[end:].strip(_WHITESPACE):
        raise _Fault(f"must end behind its JSON object (character {end})")
    if b"\\u" in payload and _SURROGATE_ESCAPE.search(payload):
        _check_surrogates(value)
    return value


def _syntax_rule(payload: bytes, error: json.JSONDecodeError) -> str:
    if payload.startswith(b"\xef\xbb\xbf"):
        return "must not begin with a byte order mark"
    return f"must be JSON ({error.msg} at character {error.pos})"


def _object(pairs: list[tuple[str, Json]]) -> JsonObject:
    built = dict(pairs)
    if len(built) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _Fault(f"must not hold a key twice in one object ({twice[:100]!r})")
    return built


def _integer(digits: str) -> int:
    value = int(digits) if len(digits) <= _SAFE_DIGITS else _SAFE + 1
    if -_SAFE <= value <= _SAFE:
        return value
    raise _Fault(f"must hold only integers up to {_SAFE} either way ({digits[:32]})")


def _fraction(digits: str) -> float:
    value = float(digits)
    if isfinite(value):
        return value
    raise _Fault(f"must hold only numbers that a double can hold ({digits[:32]})")


def _constant(name: str) -> Json:
    raise _Fault(f"must not hold {name}, which JSON does not have")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)


def _check_surrogates(value: JsonObject) -> None:
    r"""Lone surrogates can come only as ``\u`` escapes: UTF-8 has none. No two readers agree on them, and RFC 8785 cannot spell them."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _Fault(r"must not hold half of a surrogate pair (\ud800 to \udfff)") from None
    except RecursionError:
        raise _Fault(_TOO_DEEP) from None


def _check_depth(value: JsonObject) -> None:
    """Raise ``_Fault`` when arrays and objects stand in each other more than the limit deep; the payload itself is the first level."""
    level: list[dict[str, Json] | list[Json]] = [value]
    for _ in range(limits.PAYLOAD_DEPTH_MAX):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise _Fault(_TOO_DEEP)


_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)+")
_PLACE: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def _tokens(pointer: str) -> list[str]:
    if _POINTER.fullmatch(pointer) is None:
        raise _Fault("must be a JSON Pointer (RFC 6901) that begins with /, with ~ only as ~0 or ~1")
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/")]


def _locate(payload: JsonObject, tokens: list[str]) -> tuple[JsonObject | list[Json], str | int]:
    """The object or array that holds what ``tokens`` point at, and its key or place there."""
    node: Json = payload
    parent: JsonObject | list[Json] = payload
    key: str | int = ""
    for token in tokens:
        if isinstance(node, dict) and token in node:
            parent, key, node = node, token, node[token]
        elif isinstance(node, list) and _PLACE.fullmatch(token) and int(token) < len(node):
            parent, key, node = node, int(token), node[int(token)]
        else:
            raise _Fault("must point at something inside the payload")
    return parent, key
