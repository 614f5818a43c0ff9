"""The order in which a tenant's runs of one workflow are listed: without it, a workflow with few runs is looked for among all of them."""

from typing import Final

from isoline_server.store.migrations import ddl

revision = "0015"
down_revision = "0014"

DDL: Final = """
CREATE INDEX IF NOT EXISTS runs_by_workflow ON runs (region, tenant, workflow_id, created_at, run_id)
"""


def upgrade() -> None:
    ddl.execute_on("runs", DDL)
