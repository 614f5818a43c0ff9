"""The order in which a tenant's effects of one state are listed."""

from typing import Final

from isoline_server.store.migrations import ddl

revision = "0011"
down_revision = "0010"

DDL: Final = """
CREATE INDEX IF NOT EXISTS effects_by_state ON effects (region, tenant, state, first_claimed_at, run_id, effect_id)
"""


def upgrade() -> None:
    ddl.execute_on("effects", DDL)
