"""Connections as they are opened, left and given up. What statements mean is tested where they are."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from isoline_server.operations.ports import StoreRetryable
from isoline_server.store.database import Database, Role
from isoline_server.store.leadership import Place
from support.waiting import eventually, wait_until

pytestmark = pytest.mark.postgres


@pytest.fixture
def uncollected() -> Iterator[None]:
    """What is closed in time is closed without the garbage collector."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def left_while_connecting(database: Database) -> None:
    """A caller that goes away before the database has let it in."""
    before = set(database._opening)
    call = asyncio.create_task(database.fetch("look", "select 1"))
    await eventually(lambda: opening(database, before), every_s=0, what="the connection's begin")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def opening(database: Database, before: set[object]) -> bool:
    return bool(database._opening - before)


def connections(pg_cluster, url: str) -> int:
    """How many clients the database has, those included that are not let in yet: they have no database so far."""
    name = url.rpartition("/")[2].partition("?")[0]
    sql = f"select count(*) from pg_stat_activity where backend_type = 'client backend' and coalesce(datname, '{name}') = '{name}'"
    return int(pg_cluster.execute("primary", sql))


async def test_a_connection_that_nobody_waits_for_any_more_serves_the_next_call(uncollected, pg_cluster, pg_url):
    database = Database(pg_url, role=Role.WRITER, size=2)
    await left_while_connecting(database)
    await eventually(lambda: rests(database), what="the end of connecting")
    assert await database.fetch("look", "select 1") == [(1,)]
    assert connections(pg_cluster, pg_url) == 1
    await database.close()


async def rests(database: Database) -> bool:
    return not database._opening


async def test_what_many_callers_left_behind_is_given_up_beyond_the_size(uncollected, pg_cluster, pg_url):
    database = Database(pg_url, role=Role.WRITER, size=2)
    for _ in range(5):
        await left_while_connecting(database)
    await eventually(lambda: rests(database), what="the end of connecting")
    assert await database.fetch("look", "select 1") == [(1,)]
    wait_until(lambda: connections(pg_cluster, pg_url) <= 2, what="the end of the others")
    await database.close()


async def test_nothing_is_left_at_the_database_by_one_that_closes_while_it_connects(uncollected, pg_cluster, pg_url):
    database = Database(pg_url, role=Role.WRITER, size=2)
    await left_while_connecting(database)
    await database.close()
    wait_until(lambda: connections(pg_cluster, pg_url) == 0, what="the end of every connection")


async def test_what_is_under_way_at_a_former_leader_is_given_up_and_its_fate_is_unknown(pg_url):
    database = Database(pg_url, role=Role.WRITER, size=1)
    call = asyncio.create_task(database.fetch("hang", "select pg_sleep(60)"))
    await eventually(lambda: busy(database), what="the statement")
    database.abandon(None)  # while nobody is known to lead, the answer may still come
    database.abandon(Place(pg_url))  # nor is anything given up at the leader
    await asyncio.sleep(0)
    assert not call.done()
    database.abandon(Place("postgresql+psycopg://anyone@127.0.0.1:1/log", timeline=2))
    with pytest.raises(StoreRetryable) as told:
        await asyncio.wait_for(call, 10)
    assert told.value.ambiguous
    assert await database.fetch("look", "select 1") == [(1,)]
    await database.close()


async def busy(database: Database) -> bool:
    return bool(database._busy)


async def test_a_database_that_lets_nobody_in_does_not_hold_up_the_end(uncollected):
    ended = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        ended.set()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        database = Database(f"postgresql+psycopg://anyone@127.0.0.1:{port}/log", role=Role.WRITER, size=1)
        await left_while_connecting(database)
        await asyncio.wait_for(database.close(), 10)
        await asyncio.wait_for(ended.wait(), 10)
