"""The execution client against a real server: what goes out arrives, what comes back is typed, and a start is done once."""

import asyncio
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest

from isoline.v1 import execution_service_pb2 as pb
from isoline_client import (
    Client,
    EffectIdentityReused,
    EffectNotFound,
    EffectTransitionRefused,
    Invocation,
    LeaseLost,
    NewEvent,
    RequestIdReused,
    execution,
    wire,
)

DIGEST = sha256(b"request").digest()
EFFECT = {
    "node_id": "pay",
    "visit": 2,
    "ordinal": 3,
    "seam": "http.request",
    "provider_key": "POST shop.example:443",
    "request_digest": DIGEST,
    "draws": b'[{"value":1}]',
}


@pytest.fixture
async def client(server):
    async with Client([server.address], timeout_s=20) as made:
        yield made


async def leased(client, workflow_id="shop"):
    await client.start_run(workflow_id, {"cart": 3})
    (lease,) = (await client.execution().claim([workflow_id], owner="me", lease_ttl_ms=60_000)).leases
    return lease


def test_the_table_of_calls_is_the_contracts():
    service = pb.DESCRIPTOR.services_by_name["ExecutionService"]
    ours = {each.path: each for each in vars(execution).values() if isinstance(each, wire.Method)}
    assert ours.keys() == {f"{service.full_name}/{method.name}" for method in service.methods}
    for method in service.methods:
        assert ours[f"{service.full_name}/{method.name}"].parse(b"").DESCRIPTOR is method.output_type


async def test_a_start_makes_an_executed_run_with_its_first_event(client):
    run = await client.start_run("shop", {"cart": 3}, tags=["a"], version="1.2")
    assert (run.made.executed, run.made.tags) == (True, ("a",))
    (event,) = [event async for event in run.read()]
    assert event.type == "run.started"
    assert event.payload == {
        "workflowId": "shop",
        "inputs": {"cart": 3},
        "transport": "rest",
        "x-isoline-version": "1.2",
    }


async def test_a_start_that_is_repeated_is_done_once(client):
    one = "a-start-that-is-repeated"
    runs = await asyncio.gather(*(client.start_run("shop", {"cart": 3}, request_id=one) for _ in range(4)))
    assert len({run.run_id for run in runs}) == 1
    assert [event.seq async for event in runs[0].read()] == [0]
    with pytest.raises(RequestIdReused):
        await client.start_run("shop", {"cart": 4}, request_id=one)


async def test_a_start_that_was_cut_off_after_the_run_was_made_is_finished_by_its_repeat(client):
    one = "a-start-that-is-cut-off-once"
    made = await client.create_run("shop", executed=True, request_id=one)
    assert (await client.start_run("shop", {}, request_id=one)).run_id == made.run_id
    assert (await made.info()).head.seq == 0


async def test_a_lease_goes_from_claim_to_release(client):
    ours = client.execution()
    run = await client.start_run("shop", {})
    claim = await ours.claim(["shop"], owner="me", lease_ttl_ms=60_000, max_runs=5)
    (lease,) = claim.leases
    assert (lease.run_id, lease.workflow_id, lease.epoch, lease.ttl_ms) == (run.run_id, "shop", 1, 60_000)
    assert claim.next_wake_at is None
    assert timedelta(0) < lease.expires_at - datetime.now(UTC) < timedelta(seconds=120)
    renewed, lost = await ours.renew([(lease.run_id, 1), (lease.run_id.replace("-", "-a")[:-1], 9)], lease_ttl_ms=9_000)
    assert ([each.ttl_ms for each in renewed], len(lost)) == ([9_000], 1)
    assert await ours.release(lease.run_id, 1, seen_head_seq=0, wake_in_ms=600_000)
    parked = await ours.claim(["shop"], owner="me", lease_ttl_ms=60_000)
    assert (parked.leases, parked.next_wake_at > datetime.now(UTC)) == ((), True)
    assert not await ours.release(lease.run_id, 7, seen_head_seq=0)


async def test_an_append_carries_its_epoch(client):
    lease = await leased(client)
    run = client.run(lease.run_id)
    assert (await run.append(NewEvent("example.noted", {}), lease_epoch=lease.epoch)).first_seq == 1
    with pytest.raises(LeaseLost) as lost:
        await run.append(NewEvent("example.noted", {}), lease_epoch=lease.epoch + 1)
    assert (lost.value.run_id, lost.value.lease_epoch) == (lease.run_id, 2)


async def test_an_effect_travels_whole(client):
    ours, lease = client.execution(), await leased(client)
    under = {"lease_epoch": lease.epoch}
    claimed = await ours.claim_effect(lease.run_id, "e", **under, **EFFECT)
    assert (claimed.granted, claimed.effect.state, claimed.effect.attempt) == (True, "claimed", 1)
    assert {name: getattr(claimed.effect, name) for name in EFFECT} == EFFECT
    assert (claimed.effect.outbound_at, claimed.effect.ended_at) == (None, None)
    outbound = await ours.advance_effect(lease.run_id, "e", **under, attempt=1, to="outbound")
    assert outbound.outbound_at >= claimed.effect.claimed_at
    doubtful = await ours.advance_effect(lease.run_id, "e", **under, attempt=1, to="in_doubt", cost=b'{"amount":"1"}')
    assert [each async for each in ours.list_effects(lease.run_id, states=["in_doubt"])] == [doubtful]
    resolved = await ours.resolve_effect(lease.run_id, "e", to="completed", outcome=b'{"a":1}', resolved_by="ada")
    assert (resolved.state, resolved.outcome, resolved.cost, resolved.resolved_by) == (
        "completed",
        b'{"a":1}',
        b'{"amount":"1"}',
        "ada",
    )
    again = await ours.claim_effect(lease.run_id, "e", **under, **EFFECT)
    assert (again.granted, again.effect) == (False, resolved)


async def test_refusals_of_effects_are_classes(client):
    ours, lease = client.execution(), await leased(client)
    under = {"lease_epoch": lease.epoch}
    await ours.claim_effect(lease.run_id, "e", **under, **EFFECT)
    with pytest.raises(EffectIdentityReused):
        await ours.claim_effect(lease.run_id, "e", **under, **{**EFFECT, "request_digest": sha256(b"x").digest()})
    with pytest.raises(EffectNotFound):
        await ours.resolve_effect(lease.run_id, "other", to="failed", resolved_by="ada")
    with pytest.raises(EffectTransitionRefused) as refusal:
        await ours.advance_effect(lease.run_id, "e", **under, attempt=1, to="completed")
    assert (refusal.value.state, refusal.value.attempt, refusal.value.to) == ("claimed", 1, "completed")
    with pytest.raises(LeaseLost):
        await ours.claim_effect(lease.run_id, "f", lease_epoch=9, **EFFECT)


async def test_effects_are_listed_over_pages(client):
    ours, lease = client.execution(), await leased(client)
    for n in range(5):
        await ours.claim_effect(lease.run_id, f"e{n}", lease_epoch=lease.epoch, **EFFECT)
    assert [each.effect_id async for each in ours.list_effects(lease.run_id, page_size=2)] == [
        "e0",
        "e1",
        "e2",
        "e3",
        "e4",
    ]
    assert [each.effect_id async for each in ours.list_effects(states=["claimed"], page_size=3)] == [
        f"e{n}" for n in range(5)
    ]


async def test_an_invocation_is_kept_and_found_from_a_fork(client):
    ours, lease = client.execution(), await leased(client)
    asked = Invocation(
        run_id=lease.run_id,
        node_id="ask",
        execution=1,
        key=sha256(b"prompt").hexdigest(),
        repetition=0,
        kind="refusal",
        response=b'{"text":"no"}',
        cost=b'{"amount":"2"}',
    )
    put = await ours.put_invocation(asked, lease_epoch=lease.epoch)
    assert (put.invocation, put.repeated) == (asked, False)
    fork = await client.run(lease.run_id).fork(0, executed=False)
    assert fork.made.executed is False
    place = {"execution": 1, "key": asked.key}
    assert await ours.get_invocation(fork.run_id, "ask", **place) is None
    assert await ours.get_invocation(fork.run_id, "ask", **place, follow_sources=True) == asked
