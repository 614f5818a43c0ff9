"""What is to happen next in a run: the answers of ``plan``, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from isoline_client.workflow.results import Failure
from isoline_client.workflow.values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class StartNode:
    """Begin an execution. ``visit`` from 1, ``attempt`` from 0 within the visit, ``execution`` = recorded terminals of the node + 1."""

    node_id: str
    type_id: str
    visit: int
    attempt: int
    execution: int
    inputs: Mapping[str, Json]
    delay_ms: int = 0
    """Not sooner than this after the last event, a ``node.retried``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeNode:
    """Run an open execution again: its ``node.started`` is in the log, its terminal is not. No event announces it.

    It was cut off by a crash, a fork or a wait that is over (an interrupt resolved, a time come).
    """

    start: StartNode


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipNode:
    node_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryNode:
    """Record that a failed execution is tried again; ``attempt`` (from 1) is started next, ``delay_ms`` later."""

    node_id: str
    attempt: int
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForInterrupt:
    """Nothing to do until somebody resolves an interrupt of one of these nodes."""

    node_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Paused:
    """Nothing to do until the run is resumed."""


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The log has no ``run.started`` yet."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The log holds the end of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Outputs of the run: of each node that completed last on its way, by node id."""

    outputs: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """End the run as failed. ``node_id`` empty: no node is to blame."""

    error: Failure
    node_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLimit:
    """A loop wants to enter a node once more than allowed: recorded, and the run fails with ``loop_limit_exceeded``."""

    node_id: str
    iterations: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """End the run as cancelled. ``node_ids``: open nodes, cancelled first."""

    reason: str
    cancelled_by: str
    node_ids: tuple[str, ...]


Action: TypeAlias = (
    StartNode
    | ResumeNode
    | SkipNode
    | RetryNode
    | WaitForInterrupt
    | Paused
    | NotStarted
    | Ended
    | Finish
    | Fail
    | LoopLimit
    | Cancel
)
