"""The order in which a tenant's runs are listed."""

from typing import Final

from isoline_server.store.migrations import ddl

revision = "0002"
down_revision = "0001"

DDL: Final = "CREATE INDEX IF NOT EXISTS runs_by_tenant ON runs (region, tenant, created_at, run_id)"


def upgrade() -> None:
    ddl.execute_on("runs", DDL)
