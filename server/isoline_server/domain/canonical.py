"""Canonical JSON (RFC 8785, JCS): one value, one spelling, so that equal values have equal bytes and equal digests (guarantee G4).

Belongs here: the JSON types, the canonical spelling, the digest of canonical bytes. Not here: what the bytes mean, and reading JSON
(``payload`` reads what callers sent, ``state`` what it wrote itself).
"""

import json
import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Final, TypeAlias

import rfc8785

from isoline_server.domain import limits
from isoline_server.domain.errors import Damaged

Json: TypeAlias = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
JsonObject: TypeAlias = dict[str, Json]

_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_BEYOND_SURROGATES: Final = re.compile("[\ue000-\U0010ffff]")
_SAFE: Final = limits.SAFE_INTEGER_MAX


def canonical(value: Json) -> bytes:
    """Return the one RFC 8785 spelling of ``value``; raise ``Damaged`` when it has none.

    What has none: NaN and infinities, integers beyond 2**53 - 1, lone surrogates, keys that are not text. Nothing of the kind comes
    through the door (``payload.check_payload``), so here it means that stored bytes were damaged.
    """
    try:
        return _fast(value) or rfc8785.dumps(value)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"a value has no canonical JSON form ({type(error).__name__})") from error


def digest_of(data: bytes) -> bytes:
    """SHA-256 of canonical bytes, with nothing added, so that anyone can check it with the tools of their shell.

    It needs no domain tag: it is never looked up or compared across kinds, and always travels in a field that says what it covers.
    """
    return sha256(data).digest()


def _fast(value: Json) -> bytes | None:
    """Spell ``value`` with the standard library's C encoder, or return None where that would not be the RFC 8785 spelling.

    The two agree but for numbers (see ``_numbers_agree``) and for the order of keys: RFC 8785 orders UTF-16 units, Python code points,
    and these differ only when a character beyond the surrogates meets another one.
    """
    if not _agrees(value):
        return None
    text = _encode(value)
    if not text.isascii() and _BEYOND_SURROGATES.search(text):
        return None
    return text.encode()


def _agrees(value: Json) -> bool:
    """Whether every number and key of ``value`` is spelled alike by both encoders."""
    waiting: list[Json] = [[value]]
    while waiting:
        node = waiting.pop()
        children: Iterable[Json]
        if type(node) is dict:
            if not all(type(key) is str for key in node):
                return False
            children = node.values()
        else:
            children = node  # type: ignore[assignment]  # only dicts and lists are put in ``waiting``
        for child in children:
            kind = type(child)
            if kind is dict or kind is list:
                waiting.append(child)
            elif not (kind is str or child is None or kind is bool or _number_agrees(child)):
                return False
    return True


def _number_agrees(number: object) -> bool:
    """Python writes a fraction as ECMAScript does from 1e-4 up to 1e16; outside, and for whole floats, the two differ."""
    if type(number) is int:
        return -_SAFE <= number <= _SAFE
    return type(number) is float and 1e-4 <= abs(number) < 1e16 and not number.is_integer()
