"""The order in which executors take a tenant's runs."""

from typing import Final

from isoline_server.store.migrations import ddl

revision = "0009"
down_revision = "0008"

DDL: Final = """
CREATE INDEX IF NOT EXISTS runs_by_wake ON runs (region, tenant, wake_at, run_id) WHERE wake_at IS NOT NULL
"""


def upgrade() -> None:
    ddl.execute_on("runs", DDL)
