"""G10: a run has one executor at a time. Whoever lost its lease changes nothing any more, neither the log nor an effect, however late it
learns; and what may have left under a lost lease is never sent again by itself."""

import asyncio

import pytest

from api.executing import (
    CLAIMED,
    COMPLETED,
    FAILED,
    IN_DOUBT,
    OUTBOUND,
    Executing,
    digest,
    end_lease,
    new_workflow,
    taken_over,
)
from api.wire import event, events, refused, request_id
from faults.holding import run_held
from isoline.v1 import common_pb2 as pb
from support.waiting import eventually

LOST = ("FAILED_PRECONDITION", "LEASE_LOST")


@pytest.fixture
def eu(pair):
    return Executing(pair["eu"])


@pytest.fixture
def us(pair):
    return Executing(pair["us"])


@pytest.fixture
def one(two):
    """A server through one dialect, for what looks into PostgreSQL's locks."""
    return Executing(two["eu"])


@pytest.fixture
def one_url(two):
    return two.servers["eu"]._settings.leader_url


def told(refusal):
    return (refusal.code.name, refusal.reason)


# -- claims --------------------------------------------------------------------------------------------------------------------------


async def test_g10_of_two_claimers_one_gets_the_run(eu, us):
    for _ in range(10):
        workflow_id = new_workflow()
        run_id = await eu.waiting_run(workflow_id)
        answers = await asyncio.gather(*(each.claim(workflow_id, region="eu") for each in (eu, us, eu, us)))
        assert [lease.run_id for answer in answers for lease in answer.leases] == [run_id]


async def test_g10_claimers_split_many_runs_without_overlap(eu, us):
    workflow_id = new_workflow()
    runs = [await eu.waiting_run(workflow_id) for _ in range(30)]
    claimed = []
    while len(claimed) < len(runs):
        answers = await asyncio.gather(*(each.claim(workflow_id, region="eu", max_runs=4) for each in (eu, us) * 3))
        claimed += [lease for answer in answers for lease in answer.leases]
    assert sorted(lease.run_id for lease in claimed) == sorted(runs)
    assert {lease.epoch for lease in claimed} == {1}


async def test_g10_runs_are_claimed_in_the_order_in_which_they_began_to_wait(eu):
    workflow_id = new_workflow()
    runs = [await eu.waiting_run(workflow_id) for _ in range(4)]
    await eu.wire.append(runs[0], event())
    assert [lease.run_id for lease in (await eu.claim(workflow_id, max_runs=3)).leases] == runs[:3]


async def test_g10_only_executed_runs_of_the_named_workflows_and_region_are_claimed(eu, us):
    workflow_id, other = new_workflow(), new_workflow()
    await eu.wire.append(await eu.wire.new_run(workflow_id=workflow_id), event())
    await eu.waiting_run(other)
    await eu.wire.new_run(workflow_id=workflow_id, executed=True)
    answer = await eu.claim(workflow_id)
    assert (list(answer.leases), answer.HasField("next_wake_at_us")) == ([], False)


async def test_g10_a_live_lease_is_not_taken_and_an_ended_one_is_with_the_next_epoch(eu, us, service_url):
    run_id, epoch = await eu.leased_run()
    workflow_id = (await eu.wire.get(run_id)).run.workflow_id
    answer = await us.claim(workflow_id, region="eu")
    assert not answer.leases
    assert answer.HasField("next_wake_at_us")
    await end_lease(service_url, run_id)
    (lease,) = (await us.claim(workflow_id, region="eu")).leases
    assert (lease.run_id, lease.epoch) == (run_id, epoch + 1)


async def test_g10_a_renewal_tells_which_leases_are_lost(eu, service_url):
    (kept, kept_epoch), (lost, lost_epoch), (given, given_epoch) = [await eu.leased_run() for _ in range(3)]
    await taken_over(eu, service_url, lost, lost_epoch)
    await eu.release(given, given_epoch)
    answer = await eu.renew((kept, kept_epoch), (lost, lost_epoch), (given, given_epoch), lease_ttl_ms=600_000)
    assert [(lease.run_id, lease.epoch) for lease in answer.renewed] == [(kept, kept_epoch)]
    assert sorted(answer.lost_run_ids) == sorted([lost, given])


async def test_g10_a_lease_that_ended_and_that_nobody_took_is_renewed(eu, service_url):
    run_id, epoch = await eu.leased_run()
    await end_lease(service_url, run_id)
    assert [lease.run_id for lease in (await eu.renew((run_id, epoch))).renewed] == [run_id]
    assert not (await eu.claim((await eu.wire.get(run_id)).run.workflow_id)).leases


async def test_g10_a_renewal_waits_for_an_append_rather_than_call_the_lease_lost(one, one_url):
    run_id, epoch = await one.leased_run()
    async with run_held(one_url, run_id) as held:
        appending = asyncio.ensure_future(one.wire.append(run_id, event(), lease_epoch=epoch))
        await held.blocked(1)
        renewing = asyncio.ensure_future(one.renew((run_id, epoch)))
        done, _ = await asyncio.wait([renewing], timeout=0.2)
        assert not done
    assert [lease.run_id for lease in (await renewing).renewed] == [run_id]
    assert (await appending).first_seq == 1


# -- appends -------------------------------------------------------------------------------------------------------------------------


async def test_g10_the_holder_appends_and_does_not_wake_the_run(eu):
    run_id, epoch = await eu.leased_run()
    assert (await eu.wire.append(run_id, event(), lease_epoch=epoch, expected_seq=1)).first_seq == 1
    assert await eu.release(run_id, epoch, seen_head_seq=1)
    answer = await eu.claim((await eu.wire.get(run_id)).run.workflow_id)
    assert (list(answer.leases), answer.HasField("next_wake_at_us")) == ([], False)


async def test_g10_the_paused_holders_next_append_is_refused_though_its_head_is_right(eu, us, service_url):
    """Its own server remembers the head and the old epoch; nothing was appended since."""
    run_id, epoch = await eu.leased_run()
    await eu.wire.append(run_id, event(), lease_epoch=epoch)
    later = await taken_over(eu, service_url, run_id, epoch)
    before = await eu.wire.head(run_id)
    refusal = await refused(eu.wire.append(run_id, event(), lease_epoch=epoch, expected_seq=2))
    assert (told(refusal), refusal.metadata["lease_epoch"]) == (LOST, str(epoch))
    assert told(await refused(us.wire.append(run_id, *events(3), lease_epoch=epoch))) == LOST
    assert await eu.wire.head(run_id) == before
    assert (await us.wire.append(run_id, event(), lease_epoch=later, expected_seq=2)).first_seq == 2


@pytest.mark.parametrize("epoch", [2, 7])
async def test_g10_an_append_under_an_epoch_that_was_never_given_is_refused(eu, epoch):
    run_id, _ = await eu.leased_run()
    assert told(await refused(eu.wire.append(run_id, event(), lease_epoch=epoch))) == LOST


async def test_g10_the_paused_holder_is_refused_in_a_statement_with_others(one, one_url, two):
    """Also with appends of the same run that are in order: those are done."""
    (stale, old), (mine, epoch) = [await one.leased_run() for _ in range(2)]
    free = await one.wire.new_run(1)
    for run_id, its in ((stale, old), (mine, epoch)):
        await one.wire.append(run_id, event(), lease_epoch=its)
    later = await taken_over(one, one_url, stale, old)
    async with run_held(one_url, free) as held:
        first = asyncio.ensure_future(one.wire.append(free, event()))
        await held.blocked(1)
        async with asyncio.TaskGroup() as group:
            late = group.create_task(refused(one.wire.append(stale, event({"who": "old"}), lease_epoch=old)))
            others = [
                group.create_task(one.wire.append(mine, event(), lease_epoch=epoch)),
                group.create_task(one.wire.append(free, event())),
                group.create_task(one.wire.append(stale, *events(2, who="outside"))),
                group.create_task(one.wire.append(stale, event({"who": "new"}), lease_epoch=later)),
            ]
            lane = two.servers["eu"]._lanes.of(free)
            await eventually(lambda: waiting(lane, 5), what="the appends of one statement")
            await held.holder.commit()
    assert told(late.result()) == LOST
    assert (await first).first_seq == 1
    assert [each.result().first_seq for each in others[:2]] == [2, 2]
    assert {payload["who"] for payload in (await one.wire.read(stale, 2)).payloads} == {"outside", "new"}
    assert (await one.wire.head(stale)).seq == 4


async def waiting(lane, many):
    return len(lane._waiting) == many


async def test_g10_a_claim_between_the_decision_and_the_write_is_seen_by_the_write(one, one_url):
    """Appends were decided under the epoch of that moment, and wait for the run's row while the run is claimed anew: each statement there is."""
    for shape in (lambda: [event()], lambda: events(2)):
        run_id, epoch = await one.leased_run()
        await one.wire.append(run_id, event(), lease_epoch=epoch)
        async with run_held(one_url, run_id) as held:
            late = asyncio.ensure_future(refused(one.wire.append(run_id, *shape(), lease_epoch=epoch)))
            await held.blocked(1)
            await held.holder.execute("UPDATE runs SET lease_epoch = lease_epoch + 1 WHERE run_id = %s", [run_id])
        assert told(await late) == LOST
        assert (await one.wire.head(run_id)).seq == 1


async def test_g10_a_successor_that_repeats_an_append_gets_the_first_answer(eu, us, service_url):
    run_id, epoch = await eu.leased_run()
    one = request_id()
    first = await eu.wire.append(run_id, event(), lease_epoch=epoch, request_id=one, expected_seq=1)
    later = await taken_over(eu, service_url, run_id, epoch)
    for each in (eu, us):
        again = await each.wire.append(run_id, event(), lease_epoch=later, request_id=one, expected_seq=1)
        assert (again.first_seq, again.last, again.repeated) == (1, first.last, True)
    assert (await us.wire.append(run_id, event(), lease_epoch=epoch, request_id=one, expected_seq=1)).repeated


# -- waking --------------------------------------------------------------------------------------------------------------------------


async def test_g10_a_release_with_an_unseen_append_wakes_at_once(eu, us):
    run_id, epoch = await eu.leased_run()
    workflow_id = (await eu.wire.get(run_id)).run.workflow_id
    await us.wire.append(run_id, event({"what": "an answer"}, "interrupt.resolved"))
    assert await eu.release(run_id, epoch, seen_head_seq=0, wake_in_ms=3_600_000)
    assert [lease.epoch for lease in (await eu.claim(workflow_id)).leases] == [epoch + 1]


async def test_g10_a_parked_run_waits_for_its_time_or_for_an_append_from_outside(eu):
    run_id, epoch = await eu.leased_run()
    workflow_id = (await eu.wire.get(run_id)).run.workflow_id
    assert await eu.release(run_id, epoch, wake_in_ms=3_600_000)
    parked = await eu.claim(workflow_id)
    assert (list(parked.leases), parked.HasField("next_wake_at_us")) == ([], True)
    await eu.wire.append(run_id, event())
    assert [lease.run_id for lease in (await eu.claim(workflow_id)).leases] == [run_id]


async def test_g10_a_run_parked_for_no_time_is_claimed_at_once(eu):
    run_id, epoch = await eu.leased_run()
    await eu.release(run_id, epoch, wake_in_ms=0)
    assert (await eu.claim((await eu.wire.get(run_id)).run.workflow_id)).leases[0].epoch == epoch + 1


async def test_g10_a_run_that_ended_wants_no_executor(eu):
    run_id, epoch = await eu.leased_run()
    await eu.wire.append(run_id, event({"outputs": {}}, "run.completed"), lease_epoch=epoch)
    assert await eu.release(run_id, epoch, wake_in_ms=0)
    assert not (await eu.claim((await eu.wire.get(run_id)).run.workflow_id)).leases


async def test_g10_a_lost_lease_is_not_given_back(eu, service_url):
    run_id, epoch = await eu.leased_run()
    later = await taken_over(eu, service_url, run_id, epoch)
    assert not await eu.release(run_id, epoch)
    assert [lease.epoch for lease in (await eu.renew((run_id, later))).renewed] == [later]


async def test_g10_an_executed_fork_wants_an_executor_at_once_and_others_do_not(eu):
    source = await eu.waiting_run(new_workflow())
    workflow_id = (await eu.wire.get(source)).run.workflow_id
    await eu.claim(workflow_id)
    fork = (await eu.wire.fork(source, 0, pb.FORK_MODE_BRANCH)).run
    quiet = (await eu.wire.fork(source, 0, pb.FORK_MODE_BRANCH, executed=False)).run
    assert (fork.executed, quiet.executed) == (True, False)
    assert [lease.run_id for lease in (await eu.claim(workflow_id, max_runs=9)).leases] == [fork.run_id]


async def test_g10_the_executed_runs_request_id_is_for_an_executed_run(eu):
    one = {"request_id": request_id(), "workflow_id": "flow"}
    run_id = (await eu.wire.create(**one, executed=True)).run.run_id
    again = await eu.wire.create(**one, executed=True)
    assert (again.run.run_id, again.run.executed, again.repeated) == (run_id, True, True)
    assert (await refused(eu.wire.create(**one))).reason == "IDEMPOTENCY_KEY_MISMATCH"


# -- effects -------------------------------------------------------------------------------------------------------------------------


async def test_g10_an_effect_goes_from_its_claim_to_its_outcome(eu, us):
    run_id, epoch = await eu.leased_run()
    claimed = await eu.claim_effect(run_id, epoch, draws=b'[{"n":1}]', ordinal=3)
    assert (claimed.granted, claimed.effect.state, claimed.effect.attempt, claimed.effect.ordinal) == (
        True,
        CLAIMED,
        1,
        3,
    )
    assert (await us.advance(run_id, epoch, OUTBOUND)).state == OUTBOUND
    done = await eu.advance(run_id, epoch, COMPLETED, outcome=b'{"status":200}', cost=b'{"amount":"1"}')
    again = await us.claim_effect(run_id, epoch)
    assert (again.granted, again.effect) == (False, done)
    assert (done.outcome, done.cost, done.draws) == (b'{"status":200}', b'{"amount":"1"}', b'[{"n":1}]')
    assert done.claimed_at_us <= done.outbound_at_us <= done.ended_at_us


async def test_g10_the_old_holder_neither_claims_nor_sends_nor_ends_an_effect(eu, us, service_url):
    run_id, epoch = await eu.leased_run()
    for effect_id in ("claimed", "outbound"):
        await eu.claim_effect(run_id, epoch, effect_id)
    await eu.advance(run_id, epoch, OUTBOUND, "outbound")
    later = await taken_over(eu, service_url, run_id, epoch)
    before = (await eu.effects(run_id)).effects
    for attempt in (
        eu.claim_effect(run_id, epoch, "new"),
        eu.claim_effect(run_id, epoch, "claimed"),
        eu.advance(run_id, epoch, OUTBOUND, "claimed"),
        eu.advance(run_id, epoch, FAILED, "claimed"),
        us.advance(run_id, epoch, COMPLETED, "outbound", outcome=b"{}"),
        us.advance(run_id, epoch, IN_DOUBT, "outbound"),
        eu.put(run_id, epoch),
    ):
        assert told(await refused(attempt)) == LOST
    assert (await eu.effects(run_id)).effects == before
    again = await us.claim_effect(run_id, later, "claimed")
    assert (again.granted, again.effect.attempt, again.effect.lease_epoch) == (True, 1, later)


async def test_g10_nothing_leaves_under_a_lease_that_has_ended_though_nobody_took_it(eu, service_url):
    run_id, epoch = await eu.leased_run()
    await eu.claim_effect(run_id, epoch)
    await end_lease(service_url, run_id)
    assert told(await refused(eu.advance(run_id, epoch, OUTBOUND))) == LOST
    await eu.renew((run_id, epoch))
    assert (await eu.advance(run_id, epoch, OUTBOUND)).state == OUTBOUND
    await end_lease(service_url, run_id)
    assert (await eu.advance(run_id, epoch, COMPLETED, outcome=b"{}")).state == COMPLETED


async def test_g10_what_left_under_a_lost_lease_is_in_doubt_for_every_claimer(eu, us, service_url):
    run_id, epoch = await eu.leased_run()
    await eu.claim_effect(run_id, epoch)
    await eu.advance(run_id, epoch, OUTBOUND)
    assert not (await eu.claim_effect(run_id, epoch)).granted
    later = await taken_over(eu, service_url, run_id, epoch)
    answers = await asyncio.gather(*(each.claim_effect(run_id, later) for each in (eu, us) * 5))
    assert [answer.granted for answer in answers] == [False] * 10
    assert {answer.effect.SerializeToString(deterministic=True) for answer in answers} == {
        answers[0].effect.SerializeToString(deterministic=True)
    }
    assert (answers[0].effect.state, answers[0].effect.lease_epoch) == (IN_DOUBT, epoch)
    for to in (OUTBOUND, COMPLETED, FAILED):
        refusal = await refused(eu.advance(run_id, later, to, outcome=b"{}"))
        assert told(refusal) == ("FAILED_PRECONDITION", "EFFECT_TRANSITION_REFUSED")


async def test_g10_of_claimers_and_the_one_who_sends_only_one_wins(eu, us, service_url):
    """Takeover, claim and send at the same time: when it was sent the successor is not granted it, and when it was not, the old holder is
    refused."""
    for _ in range(8):
        run_id, epoch = await eu.leased_run()
        await eu.claim_effect(run_id, epoch)
        sending = asyncio.ensure_future(us.advance(run_id, epoch, OUTBOUND))
        later = await taken_over(eu, service_url, run_id, epoch)
        claimed = await eu.claim_effect(run_id, later)
        (sent,) = await asyncio.gather(sending, return_exceptions=True)
        assert claimed.granted == isinstance(sent, Exception)
        assert claimed.effect.state == (CLAIMED if claimed.granted else IN_DOUBT)


async def test_g10_a_claim_that_is_under_way_comes_first_for_every_statement_about_an_effect(one, one_url):
    run_id, epoch = await one.leased_run()
    for effect_id in ("claimed", "outbound"):
        await one.claim_effect(run_id, epoch, effect_id)
    await one.advance(run_id, epoch, OUTBOUND, "outbound")
    async with run_held(one_url, run_id) as held:
        await held.holder.execute("UPDATE runs SET lease_epoch = lease_epoch + 1 WHERE run_id = %s", [run_id])
        late = [
            asyncio.ensure_future(refused(each))
            for each in (
                one.claim_effect(run_id, epoch, "new"),
                one.advance(run_id, epoch, OUTBOUND, "claimed"),
                one.advance(run_id, epoch, COMPLETED, "outbound"),
                one.put(run_id, epoch),
            )
        ]
        await held.blocked(len(late))
    assert [told(each) for each in await asyncio.gather(*late)] == [LOST] * len(late)
    assert {effect.effect_id: effect.state for effect in (await one.effects(run_id)).effects} == {
        "claimed": CLAIMED,
        "outbound": OUTBOUND,
    }


async def test_g10_a_failed_effect_is_tried_again_as_the_next_attempt(eu):
    run_id, epoch = await eu.leased_run()
    await eu.claim_effect(run_id, epoch, draws=b"[1]")
    await eu.advance(run_id, epoch, OUTBOUND)
    await eu.advance(run_id, epoch, FAILED, outcome=b'{"status":503}', cost=b"{}")
    again = await eu.claim_effect(run_id, epoch, draws=b"[2]")
    assert (again.granted, again.effect.attempt, again.effect.state) == (True, 2, CLAIMED)
    assert (again.effect.draws, again.effect.outcome, again.effect.HasField("outbound_at_us")) == (b"[1]", b"", False)
    assert (await refused(eu.advance(run_id, epoch, OUTBOUND, attempt=1))).reason == "EFFECT_TRANSITION_REFUSED"
    assert (await eu.advance(run_id, epoch, OUTBOUND, attempt=2)).state == OUTBOUND


async def test_g10_a_repeat_gets_the_same_answer_and_another_outcome_is_refused(eu, us):
    run_id, epoch = await eu.leased_run()
    assert (await eu.claim_effect(run_id, epoch)) == (await us.claim_effect(run_id, epoch))
    assert (await eu.advance(run_id, epoch, OUTBOUND)) == (await us.advance(run_id, epoch, OUTBOUND))
    first = await eu.advance(run_id, epoch, COMPLETED, outcome=b"1")
    assert (await us.advance(run_id, epoch, COMPLETED, outcome=b"1")) == first
    for to, outcome in ((COMPLETED, b"2"), (FAILED, b"1"), (IN_DOUBT, b"1"), (OUTBOUND, b"")):
        refusal = await refused(us.advance(run_id, epoch, to, outcome=outcome))
        assert (refusal.reason, refusal.metadata["state"]) == ("EFFECT_TRANSITION_REFUSED", "completed")


async def test_g10_an_effect_is_not_completed_before_it_left(eu):
    run_id, epoch = await eu.leased_run()
    await eu.claim_effect(run_id, epoch)
    for to in (COMPLETED, IN_DOUBT):
        assert (await refused(eu.advance(run_id, epoch, to))).reason == "EFFECT_TRANSITION_REFUSED"
    assert (await eu.advance(run_id, epoch, FAILED)).state == FAILED


async def test_g10_an_effects_id_stands_for_one_request(eu):
    run_id, epoch = await eu.leased_run()
    await eu.claim_effect(run_id, epoch)
    refusal = await refused(eu.claim_effect(run_id, epoch, request_digest=digest("another")))
    assert told(refusal) == ("ALREADY_EXISTS", "EFFECT_IDENTITY_REUSED")
    assert (await refused(eu.advance(run_id, epoch, OUTBOUND, "nothing"))).reason == "EFFECT_NOT_FOUND"
    assert (await refused(eu.resolve(run_id, effect_id="nothing"))).reason == "EFFECT_NOT_FOUND"


@pytest.mark.parametrize("to", [COMPLETED, FAILED])
async def test_g10_a_persons_word_ends_the_doubt_and_wakes_the_run(eu, us, to):
    run_id, epoch = await doubtful(eu)
    workflow_id = (await eu.wire.get(run_id)).run.workflow_id
    assert await eu.release(run_id, epoch)
    assert not (await eu.claim(workflow_id)).leases
    assert (await refused(us.resolve(run_id, to, effect_id="new"))).reason == "EFFECT_NOT_FOUND"
    resolved = await us.resolve(run_id, to, outcome=b'{"seen":true}')
    assert (resolved.state, resolved.outcome, resolved.resolved_by) == (to, b'{"seen":true}', "ada")
    assert (await eu.resolve(run_id, to, outcome=b'{"seen":true}')) == resolved
    assert (await refused(eu.resolve(run_id, to, outcome=b"{}"))).reason == "EFFECT_TRANSITION_REFUSED"
    (lease,) = (await eu.claim(workflow_id)).leases
    claimed = await eu.claim_effect(run_id, lease.epoch)
    assert (claimed.granted, claimed.effect.attempt) == ((False, 1) if to == COMPLETED else (True, 2))


async def test_g10_a_persons_word_while_the_run_is_held_is_not_lost_at_its_release(eu, us):
    run_id, epoch = await doubtful(eu)
    await us.resolve(run_id)
    assert await eu.release(run_id, epoch, seen_head_seq=0, wake_in_ms=3_600_000)
    assert (await eu.claim((await eu.wire.get(run_id)).run.workflow_id)).leases


async def doubtful(eu):
    run_id, epoch = await eu.leased_run()
    await eu.claim_effect(run_id, epoch)
    await eu.advance(run_id, epoch, OUTBOUND)
    await eu.advance(run_id, epoch, IN_DOUBT)
    return run_id, epoch


# -- invocations ---------------------------------------------------------------------------------------------------------------------


async def test_g10_the_first_record_of_an_invocation_counts_and_a_fork_finds_it(eu, us):
    run_id, epoch = await eu.leased_run()
    first = await eu.put(run_id, epoch)
    again = await us.put(run_id, epoch, response=b'"no"')
    assert (first.repeated, again.repeated, again.invocation) == (False, True, first.invocation)
    fork = (await us.wire.fork(run_id, 0)).run.run_id
    assert not (await us.get(fork)).HasField("invocation")
    assert (await us.get(fork, follow_sources=True)).invocation == first.invocation
    assert not (await us.get(fork, follow_sources=True, repetition=1)).HasField("invocation")
