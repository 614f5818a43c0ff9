"""One effect, from claim to outcome, beside a ledger that notes what it is told."""

import time
from datetime import UTC, datetime

import pytest

from isoline_client.errors import LeaseLost
from isoline_client.execution import ClaimedEffect, Effect
from isoline_client.executor.effects import NOT_SENT, Effects
from isoline_client.executor.leases import Held
from isoline_client.workflow.host import EffectOutcome, EffectRequest

RUN = "local/eu-" + "a" * 26


class Ledger:
    """Grants every claim; ``at_outbound`` happens while it takes note that an effect is about to leave."""

    def __init__(self, at_outbound=lambda: None):
        self.told = []
        self.at_outbound = at_outbound

    async def claim_effect(self, run_id, effect_id, **claimed):
        names = ("node_id", "seam", "provider_key", "request_digest", "visit", "ordinal", "lease_epoch", "draws")
        effect = Effect(
            run_id=run_id, effect_id=effect_id, state="claimed", attempt=1, outcome=b"", cost=b"", resolved_by="",
            claimed_at=datetime.now(UTC), outbound_at=None, ended_at=None, **{name: claimed[name] for name in names},
        )  # fmt: skip
        return ClaimedEffect(effect=effect, granted=True)

    async def advance_effect(self, run_id, effect_id, *, to, **_):
        self.told.append(to)
        if to == "outbound":
            self.at_outbound()


def effects_of(ledger, held):
    async def durable():
        pass

    return Effects(ledger=ledger, held=held, durable=durable, draws=tuple)


def request():
    return EffectRequest(
        effect_id="e" * 43, node_id="n", visit=1, ordinal=0, seam="http.request", provider_key="POST somewhere",
        request_digest=b"d" * 32, idempotent=False,
    )  # fmt: skip


async def test_an_effect_whose_lease_ends_before_it_leaves_is_not_in_doubt():
    """Nothing left, so nobody has to be asked; and the run is left to its lease's end, rather than parked where nobody looks."""
    held = Held(RUN, "example.w", 1, good_until=time.monotonic() + 60)
    ledger = Ledger(at_outbound=held.lost.set)
    effects = effects_of(ledger, held)
    sent = []

    async def send(ticket):
        sent.append(ticket)
        return EffectOutcome(state="completed", value={})

    with pytest.raises(LeaseLost, match="ended before it left"):
        await effects.perform(request(), send)
    await effects.settle()
    assert (sent, ledger.told, effects.in_doubt) == ([], ["outbound", "failed"], "")
    assert isinstance(effects.broken, LeaseLost)  # also for a node that swallows what it was told


async def test_an_effect_under_a_good_lease_leaves():
    ledger = Ledger()
    effects = effects_of(ledger, Held(RUN, "example.w", 1, good_until=time.monotonic() + 60))

    async def send(_ticket):
        return EffectOutcome(state="completed", value={"ok": True})

    assert (await effects.perform(request(), send)).value == {"ok": True}
    assert (ledger.told, effects.broken) == (["outbound", "completed"], None)
    assert NOT_SENT not in ledger.told
