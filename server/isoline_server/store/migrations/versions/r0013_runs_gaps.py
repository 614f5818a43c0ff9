"""Behind which seqs a run's log alone does not tell its memory or its summaries: no executed fork may begin there."""

from typing import Final

from isoline_server.store.migrations import ddl

revision = "0013"
down_revision = "0012"

DDL: Final = """
ALTER TABLE runs
    ADD COLUMN IF NOT EXISTS memory_gap_seq BIGINT,
    ADD COLUMN IF NOT EXISTS summary_gap_seq BIGINT
"""


def upgrade() -> None:
    ddl.execute_on("runs", DDL)
