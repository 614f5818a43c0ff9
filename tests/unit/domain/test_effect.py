"""The rules of effects, exhaustively: every state, met by every call."""

from dataclasses import replace
from itertools import product

import pytest

from isoline_server.domain.effect import (
    ADVANCES,
    AdvanceEffectCommand,
    ClaimEffectCommand,
    Effect,
    EffectState,
    ResolveEffectCommand,
    advance,
    check_advanced,
    check_resolved,
    decide_claim,
    is_granted,
)
from isoline_server.domain.errors import EffectIdentityReused, EffectTransitionRefused
from isoline_server.domain.ids import RunId, Tenant

RUN = RunId("acme/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa")
CLAIMED, OUTBOUND, COMPLETED, FAILED, IN_DOUBT = EffectState
EPOCH = 5


def effect(state, epoch=EPOCH, attempt=2, outcome=b"", resolved_by=""):
    return Effect(
        run_id=RUN,
        effect_id="e",
        node_id="n",
        visit=1,
        ordinal=0,
        seam="http.request",
        provider_key="POST shop:443",
        request_digest=b"same",
        state=state,
        attempt=attempt,
        lease_epoch=epoch,
        draws=b"",
        outcome=outcome,
        cost=b"",
        first_claimed_at_us=1,
        claimed_at_us=1,
        outbound_at_us=None,
        ended_at_us=None,
        resolved_by=resolved_by,
    )


def claim(epoch=EPOCH, digest=b"same"):
    return ClaimEffectCommand(
        tenant=Tenant("acme"),
        run_id=RUN,
        lease_epoch=epoch,
        effect_id="e",
        node_id="n",
        visit=1,
        ordinal=0,
        seam="http.request",
        provider_key="POST shop:443",
        request_digest=digest,
        draws=b"",
    )


def advancing(to, epoch=EPOCH, attempt=2, outcome=b""):
    return AdvanceEffectCommand(
        run_id=RUN, lease_epoch=epoch, effect_id="e", attempt=attempt, to=to, outcome=outcome, cost=b""
    )


AFTER_A_CLAIM = {
    # (state, claimed under the epoch, or a later one): what it becomes, in which attempt, under which epoch
    (CLAIMED, EPOCH): None,
    (CLAIMED, EPOCH + 1): (CLAIMED, 2, EPOCH + 1),
    (OUTBOUND, EPOCH): None,
    (OUTBOUND, EPOCH + 1): (IN_DOUBT, 2, EPOCH),
    (COMPLETED, EPOCH): None,
    (COMPLETED, EPOCH + 1): None,
    (FAILED, EPOCH): (CLAIMED, 3, EPOCH),
    (FAILED, EPOCH + 1): (CLAIMED, 3, EPOCH + 1),
    (IN_DOUBT, EPOCH): None,
    (IN_DOUBT, EPOCH + 1): None,
}


@pytest.mark.parametrize(("state", "epoch"), list(product(EffectState, [EPOCH, EPOCH + 1])))
def test_what_a_claim_does(state, epoch):
    found = effect(state)
    move = decide_claim(found, claim(epoch))
    assert (move and (move.state, move.attempt, move.lease_epoch)) == AFTER_A_CLAIM[state, epoch]
    assert move is None or move.fits(found)
    assert not (move and move.needs_live_lease)


@pytest.mark.parametrize("state", EffectState)
def test_an_id_that_stands_for_another_request_is_refused_in_every_state(state):
    with pytest.raises(EffectIdentityReused):
        decide_claim(effect(state), claim(EPOCH + 1, b"other"))


@pytest.mark.parametrize(("state", "epoch"), list(product(EffectState, [EPOCH - 1, EPOCH, EPOCH + 1])))
def test_only_what_is_claimed_under_the_same_epoch_may_be_sent(state, epoch):
    assert is_granted(effect(state), epoch) == (state is CLAIMED and epoch == EPOCH)


@pytest.mark.parametrize(("state", "to"), list(product(EffectState, ADVANCES)))
def test_where_an_advance_fits(state, to):
    allowed = {
        (CLAIMED, OUTBOUND),
        (CLAIMED, FAILED),
        (OUTBOUND, COMPLETED),
        (OUTBOUND, FAILED),
        (OUTBOUND, IN_DOUBT),
    }
    move = advance(advancing(to))
    assert move.fits(effect(state)) == ((state, to) in allowed)
    assert not move.fits(effect(state, epoch=EPOCH - 1))
    assert not move.fits(effect(state, attempt=1))
    assert move.needs_live_lease == (to is OUTBOUND)


@pytest.mark.parametrize(("state", "to"), list(product(EffectState, ADVANCES)))
def test_a_repeat_is_recognised_by_everything_it_said(state, to):
    stands, asked = effect(state, outcome=b"1"), advancing(to, outcome=b"1")
    if state is to:
        check_advanced(stands, asked)
    others = [replace(asked, outcome=b"2"), replace(asked, attempt=1), replace(asked, lease_epoch=EPOCH + 1)]
    for other in others if state is to else [asked, *others]:
        with pytest.raises(EffectTransitionRefused) as refusal:
            check_advanced(stands, other)
        assert (refusal.value.state, refusal.value.to) == (state.name.lower(), to.name.lower())


def test_a_persons_word_is_recognised_by_everything_it_said():
    said = ResolveEffectCommand(run_id=RUN, effect_id="e", to=FAILED, outcome=b"1", resolved_by="ada")
    check_resolved(effect(FAILED, outcome=b"1", resolved_by="ada"), said)
    for other in (
        effect(COMPLETED, outcome=b"1", resolved_by="ada"),
        effect(FAILED, outcome=b"2", resolved_by="ada"),
        effect(FAILED, outcome=b"1", resolved_by="bob"),
        effect(FAILED, outcome=b"1"),
    ):
        with pytest.raises(EffectTransitionRefused):
            check_resolved(other, said)
