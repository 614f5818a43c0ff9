"""What Alembic runs to apply one revision. Only that: connections, leases and choices are made by ``store/migrate.py``.

Every statement commits by itself, on PostgreSQL as on CockroachDB, which has no transactional DDL. So both can stop between a statement
and its mark, and both then run the statement again.
"""

from alembic import context

from isoline_server.store.migrations.ddl import VERSION_TABLE


def run() -> None:
    context.configure(
        connection=context.config.attributes["connection"],
        version_table=VERSION_TABLE,
        transactional_ddl=False,
    )
    context.run_migrations()


run()
