"""The DDL of both engines from one text: the placeholders, and sending a statement from within a revision.

==============  ===========================  ======================================
placeholder     PostgreSQL                   CockroachDB
==============  ===========================  ======================================
``{region}``    ``VARCHAR(15) COLLATE "C"``  ``crdb_internal_region``
``{bytewise}``  ``COLLATE "C"``              nothing: text is always ordered by bytes
``{locality}``  nothing                      ``LOCALITY REGIONAL BY ROW AS region``
==============  ===========================  ======================================

The statements themselves are in ``versions``.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from alembic import op
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from isoline_server.store import cockroach

VERSION_TABLE: Final = "isoline_schema_version"

VERSION_TABLE_DDL: Final = f"""
CREATE TABLE IF NOT EXISTS {VERSION_TABLE} (
    version_num VARCHAR(32) NOT NULL,
    only_row BOOLEAN NOT NULL DEFAULT true,
    CONSTRAINT {VERSION_TABLE}_pkey PRIMARY KEY (version_num),
    CONSTRAINT {VERSION_TABLE}_only_row UNIQUE (only_row)
)
"""
"""Alembic's table, made before Alembic looks for it, so that the database refuses a second row: a runner that slept through its lease
cannot record the first revision beside the newest."""

_POSTGRESQL: Final = {"region": 'VARCHAR(15) COLLATE "C"', "bytewise": ' COLLATE "C"', "locality": ""}
_COCKROACH: Final = {"region": cockroach.REGION_TYPE, "bytewise": "", "locality": f" {cockroach.LOCALITY}"}


def render(template: str, *, for_cockroach: bool) -> str:
    """The statement as it is sent."""
    return template.format_map(_COCKROACH if for_cockroach else _POSTGRESQL).strip()


def on_cockroach(connection: Connection) -> bool:
    """Which engine answers."""
    return cockroach.is_cockroach(str(connection.exec_driver_sql(cockroach.VERSION_QUERY).scalar_one()))


def execute(template: str) -> None:
    """Send a statement of a revision."""
    connection = op.get_bind()
    connection.exec_driver_sql(render(template, for_cockroach=on_cockroach(connection)))


def execute_on(table: str, template: str) -> None:
    """Send a statement of a revision that changes a table which exists already."""
    connection = op.get_bind()
    with schema_unlocked(connection, table):
        connection.exec_driver_sql(render(template, for_cockroach=on_cockroach(connection)))


@contextmanager
def schema_unlocked(connection: Connection, table: str) -> Iterator[None]:
    """Open a CockroachDB table for a change if it is locked, and lock it again. Does nothing on PostgreSQL.

    CockroachDB opens most tables by itself; not for every change, and not when ``sql.schema.auto_unlock.enabled`` is off. If we are killed
    before the table is locked again it stays open, which costs changefeeds some speed and nothing else.
    """
    locked = on_cockroach(connection) and _is_schema_locked(connection, table)
    if locked:
        connection.exec_driver_sql(cockroach.unlock_schema(table))
    try:
        yield
    except BaseException:
        if locked:
            # What went wrong must come out, not that the connection did not survive it.
            with suppress(SQLAlchemyError):
                connection.exec_driver_sql(cockroach.lock_schema(table))
        raise
    if locked:
        connection.exec_driver_sql(cockroach.lock_schema(table))


def _is_schema_locked(connection: Connection, table: str) -> bool:
    definition = connection.exec_driver_sql(cockroach.show_create_table(table)).mappings().one()["create_statement"]
    return "schema_locked = true" in str(definition)
