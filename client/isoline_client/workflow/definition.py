"""A workflow as it is defined: values only, frozen, checked by ``validation`` when they are put together.

Not here: how definitions are written (``authoring``, ``documents``), which nodes follow which (``graph``), or what happens in a run.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from isoline_client.workflow.graph import Graph
from isoline_client.workflow.values import Json

if TYPE_CHECKING:
    from isoline_client.workflow.builder import WorkflowBuilder
    from isoline_client.workflow.context import Context
    from isoline_client.workflow.host import EffectTicket, LlmRequest, LlmResponse

Role: TypeAlias = Literal["pure", "side-effect", "llm"]
"""``pure``: nothing leaves. ``llm``: only models are asked, through ``ctx.llm``. ``side-effect``: anything, and a replay never runs it."""

TriggerRule: TypeAlias = Literal["all_success", "any_success", "all_done", "none_failed", "any_failed", "all_failed"]

Handler: TypeAlias = Callable[
    ["Context", Mapping[str, Any]], Awaitable[Mapping[str, Any] | None] | Mapping[str, Any] | None
]
"""What a node does: inputs in, outputs (a JSON object; None counts as empty) out. A plain function runs in a thread."""

Tool: TypeAlias = Callable[["EffectTicket", Mapping[str, Json]], Awaitable[Json]]
"""What ``ctx.tool(name, **arguments)`` calls, once. It sends ``ticket.idempotency_key`` along where the other side takes one."""

Model: TypeAlias = Callable[["LlmRequest"], Awaitable["LlmResponse"]]
"""What ``ctx.llm`` asks for a provider."""

DECLARED_SOURCES: Final = ("clock", "random", "id", "env")
"""Sources of nondeterminism that a workflow declares unless it says otherwise. Its own begin with ``x-``."""


@dataclass(frozen=True, slots=True)
class NodeType:
    """What nodes of one type do, and what they may."""

    type_id: str
    role: Role
    handler: Handler


@dataclass(frozen=True, slots=True)
class Constant:
    """An input that is always the same."""

    value: Json


@dataclass(frozen=True, slots=True)
class Variable:
    """An input taken from a variable of the run as it is when the node starts; null when there is none."""

    name: str


@dataclass(frozen=True, slots=True)
class RunInput:
    """An input taken from the run's inputs; null when there is none."""

    name: str


@dataclass(frozen=True, slots=True)
class NodeOutput:
    """An input taken from the latest outputs of another node; null when it has none. ``path``: ``/a/0`` or ``a.0``, empty for all."""

    node_id: str
    path: str = ""


Binding: TypeAlias = Constant | Variable | RunInput | NodeOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a failed execution is tried again. The pause doubles (``factor``) from the first one to the longest."""

    max_attempts: int = 1
    first_backoff_ms: int = 1_000
    factor: float = 2.0
    max_backoff_ms: int = 60_000

    def delay_ms(self, attempt: int) -> int:
        """The pause before ``attempt`` (1 is the first retry)."""
        delay = float(self.first_backoff_ms)
        for _ in range(attempt - 1):
            if delay >= self.max_backoff_ms:
                break
            delay *= self.factor
        return int(min(delay, self.max_backoff_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One node of a workflow. ``inputs`` None: ``{"run": the run's inputs, each predecessor's id: its latest outputs}``."""

    id: str
    type_id: str
    config: Mapping[str, Json] = field(default_factory=dict)
    inputs: Mapping[str, Binding] | None = None
    retry: Retry = Retry()
    timeout_ms: int = 0
    """0: no limit."""


@dataclass(frozen=True, slots=True)
class When:
    """The member at ``path`` of the source's outputs must equal this, else the edge counts as skipped."""

    path: str
    equals: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """From one node to another. One that closes a cycle is a loop: taken, it enters its target again."""

    id: str
    source: str
    target: str
    trigger_rule: TriggerRule = "all_success"
    when: When | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Bounds of a run, and what it may draw from."""

    timeout_ms: int = 0
    """From ``run.started`` to the end; 0: no limit."""
    max_loopback_iterations: int = 0
    """How often a node may be entered at most; needed by a workflow that has a loop."""
    sources: tuple[str, ...] = DECLARED_SOURCES


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """A checked definition. ``types`` holds the type of every node."""

    workflow_id: str
    version: int | str
    nodes: tuple[NodeSpec, ...]
    edges: tuple[Edge, ...] = ()
    variables: Mapping[str, Json] = field(default_factory=dict)
    settings: Settings = Settings()
    types: Mapping[str, NodeType] = field(default_factory=dict)
    tools: Mapping[str, Tool] = field(default_factory=dict)
    models: Mapping[str, Model] = field(default_factory=dict)
    """By provider id."""

    @staticmethod
    def define(workflow_id: str, *, version: int | str, **options: Any) -> "WorkflowBuilder":
        """Begin a workflow in Python: ``builder.define``, whose options are variables, bounds, sources and node types."""
        from isoline_client.workflow import builder  # a builder is made of definitions

        return builder.define(workflow_id, version=version, **options)

    def node(self, node_id: str) -> NodeSpec:
        """A node by its id; ``KeyError`` when there is none."""
        return self._by_id[node_id]

    def node_type(self, node_id: str) -> NodeType:
        """The type of a node."""
        return self.types[self._by_id[node_id].type_id]

    def __contains__(self, node_id: str) -> bool:
        return node_id in self._by_id

    @cached_property
    def _by_id(self) -> dict[str, NodeSpec]:
        return {node.id: node for node in self.nodes}

    @cached_property
    def graph(self) -> Graph:
        """Who follows whom; made once."""
        return Graph.of([node.id for node in self.nodes], self.edges)
