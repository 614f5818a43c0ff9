"""What a node's handler is given, and what stands behind it.

A ``Context`` names what a handler may ask for; a ``Host`` answers. There is one host in the live executor, and one in a replay worker that asks
the executor over its channel, so a handler cannot tell where it runs.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from isoline_client.events import NewEvent
from isoline_client.workflow.definition import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One value drawn from a declared source. ``scope`` is the place within the node's own concurrency, ``ordinal`` counts within both."""

    source: str
    scope: str
    ordinal: int
    value: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRequest:
    """An effect that a node wants. ``provider_key`` is what it addresses, free of secrets; ``request`` all of it, as JSON, for its digest.

    ``idempotent``: the other side does it once for one effect id, so it may be sent again when nobody knows what became of it."""

    seam: str
    provider_key: str
    request: Json
    visit: int
    ordinal: int
    idempotent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectTicket:
    """The permission to send. ``effect_id`` is stable over retries and takeovers: send it along as the provider's idempotency key."""

    effect_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectOutcome:
    """What an effect came to: a JSON value, or an error for which it is known that nothing happened. ``cost`` as the provider said it."""

    value: Json = None
    error: Mapping[str, Json] | None = None
    cost: Mapping[str, Json] | None = None


class EffectUnknown(Exception):
    """Raised by a sender that cannot tell whether its effect happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmRequest:
    """A request to a model. Absent members are None or empty and are left out of the key."""

    provider: str
    model: str
    messages: Sequence[Mapping[str, Json]]
    tools: Sequence[Mapping[str, Json]] = ()
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    max_output_tokens: int | None = None
    seed: int | None = None
    stop: Sequence[str] | None = None
    response_format: Mapping[str, Json] | None = None
    safety_settings: Mapping[str, Json] | None = None
    provider_options: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmResponse:
    """A model's answer. ``kind`` refusal: it refused, and ``content`` is its reason."""

    content: Json
    kind: Literal["valid", "refusal"] = "valid"
    usage: Mapping[str, Json] = field(default_factory=dict)
    cost: Mapping[str, Json] | None = None


class Host(Protocol):
    """What answers a context."""

    async def draw(self, source: str, scope: str, ordinal: int, fresh: Callable[[], Json]) -> Json:
        """The recorded value with these coordinates, else a fresh one, which is recorded. Raises ``UndeclaredSource``."""
        ...

    async def effect(
        self, request: EffectRequest, send: Callable[[EffectTicket], Awaitable[EffectOutcome]]
    ) -> EffectOutcome:
        """Claim, send once, record. Raises ``InDoubt``, or ``NodeError`` for a failed effect."""
        ...

    async def invoke(self, request: LlmRequest, key: str, repetition: int) -> LlmResponse:
        """The recorded answer to this request, else, live, the provider's, which is recorded. Raises ``ReplaySourceMissing``."""
        ...

    async def interrupt(self, key: str, kind: str, data: Json) -> Json:
        """The recorded ``resumeValue`` for this visit's key. Raises ``Suspend`` while there is none."""
        ...

    async def tool(self, name: str, arguments: Mapping[str, Json], ticket: EffectTicket) -> Json:
        """Call a registered tool. Only from within ``effect``."""
        ...

    async def dispatch(self, workflow_id: str, inputs: Mapping[str, Json], request_key: str) -> Json:
        """The outputs of a sub-run, started once for this key. Raises ``Park`` while it runs, ``NodeError`` when it failed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The handler returned."""

    outputs: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The handler failed; ``error`` is an OpenWOP error object, with ``retryable``."""

    error: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended:
    """The handler waits for an interrupt."""

    key: str
    kind: str
    data: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """The handler is run again later."""

    wake_in_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubtful:
    """An effect of the handler is in doubt."""

    effect_id: str


Ending: TypeAlias = Completed | Failed | Suspended | Parked | Doubtful


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """How an execution ended, and what belongs into the log beside it: ``facts`` come before the terminal, in this order; ``draws`` into it."""

    ending: Ending
    facts: tuple[NewEvent, ...] = ()
    draws: tuple[Draw, ...] = ()
