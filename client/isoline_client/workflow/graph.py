"""Who follows whom in a workflow: which edges close a loop, where a run begins, what a loop enters again. Computed once, never changed.

An edge closes a loop when it leads back to a node on the way from the beginning to its source, with nodes visited in the order of the
definition: so the same definition always has the same loops.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isoline_client.workflow.definition import Edge


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Everything by node id. A loop's edge is in ``loops`` and in neither ``incoming`` nor ``outgoing``."""

    entries: tuple[str, ...]
    """Nodes without an incoming edge, in order of definition: a run begins there."""
    incoming: Mapping[str, tuple["Edge", ...]]
    outgoing: Mapping[str, tuple["Edge", ...]]
    loops: Mapping[str, tuple["Edge", ...]]
    """Edges that close a loop, by their source."""
    predecessors: Mapping[str, tuple[str, ...]]
    """Sources of every edge into a node, loops too."""
    rounds: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]]
    """What may run again when a loop enters this node: itself and all that is reachable from it without another loop; each with those of
    its incoming edges that come from among them."""
    unreachable: tuple[str, ...]

    @classmethod
    def of(cls, node_ids: Sequence[str], edges: Sequence["Edge"]) -> "Graph":
        """Make the graph of nodes that all exist."""
        entries = _entries(node_ids, edges)
        closing, reached = _walk(entries, edges)
        forward = [edge for edge in edges if edge.id not in closing]
        loops = [edge for edge in edges if edge.id in closing]
        outgoing = _by(node_ids, forward, "source")
        incoming = _by(node_ids, forward, "target")
        return cls(
            entries=entries,
            incoming=incoming,
            outgoing=outgoing,
            loops=_by(node_ids, loops, "source"),
            predecessors={
                node_id: tuple(dict.fromkeys(edge.source for edge in into))
                for node_id, into in _by(node_ids, edges, "target").items()
            },
            rounds={edge.target: _round(edge.target, outgoing, incoming) for edge in loops},
            unreachable=tuple(node_id for node_id in node_ids if node_id not in reached),
        )


def _entries(node_ids: Sequence[str], edges: Sequence["Edge"]) -> tuple[str, ...]:
    targets = {edge.target for edge in edges}
    return tuple(node_id for node_id in node_ids if node_id not in targets)


def _by(node_ids: Sequence[str], edges: Sequence["Edge"], end: str) -> dict[str, tuple["Edge", ...]]:
    found: dict[str, list[Edge]] = {node_id: [] for node_id in node_ids}
    for edge in edges:
        found[getattr(edge, end)].append(edge)
    return {node_id: tuple(each) for node_id, each in found.items()}


def _walk(entries: Sequence[str], edges: Sequence["Edge"]) -> tuple[set[str], set[str]]:
    """Edges that lead back to where the walk is coming from, and the nodes it reaches. Depth first, without recursion."""
    leaving: dict[str, list[Edge]] = {}
    for edge in edges:
        leaving.setdefault(edge.source, []).append(edge)
    closing: set[str] = set()
    reached: set[str] = set()
    for entry in entries:
        on_path = {entry: iter(leaving.get(entry, ()))}
        reached.add(entry)
        while on_path:
            node_id = next(reversed(on_path))
            taken = next(on_path[node_id], None)
            if taken is None:
                del on_path[node_id]
            elif taken.target in on_path:
                closing.add(taken.id)
            elif taken.target not in reached:
                reached.add(taken.target)
                on_path[taken.target] = iter(leaving.get(taken.target, ()))
    return closing, reached


def _round(
    start: str, outgoing: Mapping[str, tuple["Edge", ...]], incoming: Mapping[str, tuple["Edge", ...]]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found = _reach(start, outgoing)
    return tuple((node_id, tuple(edge.id for edge in incoming[node_id] if edge.source in found)) for node_id in found)


def _reach(start: str, outgoing: Mapping[str, tuple["Edge", ...]]) -> dict[str, None]:
    found: dict[str, None] = {start: None}
    waiting = [start]
    while waiting:
        for edge in outgoing[waiting.pop()]:
            if edge.target not in found:
                found[edge.target] = None
                waiting.append(edge.target)
    return found
