"""The outcomes that answer a repeated request."""

from typing import Final

from isoline_server.store.migrations import ddl

revision = "0005"
down_revision = "0004"

DDL: Final = """
CREATE TABLE IF NOT EXISTS receipts (
    region {region} NOT NULL,
    key BYTEA NOT NULL,
    request_hash BYTEA NOT NULL,
    run_id VARCHAR(192){bytewise},
    first_seq BIGINT,
    last_seq BIGINT,
    digest BYTEA,
    created_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT receipts_pkey PRIMARY KEY (region, key)
){locality}
"""


def upgrade() -> None:
    ddl.execute(DDL)
