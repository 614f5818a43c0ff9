"""Finding workflows: what the modules that an executor is given offer. What a workflow is made of is ``definition``."""

import importlib
from types import ModuleType

from isoline_client.workflow.builder import WorkflowBuilder
from isoline_client.workflow.definition import Workflow

LISTED = "WORKFLOWS"
_WRITTEN = (Workflow, WorkflowBuilder)


def load_workflows(modules: str) -> dict[str, Workflow]:
    """The workflows of some modules (names with commas between), by id: those in a module's list ``WORKFLOWS``, else all at its top level.

    Raises ``DefinitionInvalid`` for a workflow that cannot be used, and ``ValueError`` for
    a module that has none or cannot be imported, and for an id that two workflows have.
    """
    found: dict[str, Workflow] = {}
    for name in filter(None, map(str.strip, modules.split(","))):
        for workflow in _offered(_imported(name)):
            other = found.setdefault(workflow.workflow_id, workflow)
            if other is not workflow:
                raise ValueError(f"two workflows have the id {workflow.workflow_id!r}; the second is in {name}")
    if not found:
        raise ValueError("no module was named")
    return found


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise ValueError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error


def _offered(module: ModuleType) -> list[Workflow]:
    members = vars(module)
    listed = members.get(LISTED, [value for value in members.values() if isinstance(value, _WRITTEN)])
    found = [
        value.build() if isinstance(value, WorkflowBuilder) else value
        for value in listed
        if isinstance(value, _WRITTEN)
    ]
    if not found or len(found) != len(listed):
        raise ValueError(f"{module.__name__} must have workflows at its top level, or a list of them named {LISTED}")
    return found
