"""What a run's log recorded, ready to be looked up by a replay of it. Pure: events in, recorded outcomes out; nothing is decided here.

An execution of a node is known by ``(node_id, n)``: ``n`` is one more than the node's terminals (``node.completed``, ``node.failed``)
before it. The log of a fork begins with its inherited prefix, and a replay's own log holds what it served: so the outcomes of a replay
of a replay are found here like any others, and no chain of sources has to be followed.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from isoline_client.events import Event, NewEvent

TERMINALS: Final = frozenset({"node.completed", "node.failed"})
"""These end an execution. ``node.cancelled`` does not: it records no outcome."""

FACTS: Final = frozenset(
    {"version.pinned", "variable.changed", "channel.written", "memory.written", "node.dispatched", "envelope.refusal"}
)
"""What an execution records beside its terminal, before it and in the same append."""

CANCEL_REQUESTED: Final = "example.cancel-requested"
"""No registered event says that somebody asked for a run to be cancelled, so this is a vendor event; ``example`` is the one free org."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedExecution:
    """One execution's facts, in order, and how it ended."""

    facts: tuple[Event, ...]
    terminal: Event

    @property
    def events(self) -> tuple[Event, ...]:
        return (*self.facts, self.terminal)

    @property
    def draws(self) -> list[dict[str, Any]]:
        """The values it drew from declared sources."""
        found = self.terminal.payload.get("x-isoline-draws", [])
        return found if isinstance(found, list) else []

    def facts_of(self, kind: str) -> tuple[Event, ...]:
        return tuple(event for event in self.facts if event.type == kind)


@dataclass(slots=True)
class _Open:
    facts: list[Event] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A source's log as a replay looks at it."""

    executions: Mapping[str, Sequence[RecordedExecution]]
    resolutions: Mapping[str, Event]
    """By interrupt id, which says the visit and the key."""
    started: Event | None
    """The run's ``run.started``."""
    cancelled: Event | None
    """``run.cancelled``, when nothing was under way as it was cancelled."""
    cancelled_behind: int
    """How many terminals of nodes stand before the request to cancel."""

    def execution(self, node_id: str, n: int) -> RecordedExecution | None:
        """The ``n``-th recorded outcome of a node, from 1."""
        found = self.executions.get(node_id, ())
        return found[n - 1] if 0 < n <= len(found) else None


def record(events: Iterable[Event]) -> Recording:
    """Read a whole log."""
    executions: dict[str, list[RecordedExecution]] = {}
    resolutions: dict[str, Event] = {}
    under_way: dict[str, _Open] = {}
    started = cancelled = None
    terminals = 0
    cancelled_behind: int | None = None
    struck = False
    for event in events:
        node_id = event.node_id
        match event.type:
            case "node.started":
                under_way[node_id] = _Open()
            case kind if kind in FACTS:
                under_way.setdefault(node_id, _Open()).facts.append(event)
            case kind if kind in TERMINALS:
                facts = under_way.pop(node_id, _Open()).facts
                executions.setdefault(node_id, []).append(RecordedExecution(facts=tuple(facts), terminal=event))
                terminals += 1
            case "node.cancelled":
                under_way.pop(node_id, None)
                struck = True
            case "interrupt.resolved":
                resolutions[str(event.payload.get("interruptId"))] = event
            case "run.started":
                started = started or event
            case _ if event.type == CANCEL_REQUESTED:
                cancelled_behind = terminals if cancelled_behind is None else cancelled_behind
            case "run.cancelled":
                cancelled = event
    return Recording(
        executions=executions,
        resolutions=resolutions,
        started=started,
        cancelled=None if struck else cancelled,
        cancelled_behind=terminals if cancelled_behind is None else cancelled_behind,
    )


def verbatim(event: Event) -> NewEvent:
    """The event again: the same content, byte for byte, under a stamp of its own."""
    return NewEvent(
        event.type,
        event.payload_bytes,
        node_id=event.node_id,
        masked=event.masked,
        schema_version=event.schema_version,
        engine_version=event.engine_version,
    )


def payload_of(event: NewEvent) -> dict[str, Any]:
    """The payload of an event that is about to be written, as it will be read."""
    value: dict[str, Any] = json.loads(event.payload_bytes)
    return value
