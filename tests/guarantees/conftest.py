"""Servers for the guarantees: two over one database, three over a primary and its standbys, and one whose replica is a copy to damage."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import pytest_asyncio

from api.wire import Wire, answers_early, wire_to
from guarantees.copies import LogicalCopy
from isoline.v1.host_service_pb2 import GetRegionStatusRequest
from isoline_server.bootstrap import RegionServer
from isoline_server.embedded import EmbeddedCluster
from isoline_server.store.migrate import migrate
from support.databases import DIALECTS, TEMPLATE, Databases
from support.servers import settings_for, start_region
from support.waiting import eventually


@dataclass
class Regions:
    """The servers of one service and their stubs, by region."""

    servers: dict[str, RegionServer]
    wires: dict[str, Wire]

    def __getitem__(self, region: str) -> Wire:
        return self.wires[region]


async def serve(
    stack: AsyncExitStack, leader_url: str, local_urls: dict[str, str | None], start: dict[str, str] | None = None
) -> Regions:
    """Servers until the stack ends: every region's, or those of ``start``, which says by name whose region each is."""
    settings = settings_for(leader_url, local_urls, drain_grace_s=1.0, local_deadline_ms=5_000)
    regions = Regions({}, {})
    for name, code in (start or {code: code for code in local_urls}).items():
        regions.servers[name] = await start_region(settings, code)
        stack.push_async_callback(regions.servers[name].stop)
        regions.wires[name] = await stack.enter_async_context(wire_to(regions.servers[name].address))
    return regions


@dataclass(frozen=True)
class Service:
    """A database with our schema, and whether it knows no region but ``eu``."""

    url: str
    has_one_region: bool


@pytest.fixture(scope="session", params=[*DIALECTS, pytest.param("cockroach", marks=pytest.mark.cockroach)])
def service(request: pytest.FixtureRequest) -> Service:
    """One database for all tests of these guarantees: every test makes runs of its own. Through every dialect."""
    if request.param == "cockroach":
        url: str = request.getfixturevalue("cockroach_url")
        migrate(url, regions=("eu",), holder="tests")
        return Service(url, has_one_region=True)
    databases: Databases = request.getfixturevalue("databases")
    return Service(databases.cluster.primary.url(request.param, database=databases.create()), has_one_region=False)


@pytest.fixture(scope="session")
def service_url(service: Service) -> str:
    return service.url


@pytest_asyncio.fixture(scope="session")
async def pair(service: Service) -> AsyncIterator[Regions]:
    """Regions ``eu`` and ``us`` over one database, through every dialect. A real CockroachDB of one node has one region, so there both
    are servers of ``eu``."""
    async with AsyncExitStack() as stack:
        if service.has_one_region:
            yield await serve(stack, service.url, {"eu": service.url}, {"eu": "eu", "us": "eu"})
        else:
            yield await serve(stack, service.url, {"eu": service.url, "us": None})


@pytest_asyncio.fixture(scope="session")
async def two(databases: Databases) -> AsyncIterator[Regions]:
    """Regions ``eu`` and ``us`` over one database, through one dialect: for what is not about SQL."""
    url = databases.cluster.primary.url(database=databases.create())
    async with AsyncExitStack() as stack:
        yield await serve(stack, url, {"eu": url, "us": None})


@pytest.fixture(scope="session")
def near_and_far(databases: Databases) -> LogicalCopy:
    """Two databases: the leader's, and a logical copy of it that a test may damage."""
    leader, copy = (databases.cluster.primary.url(database=databases.create()) for _ in range(2))
    return LogicalCopy(leader, copy)


@pytest_asyncio.fixture(scope="session")
async def copied(near_and_far: LogicalCopy) -> AsyncIterator[Regions]:
    """``eu`` reads the leader; the replica of ``us`` is the logical copy."""
    async with AsyncExitStack() as stack:
        yield await serve(stack, near_and_far.leader_url, {"eu": near_and_far.leader_url, "us": near_and_far.copy_url})


@dataclass
class World:
    """Three regions over a real primary and two standbys."""

    regions: Regions
    cluster: EmbeddedCluster

    def __getitem__(self, region: str) -> Wire:
        return self.regions[region]

    def caught_up(self) -> None:
        for name in ("us", "ap"):
            self.cluster.wait_caught_up(name)


@pytest_asyncio.fixture(scope="session")
async def three(topology: EmbeddedCluster) -> AsyncIterator[World]:
    """``eu`` beside the primary, ``us`` and ``ap`` beside their standbys."""
    topology.create_database("guarantees", template=TEMPLATE)
    url = topology.primary.url(database="guarantees")
    local_urls: dict[str, str | None] = {"eu": url}
    for name in ("us", "ap"):
        topology.wait_caught_up(name)
        local_urls[name] = topology.standby(name).url(database="guarantees")
    async with AsyncExitStack() as stack:
        yield World(await serve(stack, url, local_urls), topology)


@pytest_asyncio.fixture
async def world(three: World) -> AsyncIterator[World]:
    """The three regions; everything runs again afterwards, whatever the test stopped."""
    yield three
    for name in ("primary", "us", "ap"):
        if not three.cluster.is_running(name):
            three.cluster.restart(name)
    for name in ("us", "ap"):
        three.cluster.resume_replay(name)
    three.caught_up()
    for wire in three.regions.wires.values():
        await eventually(lambda wire=wire: leader_answers(wire), what="the leader")


async def leader_answers(wire: Wire) -> bool:
    return (await wire.host.GetRegionStatus(GetRegionStatusRequest())).leader_reachable


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call with the timeout ``SOON_S`` is answered after half a second, whatever became of it."""
    answers_early(monkeypatch)
