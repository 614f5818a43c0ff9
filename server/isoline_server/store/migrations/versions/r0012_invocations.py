"""The log of model invocations."""

from typing import Final

from isoline_server.store.migrations import ddl

revision = "0012"
down_revision = "0011"

DDL: Final = """
CREATE TABLE IF NOT EXISTS invocations (
    region {region} NOT NULL,
    run_id VARCHAR(192){bytewise} NOT NULL,
    node_id VARCHAR(128){bytewise} NOT NULL,
    execution BIGINT NOT NULL,
    key VARCHAR(64){bytewise} NOT NULL,
    repetition INTEGER NOT NULL,
    tenant VARCHAR(133){bytewise} NOT NULL,
    kind SMALLINT NOT NULL,
    response BYTEA NOT NULL,
    cost BYTEA NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT invocations_pkey PRIMARY KEY (region, run_id, node_id, execution, key, repetition)
){locality}
"""


def upgrade() -> None:
    ddl.execute(DDL)
