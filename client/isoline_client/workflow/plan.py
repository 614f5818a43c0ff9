"""What a run does next: a pure function of its workflow and of how far it has come. The same log always gives the same answer.

An open execution comes before everything else; a run does one thing at a time (``progress`` says in which order). Whoever carries an answer
out records it with ``events`` and folds what was recorded; nothing is remembered anywhere else.
"""

from collections.abc import Mapping
from typing import Any

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
from isoline_client.workflow.definition import Binding, Constant, NodeOutput, RunInput, Variable, Workflow
from isoline_client.workflow.progress import Progress, Step
from isoline_client.workflow.values import Json, pick

NO_TRIGGER = "the trigger rules of its incoming edges do not hold"
"""Why a node is skipped."""


def plan(workflow: Workflow, progress: Progress) -> Action:
    """The next step of the run."""
    if progress.ended:
        return Ended()
    if progress.cancel is not None:
        reason, cancelled_by = progress.cancel
        return Cancel(reason=reason, cancelled_by=cancelled_by, node_ids=tuple(progress.open))
    if not progress.started:
        return NotStarted()
    for node_id in progress.open:
        if node_id in workflow:
            return _go_on(workflow, progress, node_id)
    if progress.paused:
        return Paused()
    if progress.failed is not None:
        node_id, failure = progress.failed
        return Fail(error=failure, node_id=node_id)
    if progress.agenda:
        return _take(workflow, progress, progress.agenda[0])
    if progress.unanswered:
        node_id, failure = next(iter(progress.unanswered.items()))
        return Fail(error=failure, node_id=node_id)
    return Finish(outputs=_run_outputs(workflow, progress))


def _go_on(workflow: Workflow, progress: Progress, node_id: str) -> Action:
    """An open execution: run it again, unless it waits for somebody, or a pause does not let it."""
    execution = progress.open[node_id]
    if execution.waiting_for:
        return Paused() if progress.paused else WaitForInterrupt(node_ids=(node_id,))
    if progress.paused == "immediate":
        return Paused()
    return ResumeNode(start=_start(workflow, progress, node_id, execution.visit, execution.attempt))


def _take(workflow: Workflow, progress: Progress, step: Step) -> Action:
    node = progress.node(step.node_id)
    match step.due:
        case "start":
            visit = max(node.visit, 1) if node.same_visit else node.visit + 1
            attempt = node.attempt if node.same_visit else 0
            return _start(workflow, progress, step.node_id, visit, attempt, delay_ms=step.delay_ms)
        case "skip":
            return SkipNode(node_id=step.node_id, reason=NO_TRIGGER)
        case "retry":
            return RetryNode(node_id=step.node_id, attempt=node.attempt + 1, delay_ms=step.delay_ms)
        case "loop-limit":
            limit = workflow.settings.max_loopback_iterations
            return LoopLimit(node_id=step.node_id, iterations=node.visit, limit=limit)


def _start(
    workflow: Workflow, progress: Progress, node_id: str, visit: int, attempt: int, *, delay_ms: int = 0
) -> StartNode:
    return StartNode(
        node_id=node_id,
        type_id=workflow.node(node_id).type_id,
        visit=visit,
        attempt=attempt,
        execution=progress.execution(node_id),
        inputs=_inputs(workflow, progress, node_id),
        delay_ms=delay_ms,
    )


def _inputs(workflow: Workflow, progress: Progress, node_id: str) -> Mapping[str, Json]:
    """What the node is given: its bindings, or, without any, the run's inputs and what its predecessors last put out."""
    bindings = workflow.node(node_id).inputs
    if bindings is not None:
        return {name: _bound(binding, progress) for name, binding in bindings.items()}
    inputs: dict[str, Any] = {"run": progress.inputs}
    for source in workflow.graph.predecessors[node_id]:
        before = progress.nodes.get(source)
        if before is not None and before.outputs is not None:
            inputs[source] = before.outputs
    return inputs


def _bound(binding: Binding, progress: Progress) -> Json:
    match binding:
        case Constant(value=value):
            return value
        case Variable(name=name):
            return progress.variables.get(name)
        case RunInput(name=name):
            return progress.inputs.get(name)
        case NodeOutput(node_id=node_id, path=path):
            node = progress.nodes.get(node_id)
            return None if node is None else pick(node.outputs, path)


def _run_outputs(workflow: Workflow, progress: Progress) -> Mapping[str, Json]:
    """Outputs of the nodes that end a way through the workflow, by id; if none of them completed, of the one that completed last."""
    ends = [
        node.id for node in workflow.nodes if not workflow.graph.outgoing[node.id] and progress.node(node.id).completed
    ]
    return {node_id: progress.node(node_id).outputs for node_id in ends or [progress.last_completed] if node_id}
