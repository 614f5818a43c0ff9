"""A logical copy of a service's database: the replica of a region that a test can damage, which a physical standby does not allow."""

from collections.abc import Sequence
from typing import Any

import psycopg

TABLES = ("runs", "lineage", "events", "receipts", "engines", "snapshots")


def plain(url: str) -> str:
    """A URL for the driver."""
    return f"postgresql://{url.partition('://')[2]}"


async def execute(url: str, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Run one statement behind everybody's back."""
    async with await psycopg.AsyncConnection.connect(plain(url), autocommit=True) as connection:
        cursor = await connection.execute(sql, params)
        return await cursor.fetchall() if cursor.description else []


class LogicalCopy:
    """Copies every row from one database to another, and damages the copy (or the leader)."""

    def __init__(self, leader_url: str, copy_url: str) -> None:
        self.leader_url = leader_url
        self.copy_url = copy_url

    async def refresh(self) -> None:
        """Make the copy equal to the leader."""
        async with (
            await psycopg.AsyncConnection.connect(plain(self.leader_url)) as source,
            await psycopg.AsyncConnection.connect(plain(self.copy_url)) as target,
        ):
            await target.execute(f"TRUNCATE {', '.join(TABLES)}")
            for table in TABLES:
                async with (
                    source.cursor().copy(f"COPY {table} TO STDOUT (FORMAT binary)") as out,
                    target.cursor().copy(f"COPY {table} FROM STDIN (FORMAT binary)") as into,
                ):
                    async for data in out:
                        await into.write(data)

    async def damage(self, sql: str, *params: Any) -> None:
        await execute(self.copy_url, sql, params)

    async def damage_leader(self, sql: str, *params: Any) -> None:
        await execute(self.leader_url, sql, params)


FLIP_RECORD = "UPDATE events SET record = set_byte(record, 5, get_byte(record, 5) # 1) WHERE run_id = %s AND seq = %s"
FLIP_DIGEST = "UPDATE events SET digest = set_byte(digest, 5, get_byte(digest, 5) # 1) WHERE run_id = %s AND seq = %s"
DELETE_EVENT = "DELETE FROM events WHERE run_id = %s AND seq = %s"
REWRITE = "UPDATE events SET record = %s, digest = %s WHERE run_id = %s AND seq = %s"
