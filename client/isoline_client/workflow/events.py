"""The makers of the events that an executor writes, used live and in replay alike: no other place makes their payloads.

One list is one append. Payloads hold no wall-clock durations and nothing random but what was drawn, and that is declared as masked.
"""

from typing import Any, Final

from isoline_client.events import NewEvent
from isoline_client.workflow.actions import (
    Action,
    Cancel,
    Ended,
    Fail,
    Finish,
    LoopLimit,
    NotStarted,
    Paused,
    ResumeNode,
    RetryNode,
    SkipNode,
    StartNode,
    WaitForInterrupt,
)
from isoline_client.workflow.results import (
    Completed,
    Draw,
    Failed,
    Failure,
    InDoubt,
    NodeResult,
    Parked,
    Suspended,
)
from isoline_client.workflow.values import digest_hex

CANCEL_REQUESTED: Final = "example.cancel-requested"
"""No registered event says that a cancel was asked for, and ``example`` is the one vendor name that is free for use."""

VISIT: Final = "x-isoline-visit"
INPUTS_DIGEST: Final = "x-isoline-inputs-digest"
DRAWS: Final = "x-isoline-draws"
MEMORY_VALUE: Final = "x-isoline-value"

TIMED_OUT: Final = Fail(
    error=Failure(code="run_timeout", message="the run took longer than its workflow allows", retryable=False)
)
"""What a driver does with a run whose time is up: the planner knows no clock."""


def action_events(action: Action) -> list[NewEvent]:
    """What records a step of the planner; nothing for a step that is not recorded."""
    match action:
        case StartNode():
            return [_started(action)]
        case RetryNode(node_id=node_id):
            return [_of(node_id, "node.retried", {"attempt": action.attempt, "delayMs": action.delay_ms})]
        case SkipNode(node_id=node_id):
            return [_of(node_id, "node.skipped", {"reason": action.reason})]
        case Finish():
            return [NewEvent("run.completed", {"outputs": action.outputs})]
        case Fail():
            return [_run_failed(action.error, action.node_id)]
        case LoopLimit():
            return _loop_limit(action)
        case Cancel():
            cancelled = [_of(node_id, "node.cancelled", _present(reason=action.reason)) for node_id in action.node_ids]
            ended = _present(reason=action.reason, cancelledBy=action.cancelled_by)
            return [*cancelled, NewEvent("run.cancelled", ended)]
        case ResumeNode() | WaitForInterrupt() | Paused() | NotStarted() | Ended():
            return []


def start_events(action: StartNode | ResumeNode) -> list[NewEvent]:
    """What records that an execution begins; nothing when it is one that began before."""
    return action_events(action)


def terminal_events(start: StartNode, result: NodeResult) -> list[NewEvent]:
    """What records an execution: its facts in their fixed order, then its terminal. Nothing for one that is only put off."""
    match result.outcome:
        case Completed(outputs=outputs):
            return [*_kept(start, result), *_written(start, result), _completed(start, outputs, result)]
        case Failed(error=error):
            return [*_kept(start, result), *_refusals(start, result), _failed(start, error, result)]
        case Suspended(requested=False) as suspended:
            return [*_kept(start, result), *_suspension(start, suspended, result)]
        case Suspended() | Parked() | InDoubt():
            return []


def _started(action: StartNode) -> NewEvent:
    payload = {
        "typeId": action.type_id,
        "attempt": action.attempt,
        VISIT: action.visit,
        INPUTS_DIGEST: digest_hex(action.inputs),
    }
    return _of(action.node_id, "node.started", payload)


def _kept(start: StartNode, result: NodeResult) -> list[NewEvent]:
    """What stays whatever the outcome is."""
    return [
        _of(start.node_id, "version.pinned", {"changeId": pin.change_id, "version": pin.version}) for pin in result.pins
    ]


def _written(start: StartNode, result: NodeResult) -> list[NewEvent]:
    node_id = start.node_id
    return [
        *(_of(node_id, "variable.changed", {"name": each.name, "next": each.next}) for each in result.variables),
        *(
            _of(node_id, "channel.written", {"channel": each.channel, "reducer": each.reducer, "value": each.value})
            for each in result.channels
        ),
        *(
            _of(
                node_id,
                "memory.written",
                {"memoryRef": each.memory_ref, "memoryId": each.memory_id, MEMORY_VALUE: each.value}
                | ({"tags": list(each.tags)} if each.tags else {}),
            )
            for each in result.memory
        ),
        *(
            # The payload is closed and names no node; the event does.
            NewEvent(
                "node.dispatched",
                {"childRunId": each.child_run_id, "childWorkflowId": each.workflow_id, "childStatus": each.status},
                node_id=node_id,
            )
            for each in result.dispatched
        ),
        *_refusals(start, result),
    ]


def _refusals(start: StartNode, result: NodeResult) -> list[NewEvent]:
    return [
        _of(
            start.node_id,
            "envelope.refusal",
            {
                "provider": each.provider,
                "model": each.model,
                "refusalText": each.text,
                "safetyCategory": each.safety_category,
            },
        )
        for each in result.refusals
    ]


def _completed(start: StartNode, outputs: Any, result: NodeResult) -> NewEvent:
    draws, masked = _draws(result.draws)
    return _of(start.node_id, "node.completed", {"outputs": outputs, **draws}, masked)


def _failed(start: StartNode, error: Failure, result: NodeResult) -> NewEvent:
    draws, masked = _draws(result.draws)
    return _of(
        start.node_id, "node.failed", {"error": error_object(error), "attempts": start.attempt + 1, **draws}, masked
    )


def _draws(draws: tuple[Draw, ...]) -> tuple[dict[str, Any], tuple[str, ...]]:
    if not draws:
        return {}, ()
    rows = [
        {"source": each.at.source, "scope": each.at.scope, "ordinal": each.at.ordinal, "value": each.value}
        for each in sorted(draws, key=lambda draw: draw.at)
    ]
    return {DRAWS: rows}, tuple(f"/{DRAWS}/{index}/value" for index in range(len(rows)))


def _suspension(start: StartNode, suspended: Suspended, result: NodeResult) -> list[NewEvent]:
    """The question, and what was drawn before it was asked: it may depend on that, and the execution is run again."""
    draws, masked = _draws(result.draws)
    asked = suspended.interrupt
    named = {"interruptId": asked.interrupt_id, "kind": asked.kind, "key": asked.key}
    return [
        _of(start.node_id, "interrupt.requested", {**named, "data": asked.data}),
        _of(start.node_id, "node.suspended", {**named, **draws}, masked),
    ]


def _loop_limit(action: LoopLimit) -> list[NewEvent]:
    error = loop_limit_exceeded(action.node_id, action.iterations, action.limit)
    counts = {"iterations": action.iterations, "limit": action.limit}
    return [_of(action.node_id, "workflow.loopback-limit", counts), _run_failed(error, action.node_id)]


def loop_limit_exceeded(node_id: str, iterations: int, limit: int) -> Failure:
    """Why a run ends whose loop wants to go on."""
    told = f"{node_id} was entered {iterations} times, and may be {limit} times"
    return Failure(code="loop_limit_exceeded", message=told, retryable=False)


def _run_failed(error: Failure, node_id: str) -> NewEvent:
    return NewEvent("run.failed", {"error": error_object(error), **_present(failedNodeId=node_id)})


def error_object(error: Failure) -> dict[str, Any]:
    """An error as payloads hold it."""
    details = {"details": error.details} if error.details else {}
    return {"code": error.code, "message": error.message, "retryable": error.retryable, **details}


def _of(node_id: str, kind: str, payload: dict[str, Any], masked: tuple[str, ...] = ()) -> NewEvent:
    return NewEvent(kind, {"nodeId": node_id, **payload}, node_id=node_id, masked=masked)


def _present(**members: str) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}
