"""What a server says of itself: limits, region, health, reflection."""

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from api.wire import CHAIN_START, wire_to
from isoline.v1 import host_service_pb2 as host_pb
from isoline_server.api.server import SERVICES
from isoline_server.domain import limits
from support.servers import settings_for, start_region

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def capabilities(wire):
    return await wire.host.GetCapabilities(host_pb.GetCapabilitiesRequest(), timeout=5)


async def test_capabilities_tell_every_limit_of_the_limits_file(wire):
    told = dict((await capabilities(wire)).limits)
    assert told == {name.lower(): value for name, value in vars(limits).items() if name.isupper()}
    assert {"payload_bytes_max", "append_events_max", "append_bytes_max", "lineage_ranges_max"} <= told.keys()


async def test_capabilities_tell_how_a_chain_is_computed(wire):
    told = await capabilities(wire)
    assert (told.api, told.chain_start, told.digest_algorithm) == (
        "isoline.v1",
        CHAIN_START,
        "SHA-256(previous || record)",
    )
    assert (list(told.fork_modes), told.era, list(told.regions)) == (["replay", "branch"], 3, ["eu", "us"])


async def test_a_region_tells_how_it_stands(wire):
    status = await wire.host.GetRegionStatus(host_pb.GetRegionStatusRequest(), timeout=5)
    assert (status.region, status.leader_region, status.topology) == ("eu", "eu", host_pb.TOPOLOGY_POSTGRES)
    assert (status.leader_reachable, status.local_reachable, status.local_is_leader, status.draining) == (
        True,
        True,
        True,
        False,
    )


@pytest.mark.parametrize("service", ["", *SERVICES])
async def test_every_service_has_its_health(wire, service):
    answer = await health_pb2_grpc.HealthStub(wire.channel).Check(
        health_pb2.HealthCheckRequest(service=service), timeout=5
    )
    assert answer.status == SERVING


@pytest.mark.parametrize("service", ["", *SERVICES])
async def test_a_server_that_drains_says_that_it_does_not_serve(pg_url, service):
    server = await start_region(settings_for(pg_url, {"eu": pg_url}, drain_grace_s=0.2), "eu")
    async with wire_to(server.address) as wire:
        watch = health_pb2_grpc.HealthStub(wire.channel).Watch(
            health_pb2.HealthCheckRequest(service=service), timeout=20
        )
        assert (await watch.read()).status == SERVING
        await server.stop()
        assert (await watch.read()).status == NOT_SERVING


async def listed_services(wire):
    async def ask():
        yield reflection_pb2.ServerReflectionRequest(list_services="")

    stub = reflection_pb2_grpc.ServerReflectionStub(wire.channel)
    (answer,) = [answer async for answer in stub.ServerReflectionInfo(ask(), timeout=5)]
    return {service.name for service in answer.list_services_response.service}


async def test_reflection_lists_the_services(wire):
    assert set(SERVICES) <= await listed_services(wire)


async def test_reflection_describes_them(wire):
    async def ask():
        yield reflection_pb2.ServerReflectionRequest(file_containing_symbol="isoline.v1.LogService")

    stub = reflection_pb2_grpc.ServerReflectionStub(wire.channel)
    (answer,) = [answer async for answer in stub.ServerReflectionInfo(ask(), timeout=5)]
    assert b"AppendStream" in answer.file_descriptor_response.file_descriptor_proto[0]
