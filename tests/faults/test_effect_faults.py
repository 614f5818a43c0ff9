"""The database changed an effect and the driver says that it failed; or it did not, and says so."""

import pytest

from api.executing import CLAIMED, COMPLETED, FAILED, IN_DOUBT, OUTBOUND, Executing, taken_over
from faults.faulty import ABORTED, LOST


@pytest.fixture
def executing(failing):
    return Executing(failing.wire)


@pytest.mark.parametrize("plan", ["fail_after", "fail_before"])
@pytest.mark.parametrize("error", [LOST, ABORTED], ids=["unknown", "surely not"])
async def test_an_effect_claimed_unseen_is_granted_once_and_as_the_first_attempt(failing, executing, plan, error):
    run_id, epoch = await executing.leased_run()
    getattr(failing.effects, plan)("insert", error, times=2)
    claimed = await executing.claim_effect(run_id, epoch, draws=b"[1]")
    assert (claimed.granted, claimed.effect.attempt, claimed.effect.state) == (True, 1, CLAIMED)
    assert failing.effects.is_healed
    assert (await Executing(failing.other).effects(run_id)).effects == [claimed.effect]


async def test_the_next_attempt_of_a_failed_effect_that_was_claimed_unseen_is_the_second_and_no_third(
    failing, executing
):
    run_id, epoch = await executing.leased_run()
    await executing.claim_effect(run_id, epoch)
    await executing.advance(run_id, epoch, FAILED)
    failing.effects.fail_after("move", times=3)
    claimed = await executing.claim_effect(run_id, epoch)
    assert (claimed.granted, claimed.effect.attempt) == (True, 2)


async def test_an_effect_that_was_put_in_doubt_unseen_is_in_doubt_and_not_granted(failing, executing):
    run_id, epoch = await executing.leased_run()
    await executing.claim_effect(run_id, epoch)
    await executing.advance(run_id, epoch, OUTBOUND)
    later = await taken_over(executing, failing.url, run_id, epoch)
    failing.effects.fail_after("move")
    claimed = await executing.claim_effect(run_id, later)
    assert (claimed.granted, claimed.effect.state) == (False, IN_DOUBT)


@pytest.mark.parametrize("plan", ["fail_after", "fail_before"])
@pytest.mark.parametrize("to", [OUTBOUND, COMPLETED, FAILED, IN_DOUBT])
async def test_an_advance_that_landed_unseen_is_answered_as_the_first(failing, executing, to, plan):
    run_id, epoch = await executing.leased_run()
    await executing.claim_effect(run_id, epoch)
    if to != OUTBOUND:
        await executing.advance(run_id, epoch, OUTBOUND)
    getattr(failing.effects, plan)("move", times=2)
    effect = await executing.advance(run_id, epoch, to, outcome=b'{"status":200}')
    assert (effect.state, effect.outcome, effect.attempt) == (to, b'{"status":200}', 1)
    assert failing.effects.is_healed
    assert (await Executing(failing.other).effects(run_id)).effects == [effect]


async def test_a_resolution_that_landed_unseen_is_answered_as_the_first(failing, executing):
    run_id, epoch = await executing.leased_run()
    await executing.claim_effect(run_id, epoch)
    for to in (OUTBOUND, IN_DOUBT):
        await executing.advance(run_id, epoch, to)
    failing.effects.fail_after("resolve")
    effect = await executing.resolve(run_id, outcome=b"1")
    assert (effect.state, effect.outcome, effect.resolved_by) == (COMPLETED, b"1", "ada")
