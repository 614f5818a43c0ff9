"""Nodes of a replay: history where the source recorded it, run again in a worker that cannot reach anything where it must be compared.

Side-effecting nodes get the source's n-th recorded outcome, byte for byte, or fail closed. Pure and llm nodes run again; what they drew, which
branch they took, what they wrote into memory and what people and models answered comes from the source. Whether all that equals the source is
not asked here: the server compares every event that is appended.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from isoline_client.client import Client
from isoline_client.events import Event, NewEvent
from isoline_client.execution import ExecutionClient
from isoline_client.executor.effects import draw_of
from isoline_client.executor.host import response_of
from isoline_client.executor.recorded import RecordedExecution, Recording, record, verbatim
from isoline_client.executor.rest import Rest
from isoline_client.executor.story import Story
from isoline_client.guard.errors import WorkerDied
from isoline_client.guard.worker import NodeRun, WorkerPool
from isoline_client.values import RunInfo
from isoline_client.workflow.actions import StartNode
from isoline_client.workflow.definition import Workflow
from isoline_client.workflow.errors import NodeError
from isoline_client.workflow.events import start_events, terminal_events
from isoline_client.workflow.host import InterruptRequest, LlmRequest, LlmResponse
from isoline_client.workflow.identity import interrupt_id
from isoline_client.workflow.results import Failed, Failure, NodeResult
from isoline_client.workflow.values import Json

SOURCE_MISSING = "replay_source_missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaying:
    """Executes the nodes of the replay ``info``."""

    ledger: ExecutionClient
    workers: WorkerPool
    workflow: Workflow
    info: RunInfo
    recording: Recording
    sources: tuple[str, ...]
    """The runs that this one comes from, the nearest first."""
    also_side_effects: frozenset[str]

    @classmethod
    async def of(
        cls,
        client: Client,
        ledger: ExecutionClient,
        workers: WorkerPool,
        workflow: Workflow,
        info: RunInfo,
        *,
        also_side_effects: frozenset[str],
    ) -> "Replaying":
        """Read the source of a replay."""
        assert info.fork is not None
        sources: list[str] = []
        following: RunInfo | None = info
        while following is not None and following.fork is not None:
            sources.append(following.fork.source_run_id)
            following = await client.run(sources[-1]).info()
        recording = record([event async for event in client.run(sources[0]).read()])
        return cls(
            ledger=ledger,
            workers=workers,
            workflow=workflow,
            info=info,
            recording=recording,
            sources=tuple(sources),
            also_side_effects=also_side_effects,
        )

    async def begin(self, story: Story) -> Rest | None:
        """A replay from 0 begins as its source did."""
        if story.diary.run_started_at is None and self.recording.started is not None:
            await story.put([verbatim(self.recording.started)])
        return None

    async def execute(self, story: Story, start: StartNode, *, resumed: bool) -> Rest | None:
        """Serve an execution, or run it again."""
        if not resumed and self.recording.ended_behind(story.diary.terminals) is not None:
            await story.put([verbatim(event) for event in self.recording.ended])
            return None
        if not resumed:
            await story.put(start_events(start))
        recorded = self.recording.execution(start.node_id, start.execution)
        if self._has_effects(start):
            events = _served(start, recorded)
        else:
            events = await self._again(story, start, recorded)
        *facts, terminal = events
        await story.put([*facts[story.diary.facts.get(start.node_id, 0) :], terminal])
        return None

    async def await_interrupt(self, story: Story, node_id: str) -> Rest | None:
        """A replay does not wait: the boundary lies between a question and its answer, which is in the source."""
        answer = self.recording.resolutions.get(story.progress.open[node_id].waiting_for)
        if answer is not None:
            await story.put([verbatim(answer)])
            return None
        node = story.progress.node(node_id)
        start = StartNode(
            node_id=node_id,
            type_id=self.workflow.node(node_id).type_id,
            visit=node.visit,
            attempt=node.attempt,
            execution=story.progress.execution(node_id),
            inputs={},
        )
        await story.put(_missing(start, "the source run has no answer to what this node waits for"))
        return None

    def _has_effects(self, start: StartNode) -> bool:
        """Whether the node may do something outside: by its declared role, and by what an operator adds. Nothing can be taken away."""
        return self.workflow.node_type(start.node_id).role == "side-effect" or start.type_id in self.also_side_effects

    async def _again(self, story: Story, start: StartNode, recorded: RecordedExecution | None) -> list[NewEvent]:
        host = _History(replay=self, story=story, start=start)
        run = NodeRun(
            workflow_id=self.workflow.workflow_id,
            start=start,
            parts=story.parts(recorded_pins=self.recording.pins),
            draws=[draw_of(row) for row in recorded.draws] if recorded else [],
        )
        try:
            result = await self.workers.run_node(run, host)
        except WorkerDied:
            result = await self.workers.run_node(run, host)  # it has done nothing, so it may simply run again
        return [*map(verbatim, host.answers), *_with_history(terminal_events(start, result), recorded)]


@dataclass(slots=True, kw_only=True, eq=False)
class _History:
    """What a node in the worker gets when it asks."""

    replay: Replaying
    story: Story
    start: StartNode
    answers: list[Event] = field(default_factory=list)
    """Resolutions that it was served and that the replay's log does not hold yet."""

    async def invoke(
        self, request: LlmRequest, key: str, repetition: int, call: Callable[[], Awaitable[LlmResponse]] | None = None
    ) -> LlmResponse:
        del request, call
        found = await self.replay.ledger.get_invocation(
            self.replay.info.run_id,
            self.start.node_id,
            execution=self.start.execution,
            key=key,
            repetition=repetition,
            follow_sources=True,
        )
        if found is None:
            raise NodeError(SOURCE_MISSING, "the source run did not ask a model this here", retryable=False)
        return response_of(found)

    async def interrupt(self, request: InterruptRequest) -> Mapping[str, Json]:
        node_id, visit = self.start.node_id, self.start.visit
        derived = [interrupt_id(run_id, node_id, visit, request.key) for run_id in self.replay.sources]
        found = self.replay.recording.resolution(node_id, visit, request.key, derived)
        if found is None:
            raise NodeError(SOURCE_MISSING, f"the source run has no answer to {request.key!r}", retryable=False)
        payload = found.payload
        if payload.get("interruptId") not in self.story.diary.resolved and found not in self.answers:
            self.answers.append(found)
        return payload

    async def remaining_ms(self, delay_ms: int) -> int:
        """Nobody waits in a replay."""
        del delay_ms
        return 0

    async def draw(self, *args: Any) -> NoReturn:
        """The draws went along with the node."""
        raise NotImplementedError(args)

    async def effect(self, *args: Any) -> NoReturn:
        """Nothing that runs in the worker has effects."""
        raise NotImplementedError(args)

    async def dispatch(self, *args: Any) -> NoReturn:
        """As ``effect``."""
        raise NotImplementedError(args)


def _served(start: StartNode, recorded: RecordedExecution | None) -> list[NewEvent]:
    if recorded is not None:
        return [verbatim(event) for event in recorded.events]
    return _missing(start, f"the source run has no recorded outcome number {start.execution} for this node")


def _missing(start: StartNode, message: str) -> list[NewEvent]:
    failure = Failure(code=SOURCE_MISSING, message=message, retryable=False)
    return terminal_events(start, NodeResult(outcome=Failed(error=failure)))


def _with_history(events: Sequence[NewEvent], recorded: RecordedExecution | None) -> list[NewEvent]:
    """What the node wrote, with its memory as the source recorded it: what was written is history, ids and all.

    A node that writes more into memory than its source did has written something new, and that shows.
    """
    memory = recorded.facts_of("memory.written") if recorded else ()
    if not memory or events[-1].type != "node.completed":
        return list(events)
    own = [place for place, event in enumerate(events) if event.type == "memory.written"]
    behind = next(place for place, event in enumerate(events) if event.type in _BEHIND_MEMORY)
    first = own[0] if own else behind
    return [*events[:first], *map(verbatim, memory), *events[first + min(len(own), len(memory)) :]]


_BEHIND_MEMORY = frozenset({"node.dispatched", "envelope.refusal", "node.completed"})
