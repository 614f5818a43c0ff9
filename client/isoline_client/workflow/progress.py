"""How far a run has come: the fold of its events that scheduling needs. Pure; one event costs the same however long the log is.

Any log can be folded: one that a fork inherits (cut anywhere), one that was written by other code or another engine. Types and members that
are not understood change nothing, and a node that the workflow does not have is only counted.

What is to be done is kept as an agenda: steps in the order in which they became due. The first one is next, and nothing else is done
before it has ended: a run does one thing at a time, so that the order of its events never depends on who was faster. A retry, and an
execution that a pause cut off, go to the front.

How nodes become due:

* A node without incoming edges is due when the run starts.
* Any other node is decided when all its incoming edges are: it is due when the trigger rule of every edge holds over all of them, else it
  is skipped. An edge whose ``when`` does not hold counts as skipped.
* A loop's edge is looked at when its source has ended and its rule holds for that alone; then its target is due again (its next visit),
  what lies behind it is undecided again, and the other edges of the source are left for a later round.
* A failure that no edge can answer ends the run at once; one that no due node answered ends it when nothing else is left.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from isoline_client.workflow import channels
from isoline_client.workflow.definition import Edge, TriggerRule, Workflow
from isoline_client.workflow.events import CANCEL_REQUESTED, DRAWS, MEMORY_VALUE, VISIT, loop_limit_exceeded
from isoline_client.workflow.results import DrawAt, Failure
from isoline_client.workflow.values import Json, pick

EdgeState: TypeAlias = Literal["success", "failed", "skipped"]
Due: TypeAlias = Literal["start", "skip", "retry", "loop-limit"]

RULES: Final[Mapping[TriggerRule, Callable[[list[EdgeState]], bool]]] = {
    "all_success": lambda states: all(state == "success" for state in states),
    "any_success": lambda states: "success" in states,
    "all_done": lambda _states: True,
    "none_failed": lambda states: "failed" not in states,
    "any_failed": lambda states: "failed" in states,
    "all_failed": lambda states: all(state == "failed" for state in states),
}
"""Whether a node may run, given how its incoming edges ended."""

ANSWERING: Final = frozenset({"any_success", "all_done", "any_failed", "all_failed"})
"""Rules under which a node may run although another one failed."""


@dataclass(slots=True)
class Step:
    """Something that is due. ``delay_ms``: not sooner after the ``node.retried`` that made it due."""

    node_id: str
    due: Due
    delay_ms: int = 0


@dataclass(slots=True)
class Open:
    """An execution that began and has no terminal."""

    visit: int
    attempt: int
    started_seq: int
    waiting_for: str = ""
    """Id of the interrupt that it waits for."""
    draws: dict[DrawAt, Json] = field(default_factory=dict)
    """What it drew before it was last suspended: it draws the same when it is run again."""


@dataclass(slots=True)
class NodeProgress:
    """One node. ``visit`` and ``attempt`` are those of its latest execution."""

    visit: int = 0
    attempt: int = 0
    terminals: int = 0
    """Recorded ``node.completed`` and ``node.failed``, inherited ones included."""
    outputs: Json = None
    """Of its latest completed execution."""
    completed: bool = False
    same_visit: bool = False
    """Whether its next start belongs to the visit of its latest one: a retry, or an execution that was cut off."""
    decided: bool = False
    """Whether it is due, or was, in this round."""
    edges: dict[str, EdgeState] = field(default_factory=dict)
    """How its incoming edges ended in this round."""


@dataclass(frozen=True, slots=True)
class Asked:
    """An interrupt that was requested."""

    node_id: str
    visit: int
    key: str


class Progress:
    """The fold. ``apply`` takes the next event, in place; everything else is to be read only."""

    def __init__(self, workflow: Workflow) -> None:
        self.workflow: Final = workflow
        self.next_seq = 0
        self.started = False
        self.ended = ""
        """The type of the event that ended the run."""
        self.inputs: Mapping[str, Json] = {}
        self.variables: dict[str, Any] = dict(workflow.variables)
        self.channels: dict[str, Any] = {}
        self.memory: dict[str, Any] = {}
        self.pins: dict[str, int] = {}
        self.nodes: dict[str, NodeProgress] = {}
        self.open: dict[str, Open] = {}
        """Open executions, in the order in which they began. Logs of this engine have at most one."""
        self.paused: str = ""
        """The drain policy of a pause that was not lifted."""
        self.cancel: tuple[str, str] | None = None
        """Reason and author of a request to cancel."""
        self.agenda: deque[Step] = deque()
        self.failed: tuple[str, Failure] | None = None
        """A failure that no edge can answer."""
        self.unanswered: dict[str, Failure] = {}
        """Failures that an edge may answer still."""
        self.last_completed = ""
        self.asked: dict[str, Asked] = {}
        """Requested interrupts by id."""
        self.resolutions: dict[Asked, Mapping[str, Json]] = {}
        """Payloads of ``interrupt.resolved``."""
        self._requested: set[Asked] = set()
        self._graph: Final = workflow.graph

    @classmethod
    def empty(cls, workflow: Workflow) -> "Progress":
        """The fold of nothing."""
        return cls(workflow)

    def node(self, node_id: str) -> NodeProgress:
        """A node's progress, also of one that the workflow does not have."""
        found = self.nodes.get(node_id)
        if found is None:
            found = self.nodes[node_id] = NodeProgress()
        return found

    def execution(self, node_id: str) -> int:
        """Number ``n`` of the node's next (or open) execution: one more than its recorded terminals."""
        return self.node(node_id).terminals + 1

    def resolution(self, node_id: str, visit: int, key: str) -> Mapping[str, Json] | None:
        """How an interrupt was resolved; None when it was not."""
        return self.resolutions.get(Asked(node_id, visit, key))

    def is_requested(self, node_id: str, visit: int, key: str) -> bool:
        """Whether an interrupt was requested, resolved or not."""
        return Asked(node_id, visit, key) in self._requested

    def apply(self, seq: int, kind: str, node_id: str, payload: Mapping[str, Any]) -> "Progress":
        """Take the event at ``seq``; ``kind`` is its type. The payload is kept in part, so nobody may change it afterwards."""
        self.next_seq = seq + 1
        step = _STEPS.get(kind)
        if step is not None and not self.ended:
            named = payload.get("nodeId")
            step(self, named if isinstance(named, str) and named else node_id, payload)
        return self

    # --- the run -------------------------------------------------------------------------------------------------------------------

    def _run_started(self, _node_id: str, payload: Mapping[str, Any]) -> None:
        if self.started:
            return
        self.started = True
        self.inputs = _object(payload.get("inputs"))
        self.variables.update(self.inputs)
        for node_id in self._graph.entries:
            self._decide(node_id, "start")

    def _run_paused(self, _node_id: str, payload: Mapping[str, Any]) -> None:
        self.paused = "immediate" if payload.get("drainPolicy") == "immediate" else "drain-current-node"
        if self.paused == "immediate":
            for node_id, execution in list(self.open.items()):
                if not execution.waiting_for:
                    self._cut(node_id)

    def _cut(self, node_id: str) -> None:
        """The execution ends without a terminal; a fresh start of the same attempt takes its place."""
        del self.open[node_id]
        self.node(node_id).same_visit = True
        if node_id in self.workflow:
            self.agenda.appendleft(Step(node_id, "start"))

    def _run_resumed(self, _node_id: str, _payload: Mapping[str, Any]) -> None:
        self.paused = ""

    def _cancel_requested(self, _node_id: str, payload: Mapping[str, Any]) -> None:
        self.cancel = self.cancel or (_text(payload, "reason"), _text(payload, "cancelledBy"))

    def _end(self, kind: str) -> None:
        self.ended = kind

    # --- nodes ---------------------------------------------------------------------------------------------------------------------

    def _node_started(self, node_id: str, payload: Mapping[str, Any]) -> None:
        node = self.node(node_id)
        before = self.open.pop(node_id, None)
        same = node.same_visit or before is not None
        node.visit = _integer(payload, VISIT, max(node.visit, 1) if same else node.visit + 1)
        node.attempt = _integer(payload, "attempt", node.attempt if same else 0)
        node.same_visit = False
        node.decided = True
        self._strike(node_id)
        self.open[node_id] = Open(node.visit, node.attempt, self.next_seq - 1)

    def _node_completed(self, node_id: str, payload: Mapping[str, Any]) -> None:
        node = self._terminal(node_id)
        node.outputs = _object(payload.get("outputs"))
        node.completed = True
        self.last_completed = node_id
        self._pass_on(node_id, "success", node.outputs)

    def _node_failed(self, node_id: str, payload: Mapping[str, Any]) -> None:
        node = self._terminal(node_id)
        if node_id not in self.workflow:
            return
        failure = _failure(payload.get("error"))
        retry = self.workflow.node(node_id).retry
        if failure.retryable and node.attempt + 1 < retry.max_attempts:
            node.same_visit = True
            self.agenda.appendleft(Step(node_id, "retry", retry.delay_ms(node.attempt + 1)))
            return
        leaving = self._graph.outgoing[node_id] + self._graph.loops[node_id]
        if not any(edge.trigger_rule in ANSWERING for edge in leaving):
            self.failed = self.failed or (node_id, failure)
            return
        self.unanswered[node_id] = failure
        self._pass_on(node_id, "failed", None)

    def _node_retried(self, node_id: str, payload: Mapping[str, Any]) -> None:
        node = self.node(node_id)
        node.attempt = _integer(payload, "attempt", node.attempt + 1)
        node.same_visit = True
        self._strike(node_id)
        self.unanswered.pop(node_id, None)
        if self.failed and self.failed[0] == node_id:
            self.failed = None
        if node_id in self.workflow:
            self.agenda.appendleft(Step(node_id, "start", _integer(payload, "delayMs", 0)))

    def _node_skipped(self, node_id: str, _payload: Mapping[str, Any]) -> None:
        self.node(node_id).decided = True
        self._strike(node_id)
        self._pass_on(node_id, "skipped", None)

    def _loopback_limit(self, node_id: str, payload: Mapping[str, Any]) -> None:
        """The end that goes with it may have been cut off: it is all that is left to do."""
        iterations, limit = _integer(payload, "iterations", 1), _integer(payload, "limit", 1)
        self.failed = (node_id, loop_limit_exceeded(node_id, iterations, limit))

    def _node_cancelled(self, node_id: str, _payload: Mapping[str, Any]) -> None:
        self.open.pop(node_id, None)
        self._strike(node_id)

    def _terminal(self, node_id: str) -> NodeProgress:
        node = self.node(node_id)
        node.terminals += 1
        node.visit = max(node.visit, 1)
        node.same_visit = False
        node.completed = False
        node.decided = True
        if self.open.pop(node_id, None) is None:
            self._strike(node_id)
        return node

    # --- what follows --------------------------------------------------------------------------------------------------------------

    def _pass_on(self, node_id: str, state: EdgeState, outputs: Json) -> None:
        """Settle the edges that leave a node which has ended."""
        if node_id not in self.workflow or self._loop(node_id, state, outputs):
            return
        for edge in self._graph.outgoing[node_id]:
            target = self.node(edge.target)
            target.edges[edge.id] = _edge_state(edge, state, outputs)
            into = self._graph.incoming[edge.target]
            if len(target.edges) == len(into) and not target.decided:
                self._judge(edge.target, into, target)

    def _judge(self, node_id: str, into: tuple[Edge, ...], node: NodeProgress) -> None:
        states = [node.edges[edge.id] for edge in into]
        if all(RULES[edge.trigger_rule](states) for edge in into):
            for edge in into:
                self.unanswered.pop(edge.source, None)
            self._enter(node_id)
        else:
            self._decide(node_id, "skip")

    def _loop(self, node_id: str, state: EdgeState, outputs: Json) -> bool:
        """Whether a loop's edge is taken; the first one whose rule holds."""
        for edge in self._graph.loops[node_id]:
            if RULES[edge.trigger_rule]([_edge_state(edge, state, outputs)]) and state != "skipped":
                self.unanswered.pop(node_id, None)
                self._enter_again(edge.target)
                return True
        return False

    def _enter_again(self, node_id: str) -> None:
        for other_id, inner_edges in self._graph.rounds[node_id]:
            other = self.node(other_id)
            for edge_id in inner_edges:
                other.edges.pop(edge_id, None)
            other.decided = False
        self._enter(node_id)

    def _enter(self, node_id: str) -> None:
        """Due to run, unless it was entered as often as it may be; inside an outer loop its own iterations count on."""
        visit = self.node(node_id).visit
        over = visit > 0 and visit >= self.workflow.settings.max_loopback_iterations
        self._decide(node_id, "loop-limit" if over else "start")

    def _decide(self, node_id: str, due: Due) -> None:
        self.node(node_id).decided = True
        self.agenda.append(Step(node_id, due))

    def _strike(self, node_id: str) -> None:
        """Take the node's first step off the agenda; it is the first of all unless other code wrote the log."""
        for index, step in enumerate(self.agenda):
            if step.node_id == node_id:
                del self.agenda[index]
                return

    # --- facts ---------------------------------------------------------------------------------------------------------------------

    def _interrupt_requested(self, node_id: str, payload: Mapping[str, Any]) -> None:
        interrupt_id = _text(payload, "interruptId")
        node = self.node(node_id)
        asked = self.asked.setdefault(interrupt_id, Asked(node_id, node.visit, _text(payload, "key") or interrupt_id))
        self._requested.add(asked)
        execution = self.open.get(node_id)
        if execution is not None and asked not in self.resolutions:
            execution.waiting_for = interrupt_id

    def _node_suspended(self, node_id: str, payload: Mapping[str, Any]) -> None:
        self._interrupt_requested(node_id, payload)
        if (execution := self.open.get(node_id)) is not None:
            execution.draws.update(draws_of(payload))

    def _interrupt_resolved(self, node_id: str, payload: Mapping[str, Any]) -> None:
        interrupt_id = _text(payload, "interruptId")
        asked = self.asked.get(interrupt_id) or Asked(node_id, self.node(node_id).visit, interrupt_id)
        self.resolutions.setdefault(asked, payload)
        execution = self.open.get(asked.node_id)
        if execution is not None and execution.waiting_for == interrupt_id:
            execution.waiting_for = ""

    def _version_pinned(self, _node_id: str, payload: Mapping[str, Any]) -> None:
        change_id = _text(payload, "changeId")
        if change_id:
            self.pins[change_id] = _integer(payload, "version", 0)

    def _variable_changed(self, _node_id: str, payload: Mapping[str, Any]) -> None:
        name = _text(payload, "name")
        if name and "next" in payload:
            self.variables[name] = payload["next"]
        elif name:
            self.variables.pop(name, None)

    def _channel_written(self, _node_id: str, payload: Mapping[str, Any]) -> None:
        channel = _text(payload, "channel")
        if channel and "value" in payload:
            channels.write(self.channels, channel, _text(payload, "reducer"), payload["value"])

    def _memory_written(self, _node_id: str, payload: Mapping[str, Any]) -> None:
        memory_ref = _text(payload, "memoryRef")
        if memory_ref and MEMORY_VALUE in payload:
            self.memory[memory_ref] = payload[MEMORY_VALUE]


_Fold: TypeAlias = Callable[[Progress, str, Mapping[str, Any]], None]

# The steps are the fold's own; the table stands outside because it is the fold's index, made once.
_STEPS: Final[Mapping[str, _Fold]] = {
    "run.started": Progress._run_started,  # noqa: SLF001
    "run.paused": Progress._run_paused,  # noqa: SLF001
    "run.resumed": Progress._run_resumed,  # noqa: SLF001
    "run.resume-started": Progress._run_resumed,  # noqa: SLF001
    "run.completed": lambda progress, _node_id, _payload: progress._end("run.completed"),  # noqa: SLF001
    "run.failed": lambda progress, _node_id, _payload: progress._end("run.failed"),  # noqa: SLF001
    "run.cancelled": lambda progress, _node_id, _payload: progress._end("run.cancelled"),  # noqa: SLF001
    CANCEL_REQUESTED: Progress._cancel_requested,  # noqa: SLF001
    "node.started": Progress._node_started,  # noqa: SLF001
    "node.completed": Progress._node_completed,  # noqa: SLF001
    "node.failed": Progress._node_failed,  # noqa: SLF001
    "node.retried": Progress._node_retried,  # noqa: SLF001
    "node.skipped": Progress._node_skipped,  # noqa: SLF001
    "node.cancelled": Progress._node_cancelled,  # noqa: SLF001
    "interrupt.requested": Progress._interrupt_requested,  # noqa: SLF001
    "node.suspended": Progress._node_suspended,  # noqa: SLF001
    "interrupt.resolved": Progress._interrupt_resolved,  # noqa: SLF001
    "workflow.loopback-limit": Progress._loopback_limit,  # noqa: SLF001
    "version.pinned": Progress._version_pinned,  # noqa: SLF001
    "variable.changed": Progress._variable_changed,  # noqa: SLF001
    "channel.written": Progress._channel_written,  # noqa: SLF001
    "memory.written": Progress._memory_written,  # noqa: SLF001
}


def draws_of(payload: Mapping[str, Any]) -> dict[DrawAt, Json]:
    """The recorded draws in the payload of a terminal or a suspension."""
    rows = payload.get(DRAWS)
    return {
        DrawAt(scope=_text(row, "scope"), source=_text(row, "source"), ordinal=_integer(row, "ordinal", 0)): row[
            "value"
        ]
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and "value" in row
    }


def _edge_state(edge: Edge, state: EdgeState, outputs: Json) -> EdgeState:
    if state == "success" and edge.when is not None and pick(outputs, edge.when.path) != edge.when.equals:
        return "skipped"
    return state


def _failure(error: Any) -> Failure:
    """An error as it was recorded; what is missing is said to be so."""
    found = _object(error)
    retryable = found.get("retryable")
    details = found.get("details")
    return Failure(
        code=_text(found, "code") or "internal_error",
        message=_text(found, "message") or "no message was recorded",
        retryable=retryable if isinstance(retryable, bool) else True,
        details=details if isinstance(details, dict) else {},
    )


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(payload: Mapping[str, Any], member: str) -> str:
    value = payload.get(member)
    return value if isinstance(value, str) else ""


def _integer(payload: Mapping[str, Any], member: str, default: int) -> int:
    value = payload.get(member)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default
