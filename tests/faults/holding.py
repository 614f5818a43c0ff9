"""Holding the database's answers back, so that what is under way can be looked at."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

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

        yield lambda many: eventually(lambda: _waiting(watcher, many), what=f"{many} blocked statements")
        await holder.rollback()


@dataclass
class HeldRow:
    """A run's row in the hands of a transaction: ``holder`` may change it, and what wants it waits."""

    holder: psycopg.AsyncConnection[tuple[object, ...]]
    blocked: Blocked


@asynccontextmanager
async def run_held(url: str, run_id: str) -> AsyncIterator[HeldRow]:
    """Hold one run's row; what ``holder`` did to it is committed at the end."""
    async with (
        await psycopg.AsyncConnection.connect(plain(url)) as holder,
        await psycopg.AsyncConnection.connect(plain(url), autocommit=True) as watcher,
    ):
        await holder.execute("SELECT 1 FROM runs WHERE run_id = %s FOR UPDATE", [run_id])
        yield HeldRow(
            holder, lambda many: eventually(lambda: _waiting(watcher, many), what=f"{many} blocked statements")
        )
        await holder.commit()


async def _waiting(watcher: psycopg.AsyncConnection[tuple[object, ...]], many: int) -> bool:
    cursor = await watcher.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    row = await cursor.fetchone()
    return row is not None and int(str(row[0])) >= many
