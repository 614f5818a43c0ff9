"""The log itself."""

from typing import Final

from isoline_server.store.migrations import ddl

revision = "0004"
down_revision = "0003"

DDL: Final = """
CREATE TABLE IF NOT EXISTS events (
    region {region} NOT NULL,
    run_id VARCHAR(192){bytewise} NOT NULL,
    seq BIGINT NOT NULL,
    record BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    end_byte BIGINT NOT NULL,
    CONSTRAINT events_pkey PRIMARY KEY (region, run_id, seq)
){locality}
"""


def upgrade() -> None:
    ddl.execute(DDL)
