"""Which runs executors run, when each wants one, and its newest lease."""

from typing import Final

from isoline_server.store.migrations import ddl

revision = "0008"
down_revision = "0007"

DDL: Final = """
ALTER TABLE runs
    ADD COLUMN IF NOT EXISTS executed BOOLEAN NOT NULL DEFAULT false,
    ADD COLUMN IF NOT EXISTS wake_at TIMESTAMPTZ,
    ADD COLUMN IF NOT EXISTS called BOOLEAN NOT NULL DEFAULT false,
    ADD COLUMN IF NOT EXISTS lease_epoch BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS lease_owner VARCHAR(128){bytewise},
    ADD COLUMN IF NOT EXISTS lease_expires_at TIMESTAMPTZ
"""


def upgrade() -> None:
    ddl.execute_on("runs", DDL)
