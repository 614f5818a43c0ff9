"""What happened, in order: every statement, fault, call and outcome, with its virtual time. One seed gives one trace, byte for byte.

What belongs here: keeping and spelling it. Nothing that depends on memory addresses or on the order of a set may get in.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

DETAIL_CHARS_MAX = 300


class Trace:
    """Lines are spelled only when they are asked for: most seeds are never looked at."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._entries: list[tuple[float, str, str, Any]] = []
        self._ended = False

    def add(self, who: str, what: str, detail: Any = "") -> None:
        """``detail`` must never change again."""
        if not self._ended:
            self._entries.append((self._now_s(), who, what, detail))

    def end(self) -> None:
        """What is cleared away behind the end of a world is no part of it, and in no order."""
        self._ended = True

    def lines(self, last: int | None = None) -> list[str]:
        """All lines, or the ``last`` ones."""
        entries = self._entries if last is None else self._entries[-last:]
        return [
            f"{at_s:11.6f} {who:<10} {what:<16} {_spell(detail)[:DETAIL_CHARS_MAX]}"
            for at_s, who, what, detail in entries
        ]


def _spell(value: Any) -> str:
    match value:
        case str():
            return value
        case bytes():
            return value[:6].hex()
        case Enum():
            return value.name
        case frozenset():
            return "{" + ", ".join(sorted(map(_spell, value))) + "}"
        case Mapping():
            return "{" + ", ".join(f"{_spell(key)}: {_spell(each)}" for key, each in value.items()) + "}"
        case tuple() | list():
            return "[" + ", ".join(map(_spell, value)) + "]"
        case Exception():
            return f"{type(value).__name__}: {value}"
    names = getattr(value, "__dataclass_fields__", None)
    if names is None:
        return str(value)
    told = ((name, getattr(value, name)) for name in names)
    return type(value).__name__ + "(" + ", ".join(f"{name}={_spell(each)}" for name, each in told if each) + ")"
