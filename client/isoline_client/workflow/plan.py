"""What comes next in a run: pure, from the workflow and the progress that its log shows. One node at a time, always the same one for the same
workflow and the same log. What an action looks like in the log is ``events``' business; carrying it out is the executor's."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from isoline_client.workflow.definition import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class StartNode:
    """Execute a node. ``visit`` counts from 1 how often it was entered, ``attempt`` from 0 the tries of this visit, ``execution`` is one more than
    the node's recorded terminals. ``resumed``: its ``node.started`` stands in the log already and the execution is run again from its start."""

    node_id: str
    type_id: str
    visit: int
    attempt: int
    execution: int
    inputs: Mapping[str, Json]
    resumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryNode:
    """Try a failed node again after a while."""

    node_id: str
    attempt: int
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipNode:
    """A node that its edges will never let start."""

    node_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The run is done."""

    outputs: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """The run has failed; ``error`` is an OpenWOP error object."""

    error: Mapping[str, Any]
    node_id: str = ""
    loop_limit: int = 0
    """Set when the loop bound is what failed it: ``workflow.loopback-limit`` comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Somebody asked for the run to be cancelled. ``open_node_id``: the node that is cut off, if one is open."""

    reason: str
    cancelled_by: str
    open_node_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForInterrupt:
    """Nothing can go on before the interrupt of this node is resolved."""

    node_id: str
    interrupt_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """Nothing goes on before ``run.resumed``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStarted:
    """The log holds no ``run.started`` yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The log holds its terminal event."""


Action: TypeAlias = (
    StartNode | RetryNode | SkipNode | Finish | Fail | Cancel | WaitForInterrupt | Paused | NotStarted | Ended
)
