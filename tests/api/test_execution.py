"""The execution service at the door: shapes, bounds, lists in pages, and what a server says of it. What it guarantees: tests/guarantees."""

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from api.executing import COMPLETED, FAILED, IN_DOUBT, KEY, OUTBOUND, Executing, digest, new_workflow
from api.wire import UNKNOWN_RUN, refused
from isoline.v1 import execution_service_pb2 as pb
from isoline.v1.host_service_pb2 import GetCapabilitiesRequest
from isoline_server.domain import limits

SERVICE = "isoline.v1.ExecutionService"
MIB = 1024 * 1024


@pytest.fixture
def executing(wire):
    return Executing(wire)


BAD = {
    "no workflow": ("workflow_ids", lambda executing: executing.claim()),
    "a workflow that is no name": ("workflow_ids[1]", lambda executing: executing.claim("flow", "a/b")),
    "no owner": ("owner", lambda executing: executing.claim("flow", owner="")),
    "an owner with a zero": ("owner", lambda executing: executing.claim("flow", owner="a\0b")),
    "an owner that is too long": ("owner", lambda executing: executing.claim("flow", owner="x" * 129)),
    "no runs": ("max_runs", lambda executing: executing.claim("flow", max_runs=0)),
    "too many runs": ("max_runs", lambda executing: executing.claim("flow", max_runs=101)),
    "a lease too short": ("lease_ttl_ms", lambda executing: executing.claim("flow", lease_ttl_ms=999)),
    "a lease too long": ("lease_ttl_ms", lambda executing: executing.claim("flow", lease_ttl_ms=600_001)),
    "a region that is none": ("region", lambda executing: executing.claim("flow", region="mars")),
    "a renewal too short": ("lease_ttl_ms", lambda executing: executing.renew((UNKNOWN_RUN, 1), lease_ttl_ms=0)),
    "a renewal of no epoch": ("leases[0].epoch", lambda executing: executing.renew((UNKNOWN_RUN, 0))),
    "a run renewed twice": ("leases", lambda executing: executing.renew((UNKNOWN_RUN, 1), (UNKNOWN_RUN, 2))),
    "a release of no epoch": ("epoch", lambda executing: executing.release(UNKNOWN_RUN, 0)),
    "a release that saw nothing": ("seen_head_seq", lambda executing: executing.release(UNKNOWN_RUN, 1, -2)),
    "a release into the past": ("wake_in_ms", lambda executing: executing.release(UNKNOWN_RUN, 1, wake_in_ms=-1)),
    "a release for ever": (
        "wake_in_ms",
        lambda executing: executing.release(UNKNOWN_RUN, 1, wake_in_ms=limits.WAKE_IN_MS_MAX + 1),
    ),
    "an effect under no epoch": ("lease_epoch", lambda executing: executing.claim_effect(UNKNOWN_RUN, 0)),
    "an effect without an id": ("effect_id", lambda executing: executing.claim_effect(UNKNOWN_RUN, 1, "")),
    "an effect id with a dot": ("effect_id", lambda executing: executing.claim_effect(UNKNOWN_RUN, 1, "a.b")),
    "an effect of no node": ("node_id", lambda executing: executing.claim_effect(UNKNOWN_RUN, 1, node_id="")),
    "an effect of visit 0": ("visit", lambda executing: executing.claim_effect(UNKNOWN_RUN, 1, visit=0)),
    "an effect before the first": ("ordinal", lambda executing: executing.claim_effect(UNKNOWN_RUN, 1, ordinal=-1)),
    "an effect by no seam": ("seam", lambda executing: executing.claim_effect(UNKNOWN_RUN, 1, seam="")),
    "an effect to nobody": ("provider_key", lambda executing: executing.claim_effect(UNKNOWN_RUN, 1, provider_key="")),
    "a digest too short": (
        "request_digest",
        lambda executing: executing.claim_effect(UNKNOWN_RUN, 1, request_digest=b"1"),
    ),
    "draws that are no JSON": ("draws", lambda executing: executing.claim_effect(UNKNOWN_RUN, 1, draws=b"[")),
    "draws that are too large": (
        "draws",
        lambda executing: executing.claim_effect(UNKNOWN_RUN, 1, draws=b'"' + b"x" * MIB + b'"'),
    ),
    "an advance to nothing": ("to", lambda executing: executing.advance(UNKNOWN_RUN, 1, 0)),
    "an advance to claimed": ("to", lambda executing: executing.advance(UNKNOWN_RUN, 1, 1)),
    "an advance to what there is not": ("to", lambda executing: executing.advance(UNKNOWN_RUN, 1, 9)),
    "an advance of no attempt": ("attempt", lambda executing: executing.advance(UNKNOWN_RUN, 1, OUTBOUND, attempt=0)),
    "an outcome that is too large": (
        "outcome",
        lambda executing: executing.advance(UNKNOWN_RUN, 1, COMPLETED, outcome=b'"' + b"x" * MIB + b'"'),
    ),
    "an outcome that is not UTF-8": (
        "outcome",
        lambda executing: executing.advance(UNKNOWN_RUN, 1, COMPLETED, outcome=b'"\xff"'),
    ),
    "a cost that is too large": (
        "cost",
        lambda executing: executing.advance(UNKNOWN_RUN, 1, COMPLETED, cost=b" " * 5_000),
    ),
    "a resolution to outbound": ("to", lambda executing: executing.resolve(UNKNOWN_RUN, OUTBOUND)),
    "a resolution to doubt": ("to", lambda executing: executing.resolve(UNKNOWN_RUN, IN_DOUBT)),
    "a resolution by nobody": ("resolved_by", lambda executing: executing.resolve(UNKNOWN_RUN, FAILED, resolved_by="")),
    "a list of everything": ("states", lambda executing: executing.effects()),
    "a list by no state": ("states[1]", lambda executing: executing.effects(states=[1, 0])),
    "a list of less than nothing": ("page_size", lambda executing: executing.effects(UNKNOWN_RUN, page_size=-1)),
    "a list that goes on nowhere": (
        "page_token",
        lambda executing: executing.effects(UNKNOWN_RUN, page_token="nowhere"),
    ),
    "an invocation of no kind": ("invocation.kind", lambda executing: executing.put(UNKNOWN_RUN, 1, kind=0)),
    "an invocation with another key": (
        "invocation.key",
        lambda executing: executing.put(UNKNOWN_RUN, 1, key=KEY.upper()),
    ),
    "an invocation before the first": (
        "invocation.execution",
        lambda executing: executing.put(UNKNOWN_RUN, 1, execution=0),
    ),
    "an invocation under no epoch": ("lease_epoch", lambda executing: executing.put(UNKNOWN_RUN, 0)),
    "a look-up with another key": ("key", lambda executing: executing.get(UNKNOWN_RUN, key="")),
    "a look-up before the first": ("repetition", lambda executing: executing.get(UNKNOWN_RUN, repetition=-1)),
    "a run id that is none": ("run_id", lambda executing: executing.claim_effect("run", 1)),
}


@pytest.mark.parametrize("bad", BAD)
async def test_a_value_that_breaks_its_rule_is_refused_by_its_field(executing, bad):
    field, ask = BAD[bad]
    told = await refused(ask(executing))
    assert (told.code.name, told.field) == ("INVALID_ARGUMENT", field)


@pytest.mark.parametrize(
    "ask",
    [
        lambda executing: executing.claim_effect(UNKNOWN_RUN, 1),
        lambda executing: executing.advance(UNKNOWN_RUN, 1, OUTBOUND),
        lambda executing: executing.put(UNKNOWN_RUN, 1),
    ],
)
async def test_a_run_that_there_is_not_is_leased_to_nobody(executing, ask):
    assert (await refused(ask(executing))).reason == "LEASE_LOST"


async def test_what_fits_exactly_is_taken(executing):
    run_id, epoch = await executing.leased_run()
    draws, outcome = (b'"' + b"x" * (size - 2) + b'"' for size in (256 * 1024, MIB))
    await executing.claim_effect(run_id, epoch, draws=draws, provider_key="é" * 512)
    await executing.advance(run_id, epoch, OUTBOUND)
    effect = await executing.advance(run_id, epoch, COMPLETED, outcome=outcome)
    assert (effect.draws, effect.outcome, effect.provider_key) == (draws, outcome, "é" * 512)


async def test_the_effects_of_a_run_are_listed_in_pages_oldest_first(executing):
    run_id, epoch = await executing.leased_run()
    names = [f"effect-{n}" for n in range(7)]
    for n, name in enumerate(names):
        await executing.claim_effect(
            run_id, epoch, name, node_id="even" if n % 2 == 0 else "odd", request_digest=digest(name)
        )
    await executing.advance(run_id, epoch, OUTBOUND, names[0])
    assert await listed(executing, run_id=run_id, page_size=3) == names
    assert await listed(executing, run_id=run_id, page_size=1, node_id="odd") == names[1::2]
    assert await listed(executing, run_id=run_id, states=[OUTBOUND]) == names[:1]
    assert await listed(executing, run_id=UNKNOWN_RUN) == []


async def test_the_tenants_effects_are_listed_by_state_over_all_its_runs(executing):
    runs = [await executing.leased_run() for _ in range(3)]
    made = []
    for n, (run_id, epoch) in enumerate(runs):
        name = f"doubtful-{new_workflow()}-{n}"
        await executing.claim_effect(run_id, epoch, name)
        for to in (OUTBOUND, IN_DOUBT):
            await executing.advance(run_id, epoch, to, name)
        made.append(name)
    assert [name for name in await listed(executing, states=[IN_DOUBT], page_size=2) if name in made] == made


async def test_a_page_token_is_for_its_list_only(executing):
    run_id, epoch = await executing.leased_run()
    for name in ("a", "b"):
        await executing.claim_effect(run_id, epoch, name)
    token = (await executing.effects(run_id, page_size=1)).next_page_token
    assert (await refused(executing.effects(run_id, node_id="pay", page_token=token))).reason == "PAGE_TOKEN_INVALID"
    assert (await refused(executing.wire.list(page_token=token))).reason == "PAGE_TOKEN_INVALID"
    assert [effect.effect_id for effect in (await executing.effects(run_id, page_token=token)).effects] == ["b"]


async def listed(executing, run_id="", **query):
    found, token = [], ""
    while True:
        answer = await executing.effects(run_id, **query, page_token=token)
        found += [effect.effect_id for effect in answer.effects]
        if not (token := answer.next_page_token):
            return found


async def test_the_service_is_healthy_and_its_limits_are_announced(executing):
    answer = await health_pb2_grpc.HealthStub(executing.wire.channel).Check(
        health_pb2.HealthCheckRequest(service=SERVICE)
    )
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    told = (await executing.wire.host.GetCapabilities(GetCapabilitiesRequest())).limits
    assert (told["lease_ttl_ms_max"], told["effect_outcome_bytes_max"]) == (600_000, MIB)


async def test_an_executed_run_says_so(executing):
    run_id = await executing.waiting_run(new_workflow())
    assert (await executing.wire.get(run_id)).run.executed
    assert (await executing.wire.list(page_size=1)).runs[0].executed
    assert not (await executing.wire.get(await executing.wire.new_run())).run.executed


def test_the_states_on_the_wire_are_those_of_the_domain():
    from isoline_server.domain.effect import EffectState
    from isoline_server.domain.invocation import EnvelopeKind

    for enum, prefix, ours in (
        (pb.EffectState, "EFFECT_STATE_", EffectState),
        (pb.EnvelopeKind, "ENVELOPE_KIND_", EnvelopeKind),
    ):
        assert {prefix + each.name: int(each) for each in ours} == {
            name: number for name, number in enum.items() if number
        }
