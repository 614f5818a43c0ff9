"""What can be wrong with a workflow, and how a node's execution can end other than well. What ends an execution is told in the log as
``node.failed`` with the error's code: an OpenWOP code where there is one, else ``isoline.…``."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


class DefinitionInvalid(ValueError):
    """A workflow cannot be used. ``problems`` names all that is wrong, each with its node or edge and field."""

    def __init__(self, workflow_id: str, problems: Sequence[str]) -> None:
        super().__init__(f"workflow {workflow_id}: " + "; ".join(problems))
        self.workflow_id = workflow_id
        self.problems = tuple(problems)


@dataclass
class NodeError(Exception):
    """An execution failed. ``retryable``: whether the node's retry policy may try it again."""

    code: str
    message: str
    retryable: bool = True
    details: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class UndeclaredSource(NodeError):
    """A value was drawn from a source that the workflow does not declare: a replay could not reproduce it."""

    def __init__(self, source: str) -> None:
        super().__init__("isoline.undeclared_source", f"the workflow does not declare the source {source!r}", retryable=False)


class EffectNotAllowed(NodeError):
    """A node that is not declared as ``side-effect`` asked for an effect."""

    def __init__(self, node_id: str, what: str) -> None:
        text = f"node {node_id} is not declared as side-effect and may not use {what}"
        super().__init__("isoline.effect_not_allowed", text, retryable=False)


class TooManyEffects(NodeError):
    """One visit of a node may have so many effects and no more: the number is part of each effect's identity."""

    def __init__(self, limit: int) -> None:
        super().__init__("isoline.too_many_effects", f"more than {limit} effects in one visit of the node", retryable=False)


class OutputInvalid(NodeError):
    """A handler's result is not a JSON object. ``path`` says where (a JSON Pointer)."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__("isoline.output_invalid", f"output at {path or '/'}: {why}", retryable=False, details={"path": path})


class NodeTimeout(NodeError):
    """A handler ran longer than its node allows."""

    def __init__(self, timeout_ms: int) -> None:
        super().__init__("isoline.node_timeout", f"the node ran longer than {timeout_ms} ms")


class LlmRefused(NodeError):
    """The model, or the check of its answer, refused."""

    def __init__(self, reason: str) -> None:
        super().__init__("isoline.llm_refused", reason, retryable=False)


class ReplaySourceMissing(NodeError):
    """A replay has no recorded outcome to serve (OpenWOP v2 replay.md, suppression rule 3)."""

    def __init__(self, message: str = "the source run has no recorded outcome for this node") -> None:
        super().__init__("replay_source_missing", message, retryable=False)


class Suspend(BaseException):
    """Ends an execution that waits for an interrupt to be resolved. No failure: handlers must let it pass."""

    def __init__(self, *, key: str, kind: str, data: Any) -> None:
        super().__init__(key)
        self.key = key
        self.kind = kind
        self.data = data


class Park(BaseException):
    """Ends an execution that goes on later: it is run again from its start after ``wake_in_ms``."""

    def __init__(self, wake_in_ms: int) -> None:
        super().__init__(wake_in_ms)
        self.wake_in_ms = wake_in_ms


class InDoubt(BaseException):
    """Ends an execution one of whose effects left and has no known outcome. Only a person can say what became of it."""

    def __init__(self, effect_id: str) -> None:
        super().__init__(effect_id)
        self.effect_id = effect_id
