"""Databases of others: a node's own connection to PostgreSQL or SQLite. The log's database is the server's and no seam."""

from typing import Final

from isoline_client.guard.seams.seam import REGISTRY, Point, Seam, always

POSTGRES: Final = REGISTRY.add(
    Seam(
        name="storage.postgres",
        kind="storage",
        module=__name__,
        note="every exchange of psycopg with its server, also over a connection opened before",
        unseen="libpq reached without psycopg",
        points=(
            Point(module="psycopg", path="connect"),
            Point(module="psycopg", path="Connection.connect"),
            Point(module="psycopg", path="AsyncConnection.connect"),
            Point(module="psycopg", path="Connection.wait"),
            Point(module="psycopg", path="AsyncConnection.wait"),
            Point(module="asyncpg", path="connect"),
            Point(module="asyncpg", path="Connection.execute"),
        ),
    )
)

SQLITE: Final = REGISTRY.add(
    Seam(
        name="storage.sqlite",
        kind="storage",
        module=__name__,
        note="also in memory: such a database can attach a file",
        unseen="a database opened before",
        events={"sqlite3.connect": always},
    )
)
