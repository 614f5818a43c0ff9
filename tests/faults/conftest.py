"""A server over a real database whose writer can be made to fail, and an honest one beside it."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import pytest_asyncio

from api.wire import Wire, answers_early, wire_to
from faults.faulty import FaultyWriter
from isoline_server import bootstrap
from isoline_server.bootstrap import RegionServer
from isoline_server.store.sql_effects import SqlEffects
from isoline_server.store.sql_writer import SqlLogWriter
from support.databases import Databases
from support.servers import settings_for, start_region


@dataclass
class Failing:
    """``wire`` leads to the server whose stores fail, ``other`` to the honest one."""

    writer: FaultyWriter
    effects: FaultyWriter
    wire: Wire
    other: Wire
    server: RegionServer
    url: str


@pytest_asyncio.fixture(scope="session")
async def failing_service(databases: Databases) -> AsyncIterator[Failing]:
    url = databases.cluster.primary.url(database=databases.create())
    settings = settings_for(url, {"eu": url, "us": None}, drain_grace_s=1.0, local_deadline_ms=5_000, append_lanes=1)
    stores: list[FaultyWriter] = []
    with pytest.MonkeyPatch.context() as patched:
        for kind in (SqlLogWriter, SqlEffects):
            patched.setattr(
                bootstrap,
                kind.__name__,
                lambda database, kind=kind, **how: stores.append(FaultyWriter(kind(database, **how))) or stores[-1],
            )
        failing = await start_region(settings, "eu")
    honest = await start_region(settings, "us")
    async with AsyncExitStack() as stack:
        for server in (failing, honest):
            stack.push_async_callback(server.stop)
        wire, other = [await stack.enter_async_context(wire_to(server.address)) for server in (failing, honest)]
        yield Failing(stores[0], stores[1], wire, other, failing, url)


@pytest.fixture
def failing(failing_service: Failing) -> Failing:
    """The service with no fault planned."""
    failing_service.writer.heal()
    failing_service.effects.heal()
    return failing_service


CLIENTS_OWN = ("grpc/aio/_call.py", "async_generator_athrow")
"""What grpc's client leaves behind when its call is lost."""


@pytest_asyncio.fixture(autouse=True)
async def complaints() -> AsyncIterator[None]:
    """The event loop has nothing to complain about: no task was forgotten, no exception left unread."""
    loop, heard = asyncio.get_running_loop(), []
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: heard.append(str(context)))
    yield
    gc.collect()
    await asyncio.sleep(0)
    loop.set_exception_handler(before)
    assert [each for each in heard if not any(own in each for own in CLIENTS_OWN)] == []


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call with the timeout ``SOON_S`` is answered after half a second, whatever became of it."""
    answers_early(monkeypatch)
