"""Channels: what a write does to what is there, by the reducer that it names (OpenWOP channels-and-reducers.md).

The same rules as the server's fold of a run's state; a value that does not fit its reducer changes nothing. Lists and objects belong to the
fold that holds them and are changed in place.
"""

from collections.abc import Callable
from math import isfinite
from typing import Any, Final

from isoline_client.workflow.values import SAFE_INTEGER_MAX

Reducer = Callable[[Any, Any], Any]
"""What is there (None when nothing is) and what is written, to what is there afterwards."""


def write(channels: dict[str, Any], channel: str, reducer: str, value: Any) -> None:
    """Write to one of the channels."""
    reduced = REDUCERS.get(reducer, _replace)(channels.get(channel), value)
    if reduced is not _NOTHING:
        channels[channel] = reduced


_NOTHING: Final = object()


def _replace(_current: Any, value: Any) -> Any:
    return value


def _append(current: Any, value: Any) -> Any:
    entries = _entries(current)
    entries.append(value)
    return entries


def _merge(current: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        return _NOTHING
    members = current if isinstance(current, dict) else {}
    members.update(value)
    return members


def _count(current: Any, value: Any) -> Any:
    if not _is_number(value):
        return _NOTHING
    before = current if _is_number(current) else 0
    total = before + value
    if isinstance(total, int) and abs(total) > SAFE_INTEGER_MAX:
        return float(total)
    return total if isfinite(total) else before


def _vote(current: Any, value: Any) -> Any:
    voter = _name(value, "voter") or _name(value, "userId")
    if voter is None:
        return _NOTHING
    others = [each for each in _entries(current) if (_name(each, "voter") or _name(each, "userId")) != voter]
    return [*others, value]


def _message(current: Any, value: Any) -> Any:
    name = _name(value, "messageId")
    if name is None:
        return _NOTHING
    entries = _entries(current)
    if all(_name(each, "messageId") != name for each in entries):
        entries.append(value)
    return entries


def _entries(current: Any) -> list[Any]:
    return current if isinstance(current, list) else []


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _name(value: Any, member: str) -> str | None:
    found = value.get(member) if isinstance(value, dict) else None
    return found if isinstance(found, str) and found else None


REDUCERS: Final[dict[str, Reducer]] = {
    "replace": _replace,
    "append": _append,
    "feedback": _append,
    "merge": _merge,
    "counter": _count,
    "votes": _vote,
    "message": _message,
}
