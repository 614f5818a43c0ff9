"""Folded states, from which folding may begin."""

from typing import Final

from isoline_server.store.migrations import ddl

revision = "0007"
down_revision = "0006"

DDL: Final = """
CREATE TABLE IF NOT EXISTS snapshots (
    region {region} NOT NULL,
    run_id VARCHAR(192){bytewise} NOT NULL,
    seq BIGINT NOT NULL,
    prefix_digest BYTEA NOT NULL,
    state BYTEA NOT NULL,
    state_digest BYTEA NOT NULL,
    CONSTRAINT snapshots_pkey PRIMARY KEY (region, run_id, seq)
){locality}
"""


def upgrade() -> None:
    ddl.execute(DDL)
