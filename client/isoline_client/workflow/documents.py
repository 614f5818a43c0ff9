"""Workflows as OpenWOP workflow JSON: nodes with ``typeId``, edges with ``triggerRule``, variables, settings.

What OpenWOP has no member for stands under ``x-isoline-``: a node's ``x-isoline-retry`` (``maxAttempts``, ``firstBackoffMs``, ``factor``,
``maxBackoffMs``) and ``x-isoline-timeout-ms``, an edge's ``x-isoline-when`` (``path``, ``equals``), ``x-isoline-sources`` in the settings.
Members that mean nothing to an executor (names, positions, triggers) are not looked at. Any other member is refused: a condition that is
passed over, or a bound that is misspelt, would be another workflow.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

from isoline_client.workflow.core_nodes import CORE
from isoline_client.workflow.definition import (
    DECLARED_SOURCES,
    Binding,
    Constant,
    Edge,
    NodeOutput,
    NodeSpec,
    Retry,
    RunInput,
    Settings,
    TriggerRule,
    Variable,
    When,
    Workflow,
)
from isoline_client.workflow.errors import DefinitionInvalid, Problem
from isoline_client.workflow.node_types import NodeTypes
from isoline_client.workflow.validation import problems_of

_T = TypeVar("_T")
_SILENT: Final = frozenset({"name", "label", "description", "metadata", "position"})
"""Members that say nothing about what happens in a run, wherever they stand."""
_NAMES: Final = {str: "a string", int: "an integer", dict: "an object", list: "an array", float: "a number"}


def load_json(document: str | bytes | Mapping[str, Any], node_types: NodeTypes = CORE) -> Workflow:
    """The workflow in a document. Raise ``DefinitionInvalid`` with everything that is wrong with it."""
    found = document if isinstance(document, Mapping) else json.loads(document)
    if not isinstance(found, Mapping):
        raise DefinitionInvalid("", (Problem("workflow", "", "must be an object"),))
    reader = _Reader()
    workflow = reader.workflow(found, node_types)
    problems = (*reader.problems, *problems_of(workflow))
    if problems:
        raise DefinitionInvalid(workflow.workflow_id, problems)
    return workflow


class _Reader:
    """Reads members, and notes those that are not what they have to be; in their place stands what will do."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def workflow(self, row: Mapping[str, Any], node_types: NodeTypes) -> Workflow:
        self._only("workflow", row, "id", "version", "nodes", "edges", "variables", "settings", "triggers", "$schema")
        settings = self._member("workflow", row, "settings", dict, {})
        self._only("settings", settings, "timeout", "maxLoopbackIterations", "x-isoline-sources")
        version = row.get("version", 1)
        if not isinstance(version, int | str) or isinstance(version, bool):
            self._wrong("workflow", "version", "must be a string or an integer")
        return Workflow(
            workflow_id=self._member("workflow", row, "id", str),
            version=version,
            nodes=tuple(self._node(each) for each in self._rows(row, "nodes")),
            edges=tuple(self._edge(each, place) for place, each in enumerate(self._rows(row, "edges"))),
            variables=self._variables(self._rows(row, "variables")),
            settings=Settings(
                timeout_ms=self._member("settings", settings, "timeout", int, 0),
                max_loopback_iterations=self._member("settings", settings, "maxLoopbackIterations", int, 0),
                sources=tuple(
                    map(str, self._member("settings", settings, "x-isoline-sources", list, list(DECLARED_SOURCES)))
                ),
            ),
            types={each.type_id: each for each in node_types},
        )

    def _variables(self, rows: list[Mapping[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for row in rows:
            name = self._member("variables", row, "name", str)
            self._only(f"variable {name}", row, "type", "defaultValue")
            if name in found:
                self._wrong(f"variable {name}", "name", "another variable has it too")
            found[name] = row.get("defaultValue")
        return found

    def _node(self, row: Mapping[str, Any]) -> NodeSpec:
        node_id = self._member("node", row, "id", str)
        where = f"node {node_id}"
        self._only(where, row, "id", "typeId", "config", "inputs", "x-isoline-retry", "x-isoline-timeout-ms")
        inputs = self._member(where, row, "inputs", dict, {}) if "inputs" in row else None
        return NodeSpec(
            id=node_id,
            type_id=self._member(where, row, "typeId", str),
            config=self._member(where, row, "config", dict, {}),
            inputs=None
            if inputs is None
            else {name: self._binding(where, name, each) for name, each in inputs.items()},
            retry=self._retry(where, self._member(where, row, "x-isoline-retry", dict, {})),
            timeout_ms=self._member(where, row, "x-isoline-timeout-ms", int, 0),
        )

    def _retry(self, where: str, row: Mapping[str, Any]) -> Retry:
        usual = Retry()
        self._only(where, row, "maxAttempts", "firstBackoffMs", "factor", "maxBackoffMs", within="x-isoline-retry.")
        return Retry(
            max_attempts=self._member(where, row, "maxAttempts", int, usual.max_attempts),
            first_backoff_ms=self._member(where, row, "firstBackoffMs", int, usual.first_backoff_ms),
            factor=float(self._member(where, row, "factor", float, usual.factor)),
            max_backoff_ms=self._member(where, row, "maxBackoffMs", int, usual.max_backoff_ms),
        )

    def _binding(self, where: str, name: str, row: Any) -> Binding:
        match row:
            case {"type": "literal" | "constant", "value": value, **rest} if not rest:
                return Constant(value)
            case {"type": "variable", "variableName": str(variable), **rest} if not rest:
                return Variable(variable)
            case {"type": "input" | "runInput", "name": str(member), **rest} if not rest:
                return RunInput(member)
            case {"type": "nodeOutput", "nodeId": str(node_id), **rest} if not rest.keys() - {"path"}:
                return NodeOutput(node_id, self._member(where, row, "path", str, ""))
        self._wrong(
            where, f"inputs.{name}", "must be a literal, constant, variable, runInput or nodeOutput, and nothing else"
        )
        return Constant(None)

    def _edge(self, row: Mapping[str, Any], place: int) -> Edge:
        edge_id = self._member("edge", row, "id", str, f"edge-{place}")
        where = f"edge {edge_id}"
        self._only(where, row, "id", "sourceNodeId", "targetNodeId", "triggerRule", "x-isoline-when")
        when = self._member(where, row, "x-isoline-when", dict, {})
        self._only(where, when, "path", "equals", within="x-isoline-when.")
        return Edge(
            id=edge_id,
            source=self._member(where, row, "sourceNodeId", str),
            target=self._member(where, row, "targetNodeId", str),
            trigger_rule=cast("TriggerRule", self._member(where, row, "triggerRule", str, "all_success")),
            when=When(self._member(where, when, "path", str, ""), when.get("equals")) if when else None,
        )

    def _rows(self, row: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
        found = self._member("workflow", row, field, list, [])
        for place, each in enumerate(found):
            if not isinstance(each, Mapping):
                self._wrong("workflow", f"{field}/{place}", "must be an object")
        return [each for each in found if isinstance(each, Mapping)]

    def _member(self, where: str, row: Mapping[str, Any], field: str, kind: type[_T], default: _T | None = None) -> _T:
        value = row.get(field, default)
        wanted: Any = int | float if kind is float else kind
        if isinstance(value, wanted) and not isinstance(value, bool):
            return cast("_T", value)
        self._wrong(where, field, "is missing" if value is None else f"must be {_NAMES[kind]}")
        return kind() if default is None else default

    def _only(self, where: str, row: Mapping[str, Any], *known: str, within: str = "") -> None:
        for name in (name for name in row if name not in _SILENT.union(known)):
            self._wrong(where, f"{within}{name}", "is not a member that is known here")

    def _wrong(self, where: str, field: str, why: str) -> None:
        self.problems.append(Problem(where, field, why))
