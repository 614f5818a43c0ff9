"""The event as a value. How it becomes bytes is the codec's business; how bytes become a chain is ``chain``'s.

An event is *content* (what happened; the same wherever it is replayed) and *stamp* (when, where and by whom it was recorded). Only the
stamp, and the payload pointers that ``masked`` declares, may hold clock or entropy values.

Content and stamp are named tuples, for every event that is appended or folded makes them: they cost a third of a frozen dataclass.
"""

from dataclasses import dataclass
from typing import NamedTuple


class EventContent(NamedTuple):
    """What happened. ``payload`` is a UTF-8 JSON object, kept verbatim; ``masked`` are JSON Pointers (RFC 6901) into it."""

    type: str
    payload: bytes
    node_id: str = ""
    schema_version: int = 1
    engine_version: int = 0
    masked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyStamp:
    """What ties a translated event to the v1 document it stands for: the document's SHA-256, and its event id where that is no ULID."""

    document_digest: bytes
    event_id: str = ""


class EventStamp(NamedTuple):
    """When, where and by whom. ``event_id`` is the 16 bytes of a ULID; ``engine_seq`` counts from 1 within ``engine``, 0 without one."""

    event_id: bytes
    recorded_at_us: int
    region: str
    causation_id: str = ""
    engine: str = ""
    engine_seq: int = 0
    legacy: LegacyStamp | None = None
    """Only on events that a v1 host wrote. Their ``event_id`` may be empty; which region accepted them is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a run."""

    content: EventContent
    stamp: EventStamp


TERMINAL_TYPES = frozenset({"run.completed", "run.failed", "run.cancelled"})
"""Exactly one of these ends a run (OpenWOP RFC 0194)."""

_AFTER_TERMINAL_FORBIDDEN = TERMINAL_TYPES | {
    "run.started",
    "run.resumed",
    "run.resume-started",
    "run.paused",
    "run.restored-from-snapshot",
}
_AFTER_TERMINAL_FORBIDDEN_PREFIXES = ("node.", "interrupt.")


def may_follow_terminal(event_type: str) -> bool:
    """Whether an event of this type may stand behind a terminal event (OpenWOP RFC 0194: compensation, dead letter and vendor types may)."""
    return event_type not in _AFTER_TERMINAL_FORBIDDEN and not event_type.startswith(_AFTER_TERMINAL_FORBIDDEN_PREFIXES)
