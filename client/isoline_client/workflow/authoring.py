"""Finding workflows: what the modules and files that an executor is given offer. What a workflow is made of is ``definition``."""

import importlib
import json
from pathlib import Path
from types import ModuleType

from isoline_client.workflow.builder import WorkflowBuilder
from isoline_client.workflow.definition import Workflow
from isoline_client.workflow.documents import load_json

LISTED = "WORKFLOWS"
SUFFIX = ".json"
_WRITTEN = (Workflow, WorkflowBuilder)


def load_workflows(modules: str) -> dict[str, Workflow]:
    """The workflows of some modules (names with commas between), by id: those in a module's list ``WORKFLOWS``, else all at its top level.
    A name that ends in ``.json`` is a file with one workflow, of core node types.

    Raises ``DefinitionInvalid`` for a workflow that cannot be used, and ``ValueError`` for a module that has none or cannot be imported, a
    file that cannot be read, and an id that two workflows have.
    """
    found: dict[str, Workflow] = {}
    for name in filter(None, map(str.strip, modules.split(","))):
        for workflow in [_read(name)] if name.endswith(SUFFIX) else _offered(_imported(name)):
            other = found.setdefault(workflow.workflow_id, workflow)
            if other is not workflow:
                raise ValueError(f"two workflows have the id {workflow.workflow_id!r}; the second is in {name}")
    if not found:
        raise ValueError("no module was named")
    return found


def _read(path: str) -> Workflow:
    try:
        return load_json(Path(path).read_bytes())
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error


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
