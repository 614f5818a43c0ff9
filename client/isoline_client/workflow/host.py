"""What a running node asks for, and who answers: the ``Host`` protocol and the values that cross it.

All values are JSON-able, for in a replay the host is on the other side of a process border. What a host does with a question (record, serve
from history, refuse) is the executor's business.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from isoline_client.workflow.values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRequest:
    """One external effect that a node is about to cause. ``effect_id`` is the same on every try, retry and takeover of this visit."""

    effect_id: str
    node_id: str
    visit: int
    ordinal: int
    """Which effect of this visit, from 0."""
    seam: str
    """How it leaves, for example ``http.request``."""
    provider_key: str
    """What it addresses, free of secrets, for example ``POST shop.example:443``."""
    request_digest: bytes
    """SHA-256 of the canonical request."""
    idempotent: bool = False
    """The other side does it once for one ``effect_id``: it may be sent again while nobody knows what became of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectTicket:
    """Leave to send an effect once."""

    effect_id: str
    attempt: int

    @property
    def idempotency_key(self) -> str:
        """What the other side knows the effect by: the same on every attempt."""
        return self.effect_id


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectOutcome:
    """What an effect came to. ``failed``: it surely did not happen, or the other side refused it; then ``code`` and ``message`` say why.

    ``refused``: there is an answer, and it says no. The node gets it as a value; a later try of the node may send the effect again.
    """

    state: Literal["completed", "failed"]
    value: Json = None
    refused: bool = False
    cost: Mapping[str, Json] | None = None
    code: str = ""
    message: str = ""
    retryable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmRequest:
    """A request to a model. Every member takes part in its key; a member that is None is absent.

    ``provider``: lower-case ASCII. ``provider_options``: names are put under ``vendor.<provider>.`` unless they are there already.
    """

    provider: str
    model: str
    messages: Sequence[Mapping[str, Json]]
    tools: Sequence[Mapping[str, Json]] = ()
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_output_tokens: int | None = None
    seed: int | None = None
    stop: Sequence[str] | None = None
    response_format: Mapping[str, Json] | None = None
    safety_settings: Mapping[str, Json] | None = None
    provider_options: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmResponse:
    """The observable result of a request to a model. ``refusal``: the model refused; then the last two members may say why."""

    kind: Literal["valid", "refusal"] = "valid"
    content: Json = None
    usage: Mapping[str, Json] = field(default_factory=dict)
    cost: Mapping[str, Json] | None = None
    refusal_text: str | None = None
    safety_category: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptRequest:
    """A question to a person, or to the world. ``key`` names it within one visit of a node; it is asked there at most once."""

    interrupt_id: str
    key: str
    kind: str
    data: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchRequest:
    """A run to be started by a node, once: ``effect_id`` is its identity."""

    effect_id: str
    node_id: str
    visit: int
    ordinal: int
    workflow_id: str
    inputs: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchOutcome:
    """How a dispatched run ended. ``status``: completed, failed or cancelled."""

    child_run_id: str
    status: str
    outputs: Mapping[str, Json] = field(default_factory=dict)
    error: Mapping[str, Json] | None = None


class Host(Protocol):
    """Answers a node. Any call may raise an ``Interruption`` (the execution ends for now) or a ``NodeError`` (it fails)."""

    async def draw(self, source: str, scope: str, ordinal: int, fresh: Callable[[], Json]) -> Json:
        """The value recorded at these coordinates of this execution, else ``fresh()``, recorded. ``fresh`` is called where the node runs."""
        ...

    async def effect(
        self, request: EffectRequest, send: Callable[[EffectTicket], Awaitable[EffectOutcome]]
    ) -> EffectOutcome:
        """Claim, send once, record the outcome; or the recorded outcome. Asked by side-effect nodes only.

        ``send`` raises ``EffectNotSent`` when the effect surely did not leave. Anything else it raises, a cancellation too, leaves the
        effect in doubt: the host then raises ``Doubt``.
        """
        ...

    async def invoke(
        self, request: LlmRequest, key: str, repetition: int, call: Callable[[], Awaitable[LlmResponse]]
    ) -> LlmResponse:
        """The recorded answer to this request, else ``call()``, recorded. ``repetition``: how often this execution asked the same before."""
        ...

    async def interrupt(self, request: InterruptRequest) -> Mapping[str, Json]:
        """The payload of the recorded ``interrupt.resolved`` of this node, visit and key. Raises ``Suspend`` when there is none."""
        ...

    async def dispatch(self, request: DispatchRequest) -> DispatchOutcome:
        """Start the run, once, and tell how it ended; raises ``Park`` until it has."""
        ...

    async def remaining_ms(self, delay_ms: int) -> int:
        """What is left of a pause of ``delay_ms`` that began with the recorded ``node.started`` of this execution; 0 when it is over."""
        ...
