"""What a node of a live run gets when it asks: fresh draws, effects that leave, models that are called, sub-runs that are started.

One host serves one execution. What a replay answers is ``replaying``.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from isoline_client.client import Client
from isoline_client.errors import IsolineError
from isoline_client.execution import ExecutionClient, Invocation
from isoline_client.executor.effects import Effects, Send
from isoline_client.executor.leases import Held
from isoline_client.executor.settings import CHILD_WAKE_MS_MAX, CHILD_WAKE_MS_MIN
from isoline_client.run import Run
from isoline_client.workflow.actions import StartNode
from isoline_client.workflow.errors import Park, Suspend, UndeclaredSource
from isoline_client.workflow.host import (
    DispatchOutcome,
    DispatchRequest,
    EffectOutcome,
    EffectRequest,
    InterruptRequest,
    LlmRequest,
    LlmResponse,
)
from isoline_client.workflow.results import Draw, DrawAt
from isoline_client.workflow.values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the log says about the execution that a host serves."""

    started_at: datetime | None
    """When its ``node.started`` was recorded; None: only now."""
    begun_before: bool
    """The visit began before: under another executor, cut off by a pause, or as an attempt that failed."""
    resolution: Callable[[str], Mapping[str, Json] | None]
    """The payload of ``interrupt.resolved`` for a key of this visit."""
    is_requested: Callable[[str], bool]
    """Whether a key of this visit was asked."""
    drawn: Mapping[DrawAt, Draw]
    """Values of this visit that its claims recorded."""


@dataclass(slots=True, kw_only=True, eq=False)
class LiveHost:
    """The host of the execution ``start`` of a run that is held."""

    client: Client
    ledger: ExecutionClient
    held: Held
    home_region: str
    start: StartNode
    sources: tuple[str, ...]
    standing: Standing
    durable: Callable[[], Awaitable[None]]
    drawn: list[Draw] = field(default_factory=list)
    effects: Effects = field(init=False)
    _broken: IsolineError | None = None

    def __post_init__(self) -> None:
        self.effects = Effects(ledger=self.ledger, held=self.held, durable=self.durable, draws=lambda: self.drawn)

    @property
    def broken(self) -> IsolineError | None:
        """Why the service could not be asked, whatever the node made of it."""
        return self._broken or self.effects.broken

    async def draw(self, source: str, scope: str, ordinal: int, fresh: Callable[[], Json]) -> Json:
        if source not in self.sources:
            raise UndeclaredSource(source)
        at = DrawAt(scope=scope, source=source, ordinal=ordinal)
        draw = self.standing.drawn.get(at) or Draw(at=at, value=fresh())
        self.drawn.append(draw)
        return draw.value

    async def effect(self, request: EffectRequest, send: Send) -> EffectOutcome:
        return await self.effects.perform(request, send)

    async def invoke(
        self, request: LlmRequest, key: str, repetition: int, call: Callable[[], Awaitable[LlmResponse]]
    ) -> LlmResponse:
        del request
        found = await self._asking(self._recorded(key, repetition)) if self.standing.begun_before else None
        if found is None:
            await self._asking(self.durable())
            found = await self._asking(self._record(key, repetition, await call()))
        return response_of(found)

    async def interrupt(self, request: InterruptRequest) -> Mapping[str, Json]:
        answer = self.standing.resolution(request.key)
        if answer is None:
            raise Suspend(request, requested=self.standing.is_requested(request.key))
        return answer

    async def dispatch(self, request: DispatchRequest) -> DispatchOutcome:
        outcome: DispatchOutcome = await self._asking(self._dispatch(request))
        return outcome

    async def remaining_ms(self, delay_ms: int) -> int:
        if self.standing.started_at is None:
            return delay_ms
        return remaining_ms(self.standing.started_at, delay_ms)

    async def _recorded(self, key: str, repetition: int) -> Invocation | None:
        return await self.ledger.get_invocation(
            self.held.run_id, self.start.node_id, execution=self.start.execution, key=key, repetition=repetition
        )

    async def _record(self, key: str, repetition: int, answer: LlmResponse) -> Invocation:
        invocation = Invocation(
            run_id=self.held.run_id,
            node_id=self.start.node_id,
            execution=self.start.execution,
            key=key,
            repetition=repetition,
            kind=answer.kind,
            response=json.dumps(asdict(answer), ensure_ascii=False).encode(),
            cost=json.dumps(answer.cost).encode() if answer.cost else b"",
        )
        return (await self.ledger.put_invocation(invocation, lease_epoch=self.held.epoch)).invocation

    async def _dispatch(self, request: DispatchRequest) -> DispatchOutcome:
        await self.durable()
        child = await self.client.start_run(
            request.workflow_id, request.inputs, home_region=self.home_region, request_id=request.effect_id
        )
        info = await child.info()
        if info.terminal_seq is None:
            waited_ms = (datetime.now(UTC) - info.created_at) / timedelta(milliseconds=1)
            raise Park(int(min(max(waited_ms / 4, CHILD_WAKE_MS_MIN), CHILD_WAKE_MS_MAX)))
        return await _outcome_of(child, info.terminal_seq)

    async def _asking(self, work: Awaitable[Any]) -> Any:
        """What keeps the service from answering is no outcome of the node's, so it is remembered beside it."""
        try:
            return await work
        except IsolineError as error:
            self._broken = error
            raise


def response_of(invocation: Invocation) -> LlmResponse:
    """The answer that an invocation recorded."""
    return LlmResponse(**json.loads(invocation.response))


def remaining_ms(since: datetime, delay_ms: int) -> int:
    """What is left of a pause by the clocks of whoever recorded its beginning and of this process: never more than all of it."""
    gone_ms = (datetime.now(UTC) - since) / timedelta(milliseconds=1)
    return int(min(max(delay_ms - gone_ms, 0), delay_ms))


async def _outcome_of(child: Run, terminal_seq: int) -> DispatchOutcome:
    ended = [event async for event in child.read(terminal_seq, terminal_seq + 1)]
    payload = ended[0].payload
    return DispatchOutcome(
        child_run_id=child.run_id,
        status=ended[0].type.removeprefix("run."),
        outputs=payload.get("outputs", {}),
        error=payload.get("error"),
    )
