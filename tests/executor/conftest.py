"""One server with executors for all tests here, and a counting server for each test: what reached the world outside."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from isoline_server.bootstrap import RegionServer
from support.counting import Counting
from support.databases import Databases
from support.executing import Floor, floor
from support.servers import settings_for, start_region


@pytest_asyncio.fixture(scope="session")
async def home(databases: Databases) -> AsyncIterator[RegionServer]:
    """The server of region ``eu``."""
    url = databases.cluster.primary.url(database=databases.create())
    running = await start_region(settings_for(url, {"eu": url}, drain_grace_s=1.0), "eu")
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="session")
async def eu(home: RegionServer) -> AsyncIterator[Floor]:
    async with floor(home.address) as made:
        yield made


@pytest.fixture
def outside() -> Iterator[Counting]:
    with Counting() as counting:
        yield counting
