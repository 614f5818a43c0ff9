"""One execution's external effects, live: claimed before they leave, sent once, their outcome recorded (guarantee G6).

::

    claim ──granted──▶ mark outbound ──▶ send ──▶ completed or failed
      │                                   └─nobody knows─▶ in doubt
      ├─completed before──▶ serve what was recorded
      └─outbound before, or in doubt──▶ in doubt: a person must say

Whatever is not known to have happened or not to have happened is in doubt. A delivery is not cut off with the node that asked for it: whoever
ends the execution waits for ``settle`` first.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from isoline_client.errors import EffectIdentityReused, IsolineError, LeaseLost
from isoline_client.execution import ClaimedEffect, Effect, EffectState, ExecutionClient
from isoline_client.executor.leases import Held
from isoline_client.executor.settings import SEND_PAUSE_S, SENDS_MAX
from isoline_client.guard.errors import EffectDenied
from isoline_client.workflow.errors import Doubt, EffectNotSent, NodeError
from isoline_client.workflow.host import EffectOutcome, EffectRequest, EffectTicket
from isoline_client.workflow.results import Draw, DrawAt

Send = Callable[[EffectTicket], Awaitable[EffectOutcome]]

NOT_SENT: Final = "isoline.effect_not_sent"

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class Effects:
    """The effects of one execution in a run that is held."""

    ledger: ExecutionClient
    held: Held
    durable: Callable[[], Awaitable[None]]
    """Returns when everything that was written of the run is durable."""
    draws: Callable[[], Sequence[Draw]]
    """What the execution has drawn so far."""
    in_doubt: str = ""
    """The effect of which nobody knows. This and the next are remembered, for the node may swallow what it is told."""
    broken: IsolineError | None = None
    """Why the ledger could not be asked or told: no fault of the node's."""
    _deliveries: "set[asyncio.Task[EffectOutcome]]" = field(default_factory=set)

    async def perform(self, request: EffectRequest, send: Send) -> EffectOutcome:
        """Have it happen once, now or before. Raises ``Doubt``."""
        if self.in_doubt:
            raise Doubt(self.in_doubt)
        try:
            await self.durable()
            claimed = await self._claim(request)
        except IsolineError as error:
            self.broken = error
            raise
        effect = claimed.effect
        if claimed.granted:
            return await self._deliver(effect, _repeated(send) if request.idempotent else send)
        if effect.state == "completed":
            _log.info("effect served from the ledger", extra=self._facts(effect))
            return EffectOutcome(state="completed", value=json.loads(effect.outcome or b"null"))
        _log.warning("effect in doubt", extra={**self._facts(effect), "why": "it left, and its executor is gone"})
        raise self._doubt(effect)

    async def settle(self) -> None:
        """Wait until nothing of this execution is under way any more."""
        while self._deliveries:
            await asyncio.wait(self._deliveries)

    async def _claim(self, request: EffectRequest) -> ClaimedEffect:
        try:
            return await self.ledger.claim_effect(
                self.held.run_id,
                request.effect_id,
                lease_epoch=self.held.epoch,
                node_id=request.node_id,
                visit=request.visit,
                ordinal=request.ordinal,
                seam=request.seam,
                provider_key=request.provider_key,
                request_digest=request.request_digest,
                draws=encode_draws(self.draws()),
            )
        except EffectIdentityReused as error:
            text = "the node asks for another request than before where the same effect is meant; draw what differs from ctx"
            raise NodeError("isoline.effect_identity_reused", text, retryable=False) from error

    async def _deliver(self, effect: Effect, send: Send) -> EffectOutcome:
        delivery = asyncio.create_task(self._send(effect, send))
        self._deliveries.add(delivery)
        delivery.add_done_callback(self._delivered)
        return await asyncio.shield(delivery)

    def _delivered(self, delivery: "asyncio.Task[EffectOutcome]") -> None:
        self._deliveries.discard(delivery)
        # Whoever waited has the error; when nobody waits any more, the ledger tells.
        error = None if delivery.cancelled() else delivery.exception()
        self.broken = error if isinstance(error, IsolineError) else self.broken

    async def _send(self, effect: Effect, send: Send) -> EffectOutcome:
        await self._advance(effect, "outbound")
        if not self.held.is_good:
            # Nothing has left. Said while nobody has taken the run over, it is sent again; else it is in doubt, for it is found outbound.
            why = "the lease ended before it left"
            await self._advance(effect, "failed", {"code": NOT_SENT, "message": why})
            raise LeaseLost(message=why, run_id=self.held.run_id, lease_epoch=self.held.epoch)
        _log.info("effect leaves", extra=self._facts(effect))
        try:
            outcome = await send(EffectTicket(effect_id=effect.effect_id, attempt=effect.attempt))
        except EffectNotSent as error:
            outcome = EffectOutcome(state="failed", code=NOT_SENT, message=str(error))
        except EffectDenied as error:
            outcome = EffectOutcome(state="failed", code=error.code, message=str(error), retryable=False)
        except Exception as error:
            why = str(error) or repr(error)
            _log.warning("effect in doubt", extra={**self._facts(effect), "why": why})
            await self._advance(effect, "in_doubt", {"why": why})
            raise self._doubt(effect) from error
        if outcome.state == "completed":
            # What was refused did not happen: should this execution have to run again, it is sent again.
            to: EffectState = "failed" if outcome.refused else "completed"
            await self._advance(effect, to, outcome.value, outcome.cost)
        else:
            failure = {"code": outcome.code, "message": outcome.message, "value": outcome.value}
            await self._advance(effect, "failed", failure, outcome.cost)
        return outcome

    async def _advance(self, effect: Effect, to: EffectState, outcome: Any = None, cost: Any = None) -> None:
        await self.ledger.advance_effect(
            self.held.run_id,
            effect.effect_id,
            lease_epoch=self.held.epoch,
            attempt=effect.attempt,
            to=to,
            outcome=b"" if to == "outbound" else _encode(outcome),
            cost=_encode(cost) if cost else b"",
        )

    def _doubt(self, effect: Effect) -> Doubt:
        self.in_doubt = effect.effect_id
        return Doubt(effect.effect_id)

    def _facts(self, effect: Effect) -> dict[str, Any]:
        return {
            "run": self.held.run_id,
            "node": effect.node_id,
            "seam": effect.seam,
            "to": effect.provider_key,
            "attempt": effect.attempt,
            "effect": effect.effect_id,
        }


def _repeated(send: Send) -> Send:
    """Send, and send the same again while nobody knows what became of it: for those who do it once for one effect id."""

    async def sent(ticket: EffectTicket) -> EffectOutcome:
        unknown: Exception | None = None
        for again in range(SENDS_MAX):
            try:
                return await send(ticket)
            except EffectDenied:
                raise
            except Exception as error:
                if isinstance(error, EffectNotSent) and unknown is None:
                    raise
                unknown = error
            _log.warning("effect sent again", extra={"effect": ticket.effect_id, "why": str(unknown) or repr(unknown)})
            await asyncio.sleep(SEND_PAUSE_S * 2**again)
        raise ConnectionError(f"sent {SENDS_MAX} times, and no answer came") from unknown

    return sent


def encode_draws(draws: Iterable[Draw]) -> bytes:
    """Draws as a claim carries them, and as a node's terminal does."""
    return _encode(
        [
            {"scope": each.at.scope, "source": each.at.source, "ordinal": each.at.ordinal, "value": each.value}
            for each in draws
        ]
    )


def draw_of(row: dict[str, Any]) -> Draw:
    """One draw as it is recorded."""
    return Draw(at=DrawAt(scope=row["scope"], source=row["source"], ordinal=row["ordinal"]), value=row["value"])


def draws_of(effects: Iterable[Effect]) -> dict[DrawAt, Draw]:
    """What the claims of one visit say was drawn."""
    rows = [row for effect in effects for row in json.loads(effect.draws or b"[]")]
    return {draw.at: draw for draw in map(draw_of, reversed(rows))}


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
