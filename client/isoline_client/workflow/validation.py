"""Whether a definition can be used: everything that is wrong with it, said at once."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Final, get_args

from isoline_client.workflow.definition import (
    DECLARED_SOURCES,
    Constant,
    Edge,
    NodeOutput,
    NodeSpec,
    Role,
    TriggerRule,
    Workflow,
)
from isoline_client.workflow.errors import DefinitionInvalid, Problem
from isoline_client.workflow.graph import Graph
from isoline_client.workflow.progress import RULES, EdgeState
from isoline_client.workflow.values import NotJson, as_json

_ID: Final = re.compile(r"[A-Za-z0-9._~:-]{1,128}")
TYPE_ID: Final = re.compile(r"(?=.{1,256}\Z)[a-z][a-z0-9_-]*(\.[a-z][a-zA-Z0-9_-]*)+")
_OWN_SOURCE: Final = re.compile(r"x-[a-z0-9-]{1,62}")


def checked(workflow: Workflow) -> Workflow:
    """The workflow itself. Raise ``DefinitionInvalid`` with all its problems."""
    problems = tuple(problems_of(workflow))
    if problems:
        raise DefinitionInvalid(workflow.workflow_id, problems)
    return workflow


def problems_of(workflow: Workflow) -> Iterator[Problem]:
    """What is wrong, in the order of the definition."""
    yield from _whole(workflow)
    known = Counter(node.id for node in workflow.nodes)
    for node_id in (node_id for node_id, count in known.items() if count > 1):
        yield Problem(f"node {node_id}", "id", "another node has it too")
    for node in workflow.nodes:
        yield from _node(workflow, node, known)
    edge_ids = Counter(edge.id for edge in workflow.edges)
    for edge in workflow.edges:
        if edge_ids[edge.id] > 1:
            yield Problem(f"edge {edge.id}", "id", "another edge has it too")
        yield from _edge(edge, known)
    if all(edge.source in known and edge.target in known for edge in workflow.edges):
        yield from _shape(workflow, Graph.of(list(known), workflow.edges))


def _whole(workflow: Workflow) -> Iterator[Problem]:
    if not _ID.fullmatch(workflow.workflow_id):
        yield Problem("workflow", "id", f"{workflow.workflow_id!r} is not an id ({_ID.pattern})")
    if not workflow.nodes:
        yield Problem("workflow", "nodes", "there must be one at least")
    yield from _json("workflow", "variables", workflow.variables)
    settings = workflow.settings
    if settings.timeout_ms < 0:
        yield Problem("workflow", "timeout_ms", "must not be negative")
    if settings.max_loopback_iterations < 0:
        yield Problem("workflow", "max_loopback_iterations", "must not be negative")
    for source in settings.sources:
        if source not in DECLARED_SOURCES and not _OWN_SOURCE.fullmatch(source):
            yield Problem("workflow", "sources", f"{source!r} is none of {', '.join(DECLARED_SOURCES)} or x-…")


def _node(workflow: Workflow, node: NodeSpec, known: Mapping[str, int]) -> Iterator[Problem]:
    where = f"node {node.id}"
    if not _ID.fullmatch(node.id):
        yield Problem(where, "id", f"is not an id ({_ID.pattern})")
    if not TYPE_ID.fullmatch(node.type_id):
        yield Problem(where, "type_id", f"{node.type_id!r} is not a type id (lower case, a dot at least)")
    elif node.type_id not in workflow.types:
        yield Problem(where, "type_id", f"{node.type_id!r} is not known")
    elif workflow.types[node.type_id].role not in get_args(Role):
        yield Problem(where, "role", f"must be one of {', '.join(get_args(Role))}")
    if node.timeout_ms < 0:
        yield Problem(where, "timeout_ms", "must not be negative")
    retry = node.retry
    if retry.max_attempts < 1 or retry.first_backoff_ms < 0 or retry.max_backoff_ms < 0 or retry.factor < 1:
        yield Problem(where, "retry", "needs max_attempts >= 1, pauses >= 0 and a factor >= 1")
    yield from _json(where, "config", node.config)
    for name, binding in (node.inputs or {}).items():
        match binding:
            case NodeOutput(node_id=source) if source not in known:
                yield Problem(where, f"inputs.{name}", f"there is no node {source!r}")
            case Constant(value=value):
                yield from _json(where, f"inputs.{name}", value)


def _edge(edge: Edge, known: Mapping[str, int]) -> Iterator[Problem]:
    where = f"edge {edge.id}"
    for field, node_id in (("source", edge.source), ("target", edge.target)):
        if node_id not in known:
            yield Problem(where, field, f"there is no node {node_id!r}")
    if edge.trigger_rule not in get_args(TriggerRule):
        rules = ", ".join(get_args(TriggerRule))
        yield Problem(where, "trigger_rule", f"{edge.trigger_rule!r} is not one of {rules}")
    if edge.when is not None:
        yield from _json(where, "when", edge.when.equals)


def _shape(workflow: Workflow, graph: Graph) -> Iterator[Problem]:
    loops = [edge for edges in graph.loops.values() for edge in edges]
    if workflow.settings.max_loopback_iterations < 1:
        for edge in loops:
            yield Problem(f"edge {edge.id}", "target", "closes a loop, and max_loopback_iterations does not bound it")
    for node_id, into in graph.incoming.items():
        rules = dict.fromkeys(edge.trigger_rule for edge in into)
        if len(rules) > 1 and rules.keys() <= RULES.keys() and not _can_hold(rules, len(into)):
            yield Problem(f"node {node_id}", "trigger_rule", f"{' and '.join(rules)} never hold together")
    for node in workflow.nodes:
        if node.inputs is None and "run" in graph.predecessors[node.id]:
            yield Problem(f"node {node.id}", "inputs", "must be given: a node named 'run' would hide the run's inputs")


def _can_hold(rules: Iterable[TriggerRule], edges: int) -> bool:
    """Whether all rules hold for some end of that many edges. How many end alike does not matter to a rule: three show every mixture."""
    ends = product(get_args(EdgeState), repeat=min(edges, 3))
    return any(all(RULES[rule](list(states)) for rule in rules) for states in ends)


def _json(where: str, field: str, value: object) -> Iterator[Problem]:
    try:
        as_json(value)
    except NotJson as error:
        yield Problem(where, f"{field}{error.path}", error.why)
