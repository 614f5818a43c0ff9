"""What an execution of a node came to, before it is made into events.

Everything here is JSON-able through ``portable``. A failure keeps its pins, refusals and draws (they happened, and a retry or a replay must
meet them again) and loses what it wanted to write.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from isoline_client.workflow.host import InterruptRequest
from isoline_client.workflow.values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error as events carry it."""

    code: str
    message: str
    retryable: bool = True
    details: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    outputs: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    error: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended:
    """It waits for a person. ``requested``: the log holds the request already."""

    interrupt: InterruptRequest
    requested: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """It waits for a time, and is then run again from its start."""

    wake_in_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InDoubt:
    """An effect left and nobody knows what became of it."""

    effect_id: str


Outcome: TypeAlias = Completed | Failed | Suspended | Parked | InDoubt


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class DrawAt:
    """Coordinates of a draw within one execution."""

    scope: str
    source: str
    ordinal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A value drawn from a declared source."""

    at: DrawAt
    value: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    change_id: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableChange:
    name: str
    next: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelWrite:
    channel: str
    reducer: str
    value: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWrite:
    memory_ref: str
    memory_id: str
    value: Json
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatched:
    child_run_id: str
    workflow_id: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A model refused, or its answer did not pass."""

    provider: str
    model: str
    text: str | None
    safety_category: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """One execution: its outcome, and what it wrote and drew on the way, each in the order in which it happened."""

    outcome: Outcome
    pins: tuple[Pin, ...] = ()
    variables: tuple[VariableChange, ...] = ()
    channels: tuple[ChannelWrite, ...] = ()
    memory: tuple[MemoryWrite, ...] = ()
    dispatched: tuple[Dispatched, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    draws: tuple[Draw, ...] = ()
