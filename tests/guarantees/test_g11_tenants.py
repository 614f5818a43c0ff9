"""G11: a tenant can neither read, write, enumerate nor infer another's runs. The tenant comes from the credential."""

from contextlib import AsyncExitStack
from hashlib import sha256

import pytest
from grpc import aio

from api.executing import COMPLETED, FAILED, IN_DOUBT, OUTBOUND, Executing, new_workflow
from api.wire import event, events, refusal_of, refused, request_id, wire_to
from isoline.v1 import common_pb2 as pb
from isoline.v1 import log_service_pb2 as log_pb
from support.servers import settings_for, start_region

NOBODY = "acme/eu-bbbbbbbbbbbbbbbbbbbbbbbbbb"
"""A run id of the other tenant that no run has."""


@pytest.fixture(scope="module")
async def tenants(databases):
    """The same server seen by two tenants."""
    url = databases.cluster.primary.url(database=databases.create())
    keys = [
        {"sha256": sha256(f"key of {tenant}".encode()).hexdigest(), "tenant": tenant} for tenant in ("acme", "rival")
    ]
    server = await start_region(settings_for(url, {"eu": url, "us": None}, api_keys=keys, drain_grace_s=1.0), "eu")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.stop)
        yield {
            tenant: await stack.enter_async_context(wire_to(server.address, f"key of {tenant}"))
            for tenant in ("acme", "rival")
        }


@pytest.fixture(scope="module")
async def theirs(tenants):
    """A run of ``acme``."""
    return await tenants["acme"].new_run(3)


async def streamed_append(wire, run_id):
    async def requests():
        yield log_pb.AppendStreamRequest(
            append=log_pb.AppendRequest(request_id=request_id(), run_id=run_id, events=[event()])
        )

    (answer,) = [answer async for answer in wire.append_stream(requests())]
    return answer.error


ATTEMPTS = {
    "get": lambda wire, run_id, own: wire.get(run_id),
    "get locally": lambda wire, run_id, own: wire.get(run_id, pb.FRESHNESS_LOCAL),
    "read": lambda wire, run_id, own: wire.read(run_id),
    "tail": lambda wire, run_id, own: wire.tail(run_id).read(),
    "state": lambda wire, run_id, own: wire.state(run_id),
    "prefix": lambda wire, run_id, own: wire.prefix(run_id),
    "append": lambda wire, run_id, own: wire.append(run_id, event()),
    "fork": lambda wire, run_id, own: wire.fork(run_id, 1),
    "diff as a": lambda wire, run_id, own: wire.diff(run_id, own),
    "diff as b": lambda wire, run_id, own: wire.diff(own, run_id),
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
async def test_g11_a_foreign_run_is_refused_alike_whether_it_exists_or_not(tenants, theirs, attempt):
    rival = tenants["rival"]
    own = await rival.new_run(1)
    there, nowhere = [await refused(ATTEMPTS[attempt](rival, run_id, own)) for run_id in (theirs, NOBODY)]
    assert (there.code.name, there.reason) == ("PERMISSION_DENIED", "ID_TENANT_MISMATCH")
    assert there == nowhere
    assert "acme" not in str(there)


async def test_g11_a_foreign_run_in_a_stream_of_appends_is_refused_alike(tenants, theirs):
    there, nowhere = [await streamed_append(tenants["rival"], run_id) for run_id in (theirs, NOBODY)]
    assert there.reason == "ID_TENANT_MISMATCH"
    assert there == nowhere


async def test_g11_refused_attempts_changed_nothing(tenants, theirs):
    before = await tenants["acme"].head(theirs)
    for attempt in ("append", "fork"):
        await refused(ATTEMPTS[attempt](tenants["rival"], theirs, NOBODY))
    assert await tenants["acme"].head(theirs) == before


async def test_g11_an_unknown_run_of_the_own_tenant_is_not_found(tenants):
    assert (await refused(tenants["acme"].get(NOBODY))).code.name == "NOT_FOUND"


async def test_g11_a_list_holds_only_the_own_runs(tenants, theirs):
    own = await tenants["rival"].new_run()
    listed = [run.run_id for run in (await tenants["rival"].list(page_size=1000)).runs]
    assert own in listed
    assert {run_id.split("/")[0] for run_id in listed} == {"rival"}


async def test_g11_a_page_token_of_another_tenant_is_refused(tenants):
    for _ in range(2):
        await tenants["acme"].new_run()
    token = (await tenants["acme"].list(page_size=1)).next_page_token
    assert (await refused(tenants["rival"].list(page_size=1, page_token=token))).reason == "PAGE_TOKEN_INVALID"


async def test_g11_the_run_of_a_new_id_belongs_to_the_tenant_of_the_key(tenants):
    assert (await tenants["rival"].new_run()).startswith("rival/")


async def test_g11_request_ids_of_two_tenants_do_not_meet(tenants):
    one = {"request_id": request_id(), "workflow_id": "w"}
    runs = {tenant: (await wire.create(**one)).run.run_id for tenant, wire in tenants.items()}
    assert len(set(runs.values())) == 2
    for tenant, wire in tenants.items():
        assert not (await wire.append(runs[tenant], *events(2), request_id=one["request_id"])).repeated
        assert not (await wire.fork(runs[tenant], 1, request_id=one["request_id"])).repeated


async def test_g11_a_tenant_that_begins_like_another_is_another(tenants):
    with pytest.raises(aio.AioRpcError) as raised:
        await tenants["acme"].get(NOBODY.replace("acme/", "acme2/"))
    assert refusal_of(raised.value).reason == "ID_TENANT_MISMATCH"


# -- executors -----------------------------------------------------------------------------------------------------------------------

EXECUTION_ATTEMPTS = {
    "renew": lambda rival, run_id: rival.renew((run_id, 1)),
    "release": lambda rival, run_id: rival.release(run_id, 1),
    "claim an effect": lambda rival, run_id: rival.claim_effect(run_id, 1),
    "send": lambda rival, run_id: rival.advance(run_id, 1, OUTBOUND, "claimed"),
    "end": lambda rival, run_id: rival.advance(run_id, 1, COMPLETED, "outbound"),
    "list effects": lambda rival, run_id: rival.effects(run_id),
    "resolve": lambda rival, run_id: rival.resolve(run_id, FAILED, "doubtful"),
    "put an invocation": lambda rival, run_id: rival.put(run_id, 1),
    "get an invocation": lambda rival, run_id: rival.get(run_id),
    "append under the lease": lambda rival, run_id: rival.wire.append(run_id, event(), lease_epoch=1),
}


@pytest.fixture(scope="module")
async def executed(tenants):
    """A run in the hands of ``acme``'s executor, with an effect in each state that a call could change, and an invocation."""
    acme = Executing(tenants["acme"])
    run_id, epoch = await acme.leased_run()
    for effect_id, *steps in (("claimed",), ("outbound", OUTBOUND), ("doubtful", OUTBOUND, IN_DOUBT)):
        await acme.claim_effect(run_id, epoch, effect_id)
        for to in steps:
            await acme.advance(run_id, epoch, to, effect_id)
    await acme.put(run_id, epoch)
    return run_id


@pytest.mark.parametrize("attempt", EXECUTION_ATTEMPTS)
async def test_g11_a_foreign_run_is_neither_executed_nor_looked_at(tenants, executed, attempt):
    acme, rival = Executing(tenants["acme"]), Executing(tenants["rival"])
    before = (await acme.effects(executed), (await acme.get(executed)), await acme.wire.head(executed))
    there, nowhere = [await refused(EXECUTION_ATTEMPTS[attempt](rival, run_id)) for run_id in (executed, NOBODY)]
    assert (there.code.name, there.reason) == ("PERMISSION_DENIED", "ID_TENANT_MISMATCH")
    assert there == nowhere
    assert (await acme.effects(executed), (await acme.get(executed)), await acme.wire.head(executed)) == before
    assert [lease.run_id for lease in (await acme.renew((executed, 1))).renewed] == [executed]


async def test_g11_executors_claim_only_their_tenants_runs(tenants):
    acme, rival = Executing(tenants["acme"]), Executing(tenants["rival"])
    workflow_id = new_workflow()
    run_id = await acme.waiting_run(workflow_id)
    answer = await rival.claim(workflow_id)
    assert (list(answer.leases), answer.HasField("next_wake_at_us")) == ([], False)
    assert [lease.run_id for lease in (await acme.claim(workflow_id)).leases] == [run_id]


async def test_g11_a_list_of_effects_holds_only_the_own(tenants, executed):
    rival = Executing(tenants["rival"])
    own, epoch = await rival.leased_run()
    await rival.claim_effect(own, epoch)
    listed = (await rival.effects(states=[1, 2, 3, 4, 5])).effects
    assert {effect.run_id for effect in listed} == {own}


async def test_g11_a_page_token_of_effects_of_another_tenant_is_refused(tenants, executed):
    acme, rival = Executing(tenants["acme"]), Executing(tenants["rival"])
    page = {"states": [1, 2, 5], "page_size": 1}
    token = (await acme.effects(**page)).next_page_token
    assert (await refused(rival.effects(**page, page_token=token))).reason == "PAGE_TOKEN_INVALID"
