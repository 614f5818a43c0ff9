"""Holding the database's answers back, so that what is under way can be looked at."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import psycopg

from guarantees.copies import plain
from support.waiting import eventually

Blocked = Callable[[int], Awaitable[object]]


@asynccontextmanager
async def writes_held_back(url: str) -> AsyncIterator[Blocked]:
    """No write gets through meanwhile. Gives a function that waits until so many statements wait for it."""
    async with (
        await psycopg.AsyncConnection.connect(plain(url)) as holder,
        await psycopg.AsyncConnection.connect(plain(url), autocommit=True) as watcher,
    ):
        await holder.execute("LOCK TABLE runs IN SHARE ROW EXCLUSIVE MODE")

        async def waiting(many: int) -> bool:
            cursor = await watcher.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            row = await cursor.fetchone()
            return row is not None and row[0] >= many

        yield lambda many: eventually(lambda: waiting(many), what=f"{many} blocked statements")
        await holder.rollback()
