"""What can be wrong with a workflow or happen to a node, one class for each fact.

::

    DefinitionInvalid           what is wrong with a definition, all of it at once (problems)
    NodeError                   a node failed (code, message, retryable, details); becomes ``node.failed``
    ├── UndeclaredSource            it drew from a source that the workflow does not declare (source)
    ├── EffectNotAllowed            its role does not allow what it called (what, role)
    ├── TooManyEffects              more effects in one visit than can be told apart (limit)
    ├── OutputInvalid               its outputs are not a JSON object (path)
    ├── NodeTimeout                 it took too long (timeout_ms)
    ├── ApprovalRejected            a person said no (key)
    ├── VersionUnsupported          a pinned version is outside what the code supports (change_id, pinned)
    └── LlmRefused                  the model refused, or its answer did not pass (provider, model)
    EffectNotSent               raised by what sends an effect: it surely did not leave (message)
    Interruption                not failures: the execution cannot go on now. A BaseException, so that no handler swallows it by accident
    ├── Suspend                     until a person resolves an interrupt (interrupt)
    ├── Park                        until a time (wake_in_ms)
    └── Doubt                       an effect left and nobody knows what became of it (effect_id)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isoline_client.workflow.host import InterruptRequest
    from isoline_client.workflow.values import Json


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a definition: where (``node quote``, ``edge a-b``, ``workflow``), which field, and why."""

    where: str
    field: str
    why: str

    def __str__(self) -> str:
        return f"{self.where}: {self.field}: {self.why}"


@dataclass(eq=False)
class DefinitionInvalid(ValueError):
    """A definition that cannot be used."""

    workflow_id: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"workflow {self.workflow_id!r}:\n" + "\n".join(f"  {problem}" for problem in self.problems)


class NodeError(Exception):
    """A node's failure, as it is recorded. A handler may raise it; any other exception becomes ``isoline.node_error``."""

    def __init__(
        self, code: str, message: str, *, retryable: bool = True, details: "Mapping[str, Json] | None" = None
    ) -> None:
        super().__init__(message or code)
        self.code = code
        self.message = message or code
        self.retryable = retryable
        self.details: Mapping[str, Json] = dict(details or {})

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class UndeclaredSource(NodeError):
    """A draw from a source that the workflow does not declare: a replay could not reproduce it."""

    def __init__(self, source: str) -> None:
        super().__init__(
            "isoline.undeclared_source",
            f"the workflow does not declare the source {source!r}",
            retryable=False,
            details={"source": source},
        )


class EffectNotAllowed(NodeError):
    """A node called what its role does not allow. Declare ``side-effect`` (or ``llm`` for models)."""

    def __init__(self, what: str, role: str) -> None:
        super().__init__(
            "isoline.effect_not_allowed",
            f"a {role} node may not use {what}",
            retryable=False,
            details={"what": what, "role": role},
        )


class TooManyEffects(NodeError):
    """More effects in one visit than their identities can tell apart."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            "isoline.too_many_effects",
            f"a node may perform {limit} effects in one visit",
            retryable=False,
            details={"limit": limit},
        )


class OutputInvalid(NodeError):
    """What a handler returned is not a JSON object."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            "isoline.output_invalid", f"outputs{path}: {why}", retryable=False, details={"path": path, "why": why}
        )


class NodeTimeout(NodeError):
    """An execution took longer than its node allows."""

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(
            "isoline.node_timeout", f"no outcome within {timeout_ms} ms", details={"timeoutMs": timeout_ms}
        )


class ApprovalRejected(NodeError):
    """A person said no."""

    def __init__(self, key: str) -> None:
        super().__init__("approval_rejected", f"{key!r} was rejected", retryable=False, details={"key": key})


class VersionUnsupported(NodeError):
    """The run is pinned to a version that the code no longer (or not yet) supports."""

    def __init__(self, change_id: str, pinned: int, lowest: int, highest: int) -> None:
        super().__init__(
            "isoline.version_unsupported",
            f"the run is pinned to version {pinned} of {change_id!r}; the code supports {lowest} to {highest}",
            retryable=False,
            details={"changeId": change_id, "pinned": pinned, "lowest": lowest, "highest": highest},
        )


class LlmRefused(NodeError):
    """The model refused, or its answer did not pass the caller's validation."""

    def __init__(self, provider: str, model: str, text: str) -> None:
        super().__init__(
            "isoline.llm_refused",
            f"{provider} {model}: {text}",
            retryable=False,
            details={"provider": provider, "model": model},
        )


class EffectNotSent(Exception):
    """Raised by what sends an effect: it surely did not leave, so it may be tried again. Anything else it raises leaves the effect in doubt."""


@dataclass(eq=False)
class Interruption(BaseException):
    """The execution cannot go on now. It is no failure, and an ``except Exception`` in a handler does not catch it."""


@dataclass(eq=False)
class Suspend(Interruption):
    """A person has to resolve an interrupt first. ``requested``: the log holds its request already."""

    interrupt: "InterruptRequest"
    requested: bool = field(default=False)


@dataclass(eq=False)
class Park(Interruption):
    """The execution goes on at a later time; it is then run again from its start."""

    wake_in_ms: int


@dataclass(eq=False)
class Doubt(Interruption):
    """An effect left and nobody knows what became of it: only a person moves it on."""

    effect_id: str
