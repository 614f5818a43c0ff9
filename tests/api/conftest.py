"""One server for all tests of the wire: every test makes runs of its own. And one with keys."""

from collections.abc import AsyncIterator
from hashlib import sha256

import pytest_asyncio

from api.wire import Wire, wire_to
from isoline_server.bootstrap import RegionServer
from support.databases import Databases
from support.servers import settings_for, start_region

KEYS = {
    "full": ["runs:create", "runs:read", "runs:append", "runs:execute"],
    "reader": ["runs:read"],
    "creator": ["runs:create"],
    "appender": ["runs:append"],
    "executor": ["runs:execute"],
}
"""Keys of one tenant, by what they may do. A key's text is its name."""


@pytest_asyncio.fixture(scope="session")
async def eu(databases: Databases) -> AsyncIterator[RegionServer]:
    """A server of region ``eu`` without keys; ``us`` is configured and does not run."""
    url = databases.cluster.primary.url(database=databases.create())
    server = await start_region(
        settings_for(url, {"eu": url, "us": None}, drain_grace_s=1.0, local_deadline_ms=5_000), "eu"
    )
    yield server
    await server.stop()


@pytest_asyncio.fixture(scope="session")
async def wire(eu: RegionServer) -> AsyncIterator[Wire]:
    """Its stubs."""
    async with wire_to(eu.address) as stubs:
        yield stubs


@pytest_asyncio.fixture(scope="session")
async def guarded(databases: Databases) -> AsyncIterator[RegionServer]:
    """A server that asks for a key."""
    url = databases.cluster.primary.url(database=databases.create())
    keys = [
        {"sha256": sha256(name.encode()).hexdigest(), "tenant": "acme", "scopes": scopes}
        for name, scopes in KEYS.items()
    ]
    server = await start_region(settings_for(url, {"eu": url}, api_keys=keys, drain_grace_s=1.0), "eu")
    yield server
    await server.stop()
