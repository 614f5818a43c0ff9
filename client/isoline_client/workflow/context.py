"""What a handler is given: ``Context``. Each question it asks goes to the ``Host``; what it writes is kept until its execution has ended.

A context belongs to one execution. Not here: running the handler (``running``), or deciding what a host answers.
"""

import asyncio
import contextvars
import hashlib
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from ulid import ULID

from isoline_client.workflow import identity
from isoline_client.workflow.actions import StartNode
from isoline_client.workflow.channels import REDUCERS
from isoline_client.workflow.definition import Workflow
from isoline_client.workflow.errors import (
    ApprovalRejected,
    EffectNotAllowed,
    Interruption,
    LlmRefused,
    NodeError,
    Park,
    UndeclaredSource,
    VersionUnsupported,
)
from isoline_client.workflow.host import (
    DispatchRequest,
    EffectOutcome,
    EffectRequest,
    EffectTicket,
    Host,
    InterruptRequest,
    LlmRequest,
    LlmResponse,
)
from isoline_client.workflow.http import Http
from isoline_client.workflow.invocation_key import invocation_key
from isoline_client.workflow.results import (
    ChannelWrite,
    Dispatched,
    Draw,
    DrawAt,
    MemoryWrite,
    NodeResult,
    Outcome,
    Pin,
    Refusal,
    VariableChange,
)
from isoline_client.workflow.scopes import SCOPE, Scope
from isoline_client.workflow.values import Json, NotJson, as_json, as_object, canonical

Envelope = Callable[[Json], object]
"""Checks the content of an answer; raises ``ValueError`` when it does not pass."""

INTERRUPT_KINDS: Final = frozenset(
    {
        "approval",
        "clarification",
        "external-event",
        "custom",
        "conversation.start",
        "conversation.exchange",
        "conversation.close",
        "low-confidence",
        "credential",
    }
)

_T = TypeVar("_T")
_RANDOM: Final = random.SystemRandom()
_GRANTING_DECISIONS: Final = (None, "granted", "overridden")
_GRANTING_ACTIONS: Final = (None, "accept", "edit-accept")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextParts:
    """What a context shows of the run, as it is when the execution begins. JSON-able.

    ``pins``: recorded before this execution. ``recorded_pins``: for a replay, those that the source recorded from here on; they are taken
    like pins, and recorded again.
    """

    run_id: str
    variables: Mapping[str, Json] = field(default_factory=dict)
    channels: Mapping[str, Json] = field(default_factory=dict)
    memory: Mapping[str, Json] = field(default_factory=dict)
    pins: Mapping[str, int] = field(default_factory=dict)
    recorded_pins: Mapping[str, int] = field(default_factory=dict)


class Memory:
    """What the run remembers by reference. Own writes are read back at once, and are recorded when the node completes."""

    def __init__(
        self, draw: Callable[[str, Callable[[], Json]], Awaitable[Json]], recorded: Mapping[str, Json]
    ) -> None:
        self.writes: Final[list[MemoryWrite]] = []
        self._draw = draw
        self._recorded = recorded
        self._own: dict[str, Json] = {}

    def read(self, memory_ref: str, default: Json = None) -> Json:
        """What is remembered under a reference."""
        return as_json(self._own[memory_ref] if memory_ref in self._own else self._recorded.get(memory_ref, default))

    async def write(self, memory_ref: str, value: Json, *, tags: Sequence[str] = ()) -> str:
        """Remember a value; the answer is the id of this memory, the same in every replay."""
        copied = as_json(value)
        memory_id = str(await self._draw("id", _new_ulid))
        self._own[memory_ref] = copied
        written = MemoryWrite(memory_ref=memory_ref, memory_id=memory_id, value=copied, tags=tuple(tags))
        self.writes.append(written)
        return memory_id


class Context:
    """One execution of a node, as its handler sees it.

    ``run_id``, ``node_id``, ``visit``, ``attempt``, ``execution`` and ``config`` say where it is. Values drawn here are recorded, and a
    replay draws the same.
    """

    def __init__(self, workflow: Workflow, start: StartNode, parts: ContextParts, host: Host) -> None:
        self.run_id: Final = parts.run_id
        self.node_id: Final = start.node_id
        self.visit: Final = start.visit
        self.attempt: Final = start.attempt
        self.execution: Final = start.execution
        self.config: Final[Mapping[str, Any]] = workflow.node(start.node_id).config
        self.memory: Final = Memory(self._draw, parts.memory)
        self.http: Final = Http(self.effect)
        self.stopped: BaseException | None = None
        """An interruption, or a defect that no handler can undo by swallowing it."""
        self._workflow = workflow
        self._role = workflow.node_type(start.node_id).role
        self._parts = parts
        self._host = host
        self._root = Scope()
        self._effects = 0
        self._asked: Counter[str] = Counter()
        self._own_variables: dict[str, Json] = {}
        self._pins: list[Pin] = []
        self._variables: list[VariableChange] = []
        self._channels: list[ChannelWrite] = []
        self._dispatched: list[Dispatched] = []
        self._refusals: list[Refusal] = []
        self._draws: dict[DrawAt, Draw] = {}

    # --- draws ---------------------------------------------------------------------------------------------------------------------

    async def now(self) -> datetime:
        """The time, in UTC. From the source ``clock``."""
        text = await self.draw("clock", lambda: datetime.now(UTC).isoformat(timespec="microseconds"))
        return datetime.fromisoformat(str(text))

    async def random(self) -> float:
        """A number from 0 up to 1. From the source ``random``."""
        value = await self.draw("random", _RANDOM.random)
        assert isinstance(value, int | float)
        return float(value)

    async def new_id(self) -> str:
        """A new ULID. From the source ``id``."""
        return str(await self.draw("id", _new_ulid))

    async def env(self, name: str) -> str | None:
        """A variable of the process's environment, None when it is not set. From the source ``env``."""
        value = await self.draw("env", lambda: os.environ.get(name))
        return None if value is None else str(value)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that the workflow declares."""
        return self._workflow.settings.sources

    async def draw(self, source: str, fresh: Callable[[], Json]) -> Json:
        """A value from a declared source (``x-…`` for one of your own). ``fresh`` is called when none is recorded."""
        if source not in self._workflow.settings.sources:
            raise self._stop(UndeclaredSource(source))
        return await self._draw(source, fresh)

    async def _draw(self, source: str, fresh: Callable[[], Json]) -> Json:
        at = self._scope.next(source)
        value = await self._host.draw(at.source, at.scope, at.ordinal, lambda: as_json(fresh()))
        self._draws[at] = Draw(at=at, value=value)
        return value

    # --- the run -------------------------------------------------------------------------------------------------------------------

    @property
    def variables(self) -> Mapping[str, Any]:
        """A copy of the run's variables, own changes included."""
        return as_object({**self._parts.variables, **self._own_variables})

    @property
    def channels(self) -> Mapping[str, Any]:
        """A copy of the run's channels as they were when the execution began."""
        return as_object(self._parts.channels)

    def set_variable(self, name: str, value: Json) -> None:
        """Change a variable when the node completes."""
        self._own_variables[name] = copied = as_json(value)
        self._variables.append(VariableChange(name=name, next=copied))

    def write_channel(self, channel: str, value: Json, *, reducer: str = "append") -> None:
        """Write to a channel when the node completes; the reducer says what becomes of what is there."""
        if reducer not in REDUCERS:
            raise ValueError(f"reducer {reducer!r} is not one of {', '.join(REDUCERS)}")
        self._channels.append(ChannelWrite(channel=channel, reducer=reducer, value=as_json(value)))

    def get_version(self, change_id: str, lowest: int, highest: int) -> int:
        """The version of a change that this run takes: the recorded one, else the highest, recorded from now on."""
        own = next((pin.version for pin in self._pins if pin.change_id == change_id), None)
        pinned = self._parts.pins.get(change_id, own)
        version = self._parts.recorded_pins.get(change_id, highest) if pinned is None else pinned
        if not lowest <= version <= highest:
            raise VersionUnsupported(change_id, version, lowest, highest)
        if pinned is None:
            self._pins.append(Pin(change_id=change_id, version=version))
        return version

    # --- people --------------------------------------------------------------------------------------------------------------------

    async def interrupt(self, key: str, *, kind: str = "approval", data: Json = None) -> Json:
        """Ask a person, or the world, and wait for the answer. Within one visit of a node a key is asked once."""
        return (await self.resolution(key, kind=kind, data=data)).get("resumeValue")

    async def approval(self, key: str, *, data: Json = None) -> Json:
        """Ask for an approval; any other answer (a rejection, a timeout, an unknown word) fails the node with ``approval_rejected``."""
        found = await self.resolution(key, kind="approval", data=data)
        if found.get("decision") not in _GRANTING_DECISIONS or found.get("action") not in _GRANTING_ACTIONS:
            raise ApprovalRejected(key)
        return found.get("resumeValue")

    async def resolution(self, key: str, *, kind: str, data: Json = None) -> Mapping[str, Json]:
        """The whole recorded answer to an interrupt: ``resumeValue``, ``decision``, ``action``, …"""
        if kind not in INTERRUPT_KINDS:
            raise NodeError("node_config_invalid", f"interrupt kind {kind!r} is not known", retryable=False)
        request = InterruptRequest(
            interrupt_id=identity.interrupt_id(self.run_id, self.node_id, self.visit, key),
            key=key,
            kind=kind,
            data=as_json(data),
        )
        return await self._asking(self._host.interrupt(request))

    async def sleep(self, delay_ms: int) -> None:
        """Wait, across restarts: from when this execution began in the log. The node is run again from its start when time has come.

        A replay does not wait.
        """
        remaining_ms = await self._asking(self._host.remaining_ms(delay_ms))
        if remaining_ms > 0:
            raise self._stop(Park(remaining_ms))

    # --- effects -------------------------------------------------------------------------------------------------------------------

    async def tool(self, name: str, **arguments: Json) -> Json:
        """Call one of the workflow's tools, once."""
        tool = self._workflow.tools.get(name)
        if tool is None:
            raise NodeError("node_config_invalid", f"the workflow has no tool {name!r}", retryable=False)

        async def send(ticket: EffectTicket) -> EffectOutcome:
            return EffectOutcome(state="completed", value=as_json(await tool(ticket, copied)))

        copied = as_object(arguments)
        return (await self.effect(f"tool.{name}", f"tool:{name}", copied, send)).value

    async def effect(
        self,
        seam: str,
        provider_key: str,
        request: Json,
        send: Callable[[EffectTicket], Awaitable[EffectOutcome]],
        *,
        idempotent: bool = False,
    ) -> EffectOutcome:
        """Cause an external effect, once. ``provider_key`` and ``request`` say what it is; ``send`` causes it.

        A failed outcome is raised as a ``NodeError``. ``idempotent``: the other side does it once for one effect id, so ``send`` may be
        called again while nobody knows what became of it.
        """
        self._may(seam, "side-effect")
        ordinal, name = self._next_effect(provider_key)
        asked = EffectRequest(
            effect_id=name,
            node_id=self.node_id,
            visit=self.visit,
            ordinal=ordinal,
            seam=seam,
            provider_key=provider_key,
            request_digest=hashlib.sha256(canonical(request)).digest(),
            idempotent=idempotent,
        )
        outcome = await self._asking(self._host.effect(asked, send))
        if outcome.state == "failed":
            raise NodeError(outcome.code or "isoline.effect_failed", outcome.message, retryable=outcome.retryable)
        return outcome

    async def dispatch(self, workflow_id: str, inputs: Mapping[str, Json] | None = None) -> Mapping[str, Json]:
        """Run another workflow and wait for its outputs; a run that does not complete fails the node."""
        self._may("dispatch", "side-effect")
        ordinal, name = self._next_effect(f"run:{workflow_id}")
        request = DispatchRequest(
            effect_id=name,
            node_id=self.node_id,
            visit=self.visit,
            ordinal=ordinal,
            workflow_id=workflow_id,
            inputs=as_object(inputs or {}),
        )
        outcome = await self._asking(self._host.dispatch(request))
        self._dispatched.append(
            Dispatched(child_run_id=outcome.child_run_id, workflow_id=workflow_id, status=outcome.status)
        )
        if outcome.status != "completed":
            raise NodeError("isoline.child_failed", f"{workflow_id} {outcome.child_run_id} ended as {outcome.status}")
        return outcome.outputs

    async def llm(self, request: LlmRequest, *, envelope: Envelope | None = None) -> LlmResponse:
        """Ask a model. A refusal, or an answer that ``envelope`` does not let pass, is recorded and raised as ``LlmRefused``."""
        self._may("llm", "llm", "side-effect")
        key = invocation_key(request)
        repetition = self._asked[key]
        self._asked[key] = repetition + 1

        async def call() -> LlmResponse:
            model = self._workflow.models.get(request.provider)
            if model is None:
                raise NodeError("node_config_invalid", f"no model of provider {request.provider!r}", retryable=False)
            return await model(request)

        response = await self._asking(self._host.invoke(request, key, repetition, call))
        refused = response.refusal_text or "refused" if response.kind == "refusal" else _objection(envelope, response)
        if refused is None:
            return response
        self._refusals.append(
            Refusal(
                provider=request.provider,
                model=request.model,
                text=response.refusal_text if response.kind == "refusal" else refused,
                safety_category=response.safety_category,
            )
        )
        raise LlmRefused(request.provider, request.model, refused)

    # --- concurrency ---------------------------------------------------------------------------------------------------------------

    async def gather(self, *parts: Awaitable[_T]) -> list[_T]:
        """Run parts side by side, each in a scope of its own, and wait for all; then the first part (by place) that failed is raised."""
        tasks = [self._part(part) for part in parts]
        if not tasks:
            return []
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
        return [task.result() for task in tasks]

    def _part(self, part: Awaitable[_T]) -> asyncio.Task[_T]:
        context = contextvars.copy_context()
        context.run(SCOPE.set, self._scope.child())

        async def run() -> _T:
            return await part

        return asyncio.create_task(run(), context=context)

    # --- inside --------------------------------------------------------------------------------------------------------------------

    @property
    def _scope(self) -> Scope:
        return SCOPE.get(self._root)

    def _may(self, what: str, *roles: str) -> None:
        if self._role not in roles:
            raise self._stop(EffectNotAllowed(what, self._role))

    def _next_effect(self, provider_key: str) -> tuple[int, str]:
        ordinal = self._effects
        number = identity.ordinal_number(self.visit, ordinal)
        self._effects = ordinal + 1
        tenant = identity.tenant_of(self.run_id)
        return ordinal, identity.effect_id(tenant, self.run_id, self.node_id, number, provider_key)

    async def _asking(self, answer: Awaitable[_T]) -> _T:
        try:
            return await answer
        except Interruption as interruption:
            raise self._stop(interruption) from None

    def _stop(self, reason: BaseException) -> BaseException:
        """Remember what ends this execution, whatever its handler makes of the exception."""
        self.stopped = self.stopped or reason
        return reason

    def result(self, outcome: Outcome) -> NodeResult:
        """The execution, ended: everything that it wrote and drew."""
        return NodeResult(
            outcome=outcome,
            pins=tuple(self._pins),
            variables=tuple(self._variables),
            channels=tuple(self._channels),
            memory=tuple(self.memory.writes),
            dispatched=tuple(self._dispatched),
            refusals=tuple(self._refusals),
            draws=tuple(self._draws[at] for at in sorted(self._draws)),
        )


def _new_ulid() -> str:
    return str(ULID())


def _objection(envelope: Envelope | None, response: LlmResponse) -> str | None:
    if envelope is None:
        return None
    try:
        envelope(response.content)
    except (ValueError, NotJson) as error:
        return str(error) or type(error).__name__
    return None
