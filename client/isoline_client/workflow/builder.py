"""Writing a workflow in Python: ``Workflow.define`` gives a builder, its decorators collect nodes, tools and models, ``build`` checks it.

A decorated function stays what it is, so it can be called by a test like any other.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from isoline_client.workflow.core_nodes import CORE
from isoline_client.workflow.definition import (
    DECLARED_SOURCES,
    Binding,
    Edge,
    Handler,
    Model,
    NodeSpec,
    NodeType,
    Retry,
    Role,
    Settings,
    Tool,
    TriggerRule,
    When,
    Workflow,
)
from isoline_client.workflow.node_types import NodeTypes
from isoline_client.workflow.validation import checked
from isoline_client.workflow.values import Json

NodeRef: TypeAlias = str | Callable[..., Any]
"""A node: its id, or the function that was decorated."""

_H = TypeVar("_H", bound=Handler)
_Function = TypeVar("_Function", bound=Callable[..., Any])


class WorkflowBuilder:
    """A workflow that is being written. ``build`` is called by whatever loads it; afterwards nothing can be added."""

    def __init__(
        self,
        workflow_id: str,
        *,
        version: int | str,
        variables: Mapping[str, Json],
        settings: Settings,
        node_types: NodeTypes = CORE,
    ) -> None:
        self._workflow_id = workflow_id
        self._version = version
        self._variables = dict(variables)
        self._settings = settings
        self._types = {each.type_id: each for each in node_types}
        self._nodes: list[NodeSpec] = []
        self._edges: list[Edge] = []
        self._tools: dict[str, Tool] = {}
        self._models: dict[str, Model] = {}
        self._ids: dict[Callable[..., Any], str] = {}

    def node(
        self,
        *,
        role: Role,
        id: str = "",  # noqa: A002 - the name of the field
        after: Sequence[NodeRef] = (),
        trigger: TriggerRule = "all_success",
        inputs: Mapping[str, Binding] | None = None,
        retry: Retry = Retry(),  # noqa: B008 - frozen
        timeout_ms: int = 0,
        config: Mapping[str, Json] | None = None,
        type_id: str = "",
    ) -> Callable[[_H], _H]:
        """Decorate a handler: it becomes a node, named as the function is, behind the nodes in ``after``.

        ``type_id``: else ``<workflow id>.<node id>``.
        """

        def add(handler: _H) -> _H:
            node_id = id or handler.__name__
            own_type = type_id or f"{self._workflow_id}.{node_id}"
            self._types[own_type] = NodeType(own_type, role, handler)
            self._ids.setdefault(handler, node_id)
            self.use(
                node_id,
                own_type,
                after=after,
                trigger=trigger,
                inputs=inputs,
                retry=retry,
                timeout_ms=timeout_ms,
                config=config,
            )
            return handler

        return add

    def use(
        self,
        node_id: str,
        type_id: str,
        *,
        after: Sequence[NodeRef] = (),
        trigger: TriggerRule = "all_success",
        inputs: Mapping[str, Binding] | None = None,
        retry: Retry = Retry(),  # noqa: B008 - frozen
        timeout_ms: int = 0,
        config: Mapping[str, Json] | None = None,
    ) -> str:
        """Add a node of a type that exists, a core one for instance; the answer is its id."""
        self._open()
        self._nodes.append(
            NodeSpec(
                id=node_id, type_id=type_id, config=config or {}, inputs=inputs, retry=retry, timeout_ms=timeout_ms
            )
        )
        for source in after:
            self.edge(source, node_id, trigger=trigger)
        return node_id

    def edge(
        self, source: NodeRef, target: NodeRef, *, trigger: TriggerRule = "all_success", when: When | None = None
    ) -> None:
        """Add an edge. One that leads back is a loop: taken, it enters its target again."""
        self._open()
        source_id, target_id = self._id(source), self._id(target)
        self._edges.append(
            Edge(
                id=self._edge_id(f"{source_id}-{target_id}"),
                source=source_id,
                target=target_id,
                trigger_rule=trigger,
                when=when,
            )
        )

    def tool(self, name: str = "") -> Callable[[_Function], _Function]:
        """Decorate a coroutine function of a ticket and arguments: ``ctx.tool`` calls it by its name."""

        def add(tool: _Function) -> _Function:
            self._open()
            self._tools[name or tool.__name__] = tool
            return tool

        return add

    def model(self, provider: str) -> Callable[[_Function], _Function]:
        """Decorate a coroutine function of a request: ``ctx.llm`` asks it for this provider."""

        def add(model: _Function) -> _Function:
            self._open()
            self._models[provider] = model
            return model

        return add

    def build(self) -> Workflow:
        """The workflow, the same at each call. Raise ``DefinitionInvalid`` with everything that is wrong."""
        return self._built

    @cached_property
    def _built(self) -> Workflow:
        return checked(
            Workflow(
                workflow_id=self._workflow_id,
                version=self._version,
                nodes=tuple(self._nodes),
                edges=tuple(self._edges),
                variables=self._variables,
                settings=self._settings,
                types=dict(self._types),
                tools=dict(self._tools),
                models=dict(self._models),
            )
        )

    def _open(self) -> None:
        if "_built" in self.__dict__:
            raise RuntimeError(f"workflow {self._workflow_id!r} is built; nothing can be added to it")

    def _id(self, node: NodeRef) -> str:
        """A function that is no node gives a name that no node has, and that is reported with everything else."""
        return node if isinstance(node, str) else self._ids.get(node, getattr(node, "__name__", repr(node)))

    def _edge_id(self, wanted: str) -> str:
        """Two edges between the same nodes have different conditions; they are told apart by number."""
        taken = sum(edge.id == wanted or edge.id.startswith(f"{wanted}~") for edge in self._edges)
        return f"{wanted}~{taken + 1}" if taken else wanted


def define(
    workflow_id: str,
    *,
    version: int | str,
    variables: Mapping[str, Json] | None = None,
    timeout_ms: int = 0,
    max_loopback_iterations: int = 0,
    sources: Sequence[str] = DECLARED_SOURCES,
    node_types: NodeTypes = CORE,
) -> WorkflowBuilder:
    """Begin a workflow."""
    settings = Settings(timeout_ms=timeout_ms, max_loopback_iterations=max_loopback_iterations, sources=tuple(sources))
    return WorkflowBuilder(
        workflow_id, version=version, variables=variables or {}, settings=settings, node_types=node_types
    )
