"""The types of nodes that a definition may name: the core ones, and those that users add."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from isoline_client.workflow.definition import Handler, NodeType, Role


class NodeTypes:
    """Node types by id. A registry is a value: ``with_types`` makes a larger one."""

    def __init__(self, types: Iterable[NodeType] = ()) -> None:
        self._types: Final = {each.type_id: each for each in types}

    def get(self, type_id: str) -> NodeType | None:
        """The type with this id."""
        return self._types.get(type_id)

    def with_types(self, *types: NodeType) -> "NodeTypes":
        """These types too. One with the same id takes the other's place."""
        return NodeTypes([*self._types.values(), *types])

    def __iter__(self) -> Iterator[NodeType]:
        return iter(self._types.values())

    def __contains__(self, type_id: Any) -> bool:
        return type_id in self._types


def node_type(type_id: str, *, role: Role) -> "_Declared":
    """Decorate a handler: it becomes the node type ``type_id``."""
    return _Declared(type_id, role)


class _Declared:
    def __init__(self, type_id: str, role: Role) -> None:
        self._type_id = type_id
        self._role: Role = role

    def __call__(self, handler: Handler) -> NodeType:
        return NodeType(self._type_id, self._role, handler)
