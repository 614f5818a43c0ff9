"""Who follows whom in a workflow: which edges close a loop, where a run begins, what a loop enters again. Computed once, never changed.

A run begins at the nodes without an incoming edge, and at the first node (by definition) of a cycle that none of them leads to. An edge closes
a loop when it leads back to a node on the way from there to its source, with nodes visited in the order of the definition: so the same
definition always has the same loops.
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
    """Where a run begins, in order of definition."""
    incoming: Mapping[str, tuple["Edge", ...]]
    outgoing: Mapping[str, tuple["Edge", ...]]
    loops: Mapping[str, tuple["Edge", ...]]
    """Edges that close a loop, by their source."""
    predecessors: Mapping[str, tuple[str, ...]]
    """Sources of every edge into a node, loops too."""
    rounds: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]]
    """What may run again when a loop enters this node: itself and all that is reachable from it without another loop; each with those of
    its incoming edges that come from among them."""

    @classmethod
    def of(cls, node_ids: Sequence[str], edges: Sequence["Edge"]) -> "Graph":
        """Make the graph of nodes that all exist."""
        entries, closing = _walk(node_ids, edges)
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
        )


def _by(node_ids: Sequence[str], edges: Sequence["Edge"], end: str) -> dict[str, tuple["Edge", ...]]:
    found: dict[str, list[Edge]] = {node_id: [] for node_id in node_ids}
    for edge in edges:
        found[getattr(edge, end)].append(edge)
    return {node_id: tuple(each) for node_id, each in found.items()}


def _walk(node_ids: Sequence[str], edges: Sequence["Edge"]) -> tuple[tuple[str, ...], set[str]]:
    """Where a run begins, and the edges that close a loop."""
    leaving = _by(node_ids, edges, "source")
    targets = {edge.target for edge in edges}
    entries = [node_id for node_id in node_ids if node_id not in targets]
    closing: set[str] = set()
    reached: set[str] = set()
    for entry in entries:
        _descend(entry, leaving, reached, closing)
    for node_id in node_ids:
        if node_id not in reached and any(node_id in _reach(edge.target, leaving) for edge in leaving[node_id]):
            entries.append(node_id)
            _descend(node_id, leaving, reached, closing)
    first = {node_id: place for place, node_id in enumerate(node_ids)}
    return tuple(sorted(entries, key=first.__getitem__)), closing


def _descend(entry: str, leaving: Mapping[str, tuple["Edge", ...]], reached: set[str], closing: set[str]) -> None:
    """Depth first, without recursion: note what is reached, and the edges that lead back onto the path."""
    on_path = {entry: iter(leaving[entry])}
    reached.add(entry)
    while on_path:
        node_id = next(reversed(on_path))
        edge = next(on_path[node_id], None)
        if edge is None:
            del on_path[node_id]
        elif edge.target in on_path:
            closing.add(edge.id)
        elif edge.target not in reached:
            reached.add(edge.target)
            on_path[edge.target] = iter(leaving[edge.target])


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
