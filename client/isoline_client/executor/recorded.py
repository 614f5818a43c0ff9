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


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A source's log as a replay looks at it."""

    executions: Mapping[str, Sequence[RecordedExecution]]
    resolutions: Mapping[str, Event]
    """``interrupt.resolved`` by interrupt id."""
    requested: Mapping[tuple[str, int, str], str]
    """Interrupt ids by node, visit and key."""
    started: Event | None
    """The run's ``run.started``."""
    pins: Mapping[str, int]
    """Versions that the run is pinned to, by change id."""
    ended: tuple[Event, ...]
    """Its end, when it came from outside (a cancel, the run's time) and struck no node that was under way; else nothing."""
    terminals: int
    """Terminals of nodes before that."""

    def execution(self, node_id: str, n: int) -> RecordedExecution | None:
        """The ``n``-th recorded outcome of a node, from 1."""
        found = self.executions.get(node_id, ())
        return found[n - 1] if 0 < n <= len(found) else None

    def ended_behind(self, terminals: int) -> tuple[Event, ...] | None:
        """How it was ended from outside, for who has come as far as it had; else None."""
        return self.ended if self.ended and terminals == self.terminals else None

    def resolution(self, node_id: str, visit: int, key: str, derived: Iterable[str]) -> Event | None:
        """How an interrupt was resolved. ``derived`` are the ids that it would have had in the runs this log comes from: a replay's own
        log holds the resolutions it was served, and no requests."""
        asked = self.requested.get((node_id, visit, key))
        candidates = (asked, *derived) if asked else derived
        return next((self.resolutions[each] for each in candidates if each in self.resolutions), None)


def record(events: Iterable[Event]) -> Recording:
    """Read a whole log."""
    reading = _Reading()
    for event in events:
        reading.take(event)
    return Recording(
        executions=reading.executions,
        resolutions=reading.resolutions,
        requested=reading.requested,
        started=reading.started,
        pins=reading.pins,
        ended=() if reading.ended is None or reading.under_way or reading.struck else (reading.ended,),
        terminals=reading.terminals,
    )


@dataclass(slots=True)
class _Reading:
    """A log being read."""

    executions: dict[str, list[RecordedExecution]] = field(default_factory=dict)
    resolutions: dict[str, Event] = field(default_factory=dict)
    requested: dict[tuple[str, int, str], str] = field(default_factory=dict)
    pins: dict[str, int] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    under_way: dict[str, list[Event]] = field(default_factory=dict)
    """Facts of open executions."""
    started: Event | None = None
    ended: Event | None = None
    struck: bool = False
    terminals: int = 0

    def take(self, event: Event) -> None:
        node_id = event.node_id
        match event.type:
            case "run.started":
                self.started = self.started or event
            case "node.started":
                self.under_way[node_id] = []
                self.visits[node_id] = int(event.payload.get("x-isoline-visit", 1))
            case kind if kind in FACTS:
                self.under_way.setdefault(node_id, []).append(event)
                self._pin(event)
            case kind if kind in TERMINALS:
                facts = tuple(self.under_way.pop(node_id, ()))
                self.executions.setdefault(node_id, []).append(RecordedExecution(facts=facts, terminal=event))
                self.terminals += 1
            case "node.cancelled":
                self.struck = True
            case "interrupt.requested":
                payload = event.payload
                at = (node_id, self.visits.get(node_id, 1), str(payload.get("key")))
                self.requested[at] = str(payload.get("interruptId"))
            case "interrupt.resolved":
                self.resolutions.setdefault(str(event.payload.get("interruptId")), event)
            case "run.cancelled":
                self.ended = event
            case "run.failed":
                timed_out = event.payload.get("error", {}).get("code") == "run_timeout"
                self.ended = event if timed_out else None

    def _pin(self, event: Event) -> None:
        if event.type == "version.pinned":
            payload = event.payload
            self.pins.setdefault(str(payload["changeId"]), int(payload["version"]))


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
