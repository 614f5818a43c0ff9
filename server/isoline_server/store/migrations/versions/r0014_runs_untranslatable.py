"""Which event of an era-2 run is the first that has no v2 form."""

from typing import Final

from isoline_server.store.migrations import ddl

revision = "0014"
down_revision = "0013"

DDL: Final = """
ALTER TABLE runs
    ADD COLUMN IF NOT EXISTS untranslatable_seq BIGINT
"""


def upgrade() -> None:
    ddl.execute_on("runs", DDL)
