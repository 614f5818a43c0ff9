"""What a driver remembers of a run's log beside the plan's progress: times, which interrupts are answered, what an open execution has written.

A fold, like progress, but of what the plan must not know: clocks. For an event that this process has just made, now is when it was recorded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from isoline_client.executor.recorded import FACTS, TERMINALS


@dataclass(slots=True)
class Diary:
    """Everything by node id, but interrupts by their own."""

    run_started_at: datetime | None = None
    started_at: dict[str, datetime] = field(default_factory=dict)
    """``node.started`` of the execution that is open."""
    visits: dict[str, int] = field(default_factory=dict)
    """The visit that was last begun."""
    retried_at: dict[str, datetime] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)
    """Facts that the log holds of the execution that is open."""
    resolved: set[str] = field(default_factory=set)
    terminals: int = 0

    def note(self, kind: str, node_id: str, payload: Mapping[str, Any], recorded_at: datetime) -> None:
        """Take in the next event."""
        match kind:
            case "run.started":
                self.run_started_at = recorded_at
            case "node.started":
                self.started_at[node_id] = recorded_at
                self.visits[node_id] = int(payload.get("x-isoline-visit", 1))
                self.facts.pop(node_id, None)
            case "node.retried":
                self.retried_at[node_id] = recorded_at
            case "interrupt.resolved":
                self.resolved.add(str(payload.get("interruptId")))
            case _ if kind in FACTS:
                self.facts[node_id] = self.facts.get(node_id, 0) + 1
            case _ if kind in TERMINALS:
                self.terminals += 1
                self.started_at.pop(node_id, None)
                self.facts.pop(node_id, None)
