"""The table of runs, with the head of each."""

from typing import Final

from isoline_server.store.migrations import ddl

revision = "0001"
down_revision = None

DDL: Final = """
CREATE TABLE IF NOT EXISTS runs (
    region {region} NOT NULL,
    run_id VARCHAR(192){bytewise} NOT NULL,
    tenant VARCHAR(133){bytewise} NOT NULL,
    workflow_id VARCHAR(128){bytewise} NOT NULL,
    tags BYTEA NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    era SMALLINT NOT NULL,
    head_seq BIGINT NOT NULL,
    head_digest BYTEA NOT NULL,
    head_bytes BIGINT NOT NULL,
    terminal_seq BIGINT,
    fork_mode SMALLINT,
    source_run_id VARCHAR(192){bytewise},
    from_seq BIGINT,
    prefix_digest BYTEA,
    overlay BYTEA,
    CONSTRAINT runs_pkey PRIMARY KEY (region, run_id)
){locality}
"""


def upgrade() -> None:
    ddl.execute(DDL)
