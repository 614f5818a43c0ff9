"""A run as its driver sees it: the log so far, folded, and the journal that it goes on in. What happens next is asked of the plan."""

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Final

from isoline_client.events import Event, NewEvent
from isoline_client.executor.diary import Diary
from isoline_client.executor.journal import Journal, Send
from isoline_client.executor.recorded import payload_of
from isoline_client.executor.settings import REPLAY_GATHER_EVENTS, WAITING_EVENTS_MAX
from isoline_client.run import Run
from isoline_client.values import RunInfo
from isoline_client.workflow.actions import Action
from isoline_client.workflow.context import ContextParts
from isoline_client.workflow.definition import Workflow
from isoline_client.workflow.plan import plan
from isoline_client.workflow.progress import Progress


class Story:
    """One reading of a run's log, and what was put behind it."""

    def __init__(self, workflow: Workflow, info: RunInfo, send: Send) -> None:
        self.workflow = workflow
        self.info = info
        self.run_id = info.run_id
        self.progress = Progress(workflow)
        self.diary = Diary()
        self.own: list[tuple[str, dict[str, Any]]] = []
        """Types and payloads of a fork's first own events: as many as tell how it began."""
        gather = REPLAY_GATHER_EVENTS if info.fork is not None and info.fork.mode == "replay" else 1
        self.journal = Journal(info.run_id, 0, send, waiting_max=WAITING_EVENTS_MAX, gather=gather)

    def read(self, event: Event) -> None:
        """Take in an event of the log."""
        payload = event.payload
        self._fold(event.seq, event.type, event.node_id, payload, event.recorded_at)
        self.journal.next_seq = event.seq + 1
        if self.info.fork is not None and self.info.fork.from_seq <= event.seq < self.info.fork.from_seq + 64:
            self.own.append((event.type, payload))

    async def put(self, group: Sequence[NewEvent]) -> None:
        """Go on with these events: written together, and folded as if they stood in the log already."""
        if not group:
            return
        seq, now = self.journal.planned_seq, datetime.now(UTC)
        for place, event in enumerate(group):
            self._fold(seq + place, event.type, event.node_id, payload_of(event), now)
        await self.journal.put(group)

    def next(self) -> Action:
        """What comes next."""
        return plan(self.workflow, self.progress)

    def parts(self, recorded_pins: Mapping[str, int] | None = None) -> ContextParts:
        """What a node that starts now sees of the run."""
        return ContextParts(
            run_id=self.run_id,
            variables=self.progress.variables,
            channels=self.progress.channels,
            memory=self.progress.memory,
            pins=self.progress.pins,
            recorded_pins=recorded_pins or {},
        )

    def _fold(self, seq: int, kind: str, node_id: str, payload: dict[str, Any], at: datetime) -> None:
        if not (kind in _STEERING and self._is_inherited_by_replay(seq)):
            self.progress.apply(seq, kind, node_id, payload)
        self.diary.note(kind, node_id, payload, at)

    def _is_inherited_by_replay(self, seq: int) -> bool:
        fork = self.info.fork
        return fork is not None and fork.mode == "replay" and seq < fork.from_seq


_STEERING: Final = frozenset({"run.paused", "run.resumed", "run.resume-started"})
"""What people did to a source is no matter of its replay: a source that was paused at the boundary does not stop it."""


async def read_story(workflow: Workflow, run: Run, info: RunInfo, send: Send) -> Story:
    """Read the log to its end, from the region's replica wherever that is complete."""
    story = Story(workflow, info, send)
    async with aclosing(run.read()) as events:
        async for event in events:
            story.read(event)
    return story
