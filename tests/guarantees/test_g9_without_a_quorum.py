"""G9, G12: a primary that lost its standbys acknowledges nothing, shows nothing that only it has, and does not claim that it leads.

It is alive and answers statements all the while, so nothing here depends on its silence: what is not durable must not be told.
"""

import asyncio
import time

import grpc
import pytest

from api.wire import SOON_S, event, events, refused, request_id
from isoline.v1 import common_pb2 as pb
from isoline.v1 import execution_service_pb2 as execution_pb
from isoline.v1.execution_service_pb2_grpc import ExecutionServiceStub
from isoline_server.store.leadership import PROOF_HOLDS_S
from support.waiting import eventually

pytestmark = pytest.mark.topology

COUNT = "select count(*) from events where run_id = '{}'"


@pytest.fixture
def alone(world):
    """The primary alone, its proof of leadership used up."""

    def leave_alone():
        for name in ("us", "ap"):
            world.cluster.kill(name)
        return time.monotonic() + PROOF_HOLDS_S

    return leave_alone


async def used_up(until_s):
    async def is_over():
        return time.monotonic() > until_s

    await eventually(is_over)


def rows(world, run_id):
    return int(world.cluster.execute("primary", COUNT.format(run_id), "guarantees"))


async def test_g9_an_append_without_a_quorum_is_not_acknowledged_nor_shown(world, alone, early):
    run_id, once = await world["eu"].new_run(1), {"request_id": request_id()}
    alone()
    told = await refused(world["eu"].append(run_id, event(), timeout_s=SOON_S, **once))
    assert told.reason == "OUTCOME_UNKNOWN"
    assert rows(world, run_id) == 1  # nobody cut its wait short: a cancelled commit would be shown here
    world.cluster.restart("us")
    assert (await world["eu"].append(run_id, event(), **once)).first_seq == 1
    assert rows(world, run_id) == 2


async def test_g9_a_create_that_nobody_waits_for_any_more_is_not_shown_without_a_quorum(world, alone, early):
    workflow_id = f"alone-{request_id()[:12].lower()}"
    alone()
    told = await refused(world["eu"].create(workflow_id=workflow_id, timeout_s=SOON_S))
    assert told.reason == "OUTCOME_UNKNOWN"
    count = f"select count(*) from runs where workflow_id = '{workflow_id}'"
    assert world.cluster.execute("primary", count, "guarantees") == "0"


async def test_g9_a_lease_that_nobody_waits_for_any_more_is_not_shown_without_a_quorum(world, alone, early):
    run_id = await world["eu"].new_run(1, executed=True, workflow_id="alone.lease")
    alone()
    request = execution_pb.ClaimRunsRequest(
        region="eu", workflow_ids=["alone.lease"], owner="nobody", lease_ttl_ms=60_000, max_runs=5
    )
    with pytest.raises(grpc.aio.AioRpcError):
        await ExecutionServiceStub(world["eu"].channel).ClaimRuns(request, timeout=SOON_S)
    epoch = f"select lease_epoch from runs where run_id = '{run_id}'"
    assert world.cluster.execute("primary", epoch, "guarantees") == "0"


async def test_g12_without_a_quorum_the_primary_does_not_say_what_is_newest(world, alone):
    run_id = await world["eu"].new_run(3)
    await used_up(alone())
    told = await refused(world["eu"].get(run_id))
    assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")


async def test_g3_without_a_quorum_nothing_is_said_not_to_exist(world, alone):
    run_id = await world["eu"].new_run(3)
    unknown = run_id[:-26] + "a" * 26
    await used_up(alone())
    for asked in (
        world["eu"].get(unknown),
        world["eu"].read(run_id, 0, 9),
        world["eu"].append(unknown, event(), timeout_s=3),
    ):
        told = await refused(asked)
        assert told.code is grpc.StatusCode.UNAVAILABLE


async def test_g9_a_restarted_primary_shows_its_unreplicated_rows_to_nobody(world, alone, early):
    run_id, once = await world["eu"].new_run(1), {"request_id": request_id()}
    alone()
    await refused(world["eu"].append(run_id, event(), timeout_s=SOON_S, **once))
    world.cluster.kill("primary")
    world.cluster.restart("primary")  # its recovery ends every wait: the row is visible, and no other node has it
    assert rows(world, run_id) == 2
    for freshness in (pb.FRESHNESS_LATEST, pb.FRESHNESS_LOCAL):
        told = await refused(world["eu"].get(run_id, freshness))
        assert told.code is grpc.StatusCode.UNAVAILABLE
    world.cluster.restart("us")
    assert (await world["eu"].append(run_id, event(), **once)).first_seq == 1
    assert (await world["eu"].head(run_id)).seq == 1


async def test_g9_with_a_quorum_again_reads_and_writes_go_on(world, alone):
    run_id = await world["eu"].new_run(3)
    await used_up(alone())
    reading = asyncio.ensure_future(refused(world["eu"].get(run_id)))
    await reading
    world.cluster.restart("us")

    async def head():
        try:
            return (await world["eu"].get(run_id)).run.head.seq == 2
        except grpc.aio.AioRpcError:
            return False

    await eventually(head)
    assert (await world["eu"].append(run_id, *events(2))).last.seq == 4
