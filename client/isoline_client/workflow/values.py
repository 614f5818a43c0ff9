"""JSON as workflows hold it: its type, the check that a value is JSON, its canonical digest, and picking a member by path.

Not here: how a log is encoded. Nothing here knows nodes or runs, except that an error names the member that is wrong.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final, TypeAlias

import rfc8785

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
JsonObject: TypeAlias = Mapping[str, Json]

DEPTH_MAX: Final = 200
"""Nesting of a value. JSON parsers recurse; a deeper value could be written and not read again."""

SAFE_INTEGER_MAX: Final = 2**53 - 1
"""Integers beyond it are not the same number everywhere (RFC 7493), so they have no canonical form."""

_ESCAPES: Final = re.compile("~[01]")


@dataclass(eq=False)
class NotJson(ValueError):
    """A value that JSON cannot carry. ``path`` is the JSON pointer of the member that is wrong."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path or 'the value'}: {self.why}"


def as_json(value: object) -> Json:
    """The value as JSON holds it, in new lists and dicts that nobody else changes. Raise ``NotJson`` naming the member that is wrong."""
    return _copy(value, "", 0)


def as_object(value: object) -> dict[str, Json]:
    """The value as a JSON object. Raise ``NotJson``."""
    if not isinstance(value, Mapping):
        raise NotJson("", f"must be a JSON object, not {type(value).__name__}")
    copied = _copy(value, "", 0)
    assert isinstance(copied, dict)
    return copied


def canonical(value: Json) -> bytes:
    """RFC 8785. Raise ``NotJson``."""
    try:
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as error:
        raise NotJson("", str(error)) from error


def digest_hex(value: Json) -> str:
    """SHA-256 of the canonical form, in lower-case hexadecimal."""
    return hashlib.sha256(canonical(value)).hexdigest()


def pick(value: Json, path: str, default: Json = None) -> Json:
    """The member at ``path``: a JSON pointer (``/a/0``), or names with dots between (``a.0``); empty: the value itself."""
    for name in segments(path):
        match value:
            case Mapping() if name in value:
                value = value[name]
            case Sequence() if not isinstance(value, str) and name.isdecimal() and int(name) < len(value):
                value = value[int(name)]
            case _:
                return default
    return value


def segments(path: str) -> list[str]:
    """The names in a path."""
    if not path:
        return []
    if not path.startswith("/"):
        return path.split(".")
    return [_ESCAPES.sub(lambda found: "~" if found[0] == "~0" else "/", part) for part in path[1:].split("/")]


def pointer(parent: str, name: str | int) -> str:
    """The JSON pointer of a member."""
    return f"{parent}/{str(name).replace('~', '~0').replace('/', '~1')}"


def spell(value: Json) -> str:
    """A value inside a text: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _copy(value: object, path: str, depth: int) -> Json:
    if depth > DEPTH_MAX:
        raise NotJson(path, f"nested deeper than {DEPTH_MAX}")
    match value:
        case None | bool():
            return value
        case str():
            return _text(value, path)
        case int():
            return _integer(value, path)
        case float():
            if not isfinite(value):
                raise NotJson(path, f"{value} is not a JSON number")
            return float(value)
        case Mapping():
            return {_name(key, path): _copy(each, pointer(path, str(key)), depth + 1) for key, each in value.items()}
        case list() | tuple():
            return [_copy(each, pointer(path, index), depth + 1) for index, each in enumerate(value)]
        case _:
            raise NotJson(path, f"{type(value).__name__} is not JSON")


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise NotJson(path, "holds a lone surrogate, which UTF-8 cannot carry") from None
    return str(value)


def _integer(value: int, path: str) -> int:
    if abs(value) > SAFE_INTEGER_MAX:
        raise NotJson(path, f"{value} is beyond 2**53 - 1: send it as a string")
    return int(value)


def _name(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise NotJson(path, f"has a member named {key!r}: names must be strings")
    return _text(key, path)
