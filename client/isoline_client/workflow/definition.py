"""A workflow as a value: nodes with a declared role, edges with trigger rules, variables, settings. How one is written is ``authoring``'s and
``loading``'s business, whether it makes sense is ``checking``'s, what happens in a run of it is ``plan``'s."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from isoline_client.workflow.context import Context

Json: TypeAlias = Any
"""A JSON value."""

Role: TypeAlias = Literal["pure", "side-effect", "llm"]
"""What a node may do beyond the run's own log. ``side-effect`` nodes are never executed by a replay; the others always are."""

TriggerRule: TypeAlias = Literal["all_success", "any_success", "all_done", "none_failed", "any_failed"]
"""When the edges into a node let it start; a node's rule is that of its inbound edges, which must agree."""

Handler: TypeAlias = "Callable[[Context, Mapping[str, Json]], Awaitable[Mapping[str, Json] | None] | Mapping[str, Json] | None]"
"""A node's code: its context and its resolved inputs in, its outputs out. One that is not async is run in a thread."""

DEFAULT_SOURCES: Final = ("clock", "random", "id", "env")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """What a ``typeId`` stands for."""

    type_id: str
    role: Role
    handler: Handler


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal_:  # noqa: N801 - ``Literal`` is typing's
    """An input that is written in the definition."""

    value: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """An input that is the value of a variable when the node starts; null while it has none."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOutput:
    """An input that is another node's last output, or the part of it at ``path`` (a JSON Pointer)."""

    node_id: str
    path: str = ""


Binding: TypeAlias = Literal_ | Variable | NodeOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a failed execution is tried in all, and how long it waits before each further try."""

    max_attempts: int = 1
    first_backoff_ms: int = 1_000
    factor: float = 2.0
    max_backoff_ms: int = 60_000

    def delay_ms(self, attempt: int) -> int:
        """The wait before ``attempt`` (1 is the first retry)."""
        return min(self.max_backoff_ms, int(self.first_backoff_ms * self.factor ** (attempt - 1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """A node of one workflow. ``inputs`` None: the outputs of its predecessors, by node id, as they stand when it starts."""

    id: str
    type_id: str
    config: Mapping[str, Json] = field(default_factory=dict)
    inputs: Mapping[str, Binding] | None = None
    retry: Retry = field(default_factory=Retry)
    timeout_ms: int = 0
    """0: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """From one node to the next."""

    id: str
    source: str
    target: str
    trigger_rule: TriggerRule = "all_success"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``max_loopback_iterations`` bounds how often a node on a loop is entered; ``timeout_ms`` the whole run (0: not at all)."""

    timeout_ms: int = 0
    max_loopback_iterations: int = 0
    sources: tuple[str, ...] = DEFAULT_SOURCES
    """The nondeterministic sources that nodes may draw from: clock, random, id, env, or x-…"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow that has been checked. ``node_types`` holds the types that its nodes use."""

    workflow_id: str
    version: int
    nodes: tuple[NodeSpec, ...]
    edges: tuple[Edge, ...]
    node_types: Mapping[str, NodeType]
    variables: Mapping[str, Json] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)

    def node(self, node_id: str) -> NodeSpec:
        """The node. Raises ``KeyError``."""
        return next(node for node in self.nodes if node.id == node_id) if node_id else _missing(node_id)

    def node_type(self, node_id: str) -> NodeType:
        """The type of a node."""
        return self.node_types[self.node(node_id).type_id]


def _missing(node_id: str) -> NodeSpec:
    raise KeyError(node_id)
