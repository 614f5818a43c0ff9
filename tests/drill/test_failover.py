"""Servers over databases whose leader changes: they find the one that leads, go there with what was under way, and never back."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

import grpc
import pytest
import pytest_asyncio

from api.wire import Wire, event, request_id, wire_to
from drill.loopback import Loopback
from isoline.v1 import common_pb2 as pb
from isoline_drill.databases import RegionDatabases
from isoline_server.store.leadership import PROOF_HOLDS_S
from isoline_server.store.migrate import leading_url, migrate
from isoline_server.store.migrations.errors import DatabaseFailed
from support.servers import settings_for, start_region
from support.waiting import eventually

pytestmark = [pytest.mark.topology, pytest.mark.timeout(240)]

REGIONS = ("eu", "us", "ap")


@dataclass
class Service:
    """A server in each region, each over all three nodes."""

    databases: RegionDatabases
    wires: dict[str, Wire]

    def __getitem__(self, region):
        return self.wires[region]

    async def writes(self, region, run_id):
        """An append through a region is acknowledged, however often it has to be repeated."""
        once = {"request_id": request_id()}

        async def appended():
            try:
                return await self[region].append(run_id, event(), timeout_s=5, **once)
            except grpc.aio.AioRpcError:
                return None

        return await eventually(appended, timeout_s=60)


def urls(databases):
    return [databases.url("eu", region) for region in REGIONS]


@pytest_asyncio.fixture
async def service():
    with RegionDatabases(Loopback(), durable=False) as databases:
        leader, *others = urls(databases)
        migrate(leader, holder="tests")
        for region in ("us", "ap"):
            databases.wait_caught_up(region)
        async with AsyncExitStack() as stack:
            wires = {}
            for region in REGIONS:
                local = {each: databases.url(each, each) if each == region else None for each in REGIONS}
                settings = settings_for(leader, local, standby_urls=tuple(others), drain_grace_s=1.0)
                server = await start_region(settings, region)
                stack.push_async_callback(server.stop)
                wires[region] = await stack.enter_async_context(wire_to(server.address))
            yield Service(databases, wires)


async def test_servers_go_on_with_the_node_that_was_promoted(service):
    run_id = await service["eu"].new_run(3)
    service.databases.kill("eu")
    assert service.databases.promote(wait_s=PROOF_HOLDS_S + 0.25).new in ("us", "ap")
    for seq, region in enumerate(REGIONS, start=3):
        assert (await service.writes(region, run_id)).first_seq == seq
    assert [(await service[region].head(run_id)).seq for region in REGIONS] == [5, 5, 5]


async def test_a_former_leader_that_lives_on_is_left_for_good(service):
    """It still says that it leads, its own region's server is next to it, and nobody reads or writes there any more."""
    run_id = await service["eu"].new_run(3)
    promoted = service.databases.promote(wait_s=PROOF_HOLDS_S + 0.25).new
    assert service.databases.execute("eu", "select pg_is_in_recovery()") == "f"
    for seq, region in enumerate(REGIONS, start=3):
        assert (await service.writes(region, run_id)).first_seq == seq
    assert service.databases.execute("eu", "select max(head_seq) from runs") == "2"
    assert service.databases.execute(promoted, "select max(head_seq) from runs") == "5"
    log = await service["eu"].read(run_id)
    assert (len(log.records), log.sources) == (6, ["LEADER"])  # not "LOCAL": its own node is a primary of another time


async def test_a_node_that_came_back_is_the_regions_replica_again(service):
    run_id = await service["eu"].new_run(3)
    service.databases.kill("eu")
    service.databases.promote(wait_s=PROOF_HOLDS_S + 0.25)
    await service.writes("eu", run_id)
    service.databases.rejoin("eu")
    service.databases.wait_caught_up("eu")

    async def local():
        return (await service["eu"].read(run_id)).sources == ["LOCAL"]

    await eventually(local)


async def test_a_former_leader_that_was_made_a_standby_shows_nothing_that_only_it_has(service):
    """What Patroni does to a leader that is cut off: restarted as a standby of nobody, with commits that no other node has."""
    databases = service.databases
    run_id = await service["eu"].new_run(3)
    for region in ("us", "ap"):
        databases.detach(region)
    with pytest.raises(grpc.aio.AioRpcError):
        await service["eu"].append(run_id, event(), timeout_s=2)  # no standby acknowledges
    node = databases._nodes["eu"]
    node.process.stop(within_s=5)
    (node.dir / "standby.signal").touch()
    node.start(databases._nodes._settings("eu", follows=None))
    assert databases.execute("eu", "select pg_is_in_recovery(), max(head_seq) from runs") == "t|3"
    for freshness in (pb.FRESHNESS_LATEST, pb.FRESHNESS_LOCAL):
        for until in (None, 4):
            with pytest.raises(grpc.aio.AioRpcError):
                await service["eu"].read(run_id, until_seq=until, freshness=freshness)
            with pytest.raises(grpc.aio.AioRpcError):
                await service["eu"].get(run_id, freshness=freshness)


async def test_the_schema_is_looked_after_on_whichever_node_leads(service):
    assert leading_url(urls(service.databases)) == service.databases.url("eu", "eu")
    service.databases.kill("eu")
    promoted = service.databases.promote(wait_s=0.05).new
    assert leading_url(urls(service.databases)) == service.databases.url("eu", promoted)
    for region in ("us", "ap"):
        service.databases.kill(region)
    with pytest.raises(DatabaseFailed, match="of 3 nodes none that answers leads"):
        leading_url(urls(service.databases))
