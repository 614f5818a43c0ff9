"""Runs without an executor: the plan, the event makers and the fold in a circle, with outcomes that a test says; and a host that answers."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from isoline_client.events import NewEvent
from isoline_client.workflow import (
    Action,
    Completed,
    ContextParts,
    Draw,
    EffectOutcome,
    EffectRequest,
    EffectTicket,
    Ended,
    Failed,
    Failure,
    InterruptRequest,
    LlmRequest,
    LlmResponse,
    NodeResult,
    NotStarted,
    Park,
    Paused,
    Progress,
    ResumeNode,
    StartNode,
    Suspend,
    Suspended,
    WaitForInterrupt,
    Workflow,
    action_events,
    plan,
    run_node,
    start_events,
    terminal_events,
)
from isoline_client.workflow.host import DispatchOutcome, DispatchRequest
from isoline_client.workflow.results import DrawAt

RUN = "acme/0123456789abcdef"

Line = tuple[str, str, dict[str, Any]]
"""Type, node and payload of an event."""
Outcomes = Callable[[StartNode], NodeResult]


def line(kind: str, node_id: str = "", **payload: Any) -> Line:
    return kind, node_id, {**({"nodeId": node_id} if node_id else {}), **payload}


def line_of(event: NewEvent) -> Line:
    return event.type, event.node_id, json.loads(event.payload_bytes)


STARTED = line("run.started", workflowId="w", inputs={})


def fold(workflow: Workflow, log: list[Line]) -> Progress:
    progress = Progress.empty(workflow)
    for seq, (kind, node_id, payload) in enumerate(log):
        progress.apply(seq, kind, node_id, payload)
    return progress


def next_of(workflow: Workflow, log: list[Line]) -> Action:
    return plan(workflow, fold(workflow, log))


def done(start: StartNode) -> NodeResult:
    """An outcome that says which execution it is of."""
    return NodeResult(outcome=Completed(outputs={"n": start.execution}))


def failing(*executions: tuple[str, int], retryable: bool = False) -> Outcomes:
    """These executions (node and number) fail; all others complete."""

    def outcome(start: StartNode) -> NodeResult:
        if (start.node_id, start.execution) in executions:
            return NodeResult(outcome=Failed(error=Failure(code="example.bad", message="bad", retryable=retryable)))
        return done(start)

    return outcome


def go_on(workflow: Workflow, log: list[Line], outcomes: Outcomes = done, *, steps_max: int = 1_000) -> list[Line]:
    """The log, gone on with until there is nothing to do."""
    log = list(log)
    progress = fold(workflow, log)

    def put(events: list[NewEvent]) -> None:
        for event in events:
            log.append(line_of(event))
            progress.apply(len(log) - 1, *log[-1])

    for _ in range(steps_max):
        match plan(workflow, progress):
            case Ended() | NotStarted() | Paused() | WaitForInterrupt():
                return log
            case StartNode() as start:
                put(start_events(start))
                put(terminal_events(start, outcomes(start)))
            case ResumeNode(start=start):
                put(terminal_events(start, outcomes(start)))
            case action:
                put(action_events(action))
    raise AssertionError("the run does not end")


def told(log: list[Line]) -> list[str]:
    """The log in short: types without their family, and nodes."""
    return [f"{kind.removeprefix('node.')} {node_id}".strip() for kind, node_id, _ in log]


@dataclass
class AHost:
    """Answers from what a test says, and remembers what it was asked."""

    recorded: dict[DrawAt, Any] = field(default_factory=dict)
    answers: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    child: DispatchOutcome | None = None
    remaining: int = 0
    drawn: list[DrawAt] = field(default_factory=list)
    effects: list[EffectRequest] = field(default_factory=list)
    invoked: list[tuple[str, int]] = field(default_factory=list)
    dispatched: list[DispatchRequest] = field(default_factory=list)
    asked: list[InterruptRequest] = field(default_factory=list)

    @classmethod
    def replaying(cls, draws: tuple[Draw, ...]) -> "AHost":
        return cls(recorded={draw.at: draw.value for draw in draws})

    async def draw(self, source: str, scope: str, ordinal: int, fresh: Callable[[], Any]) -> Any:
        at = DrawAt(scope=scope, source=source, ordinal=ordinal)
        self.drawn.append(at)
        return self.recorded[at] if at in self.recorded else fresh()

    async def effect(
        self, request: EffectRequest, send: Callable[[EffectTicket], Awaitable[EffectOutcome]]
    ) -> EffectOutcome:
        self.effects.append(request)
        return await send(EffectTicket(effect_id=request.effect_id, attempt=1))

    async def invoke(
        self, _request: LlmRequest, key: str, repetition: int, call: Callable[[], Awaitable[LlmResponse]]
    ) -> LlmResponse:
        self.invoked.append((key, repetition))
        return await call()

    async def interrupt(self, request: InterruptRequest) -> Mapping[str, Any]:
        self.asked.append(request)
        if request.key not in self.answers:
            raise Suspend(request)
        return self.answers[request.key]

    async def dispatch(self, request: DispatchRequest) -> DispatchOutcome:
        self.dispatched.append(request)
        if self.child is None:
            raise Park(250)
        return self.child

    async def remaining_ms(self, _delay_ms: int) -> int:
        return self.remaining


def start_of(
    workflow: Workflow, node_id: str, inputs: Mapping[str, Any] | None = None, *, visit: int = 1, attempt: int = 0
) -> StartNode:
    return StartNode(
        node_id=node_id,
        type_id=workflow.node(node_id).type_id,
        visit=visit,
        attempt=attempt,
        execution=1,
        inputs=inputs or {},
    )


async def executed(
    workflow: Workflow, node_id: str, host: AHost | None = None, inputs: Mapping[str, Any] | None = None, **parts: Any
) -> NodeResult:
    """One execution of a node."""
    start = start_of(workflow, node_id, inputs)
    return await run_node(workflow, start, ContextParts(run_id=RUN, **parts), host or AHost())


def failure(result: NodeResult) -> Failure:
    assert isinstance(result.outcome, Failed), result.outcome
    return result.outcome.error


def outputs(result: NodeResult) -> Mapping[str, Any]:
    assert isinstance(result.outcome, Completed), result.outcome
    return result.outcome.outputs


def suspension(interrupt_id: str, key: str = "ok") -> NodeResult:
    request = InterruptRequest(interrupt_id=interrupt_id, key=key, kind="approval", data=None)
    return NodeResult(outcome=Suspended(interrupt=request))
