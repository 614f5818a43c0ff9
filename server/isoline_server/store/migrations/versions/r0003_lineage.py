"""Which run's log holds which part of a fork."""

from typing import Final

from isoline_server.store.migrations import ddl

revision = "0003"
down_revision = "0002"

DDL: Final = """
CREATE TABLE IF NOT EXISTS lineage (
    region {region} NOT NULL,
    run_id VARCHAR(192){bytewise} NOT NULL,
    start_seq BIGINT NOT NULL,
    end_seq BIGINT NOT NULL,
    origin_run_id VARCHAR(192){bytewise} NOT NULL,
    CONSTRAINT lineage_pkey PRIMARY KEY (region, run_id, start_seq)
){locality}
"""


def upgrade() -> None:
    ddl.execute(DDL)
