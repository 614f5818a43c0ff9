"""How far each engine has counted in each run."""

from typing import Final

from isoline_server.store.migrations import ddl

revision = "0006"
down_revision = "0005"

DDL: Final = """
CREATE TABLE IF NOT EXISTS engines (
    region {region} NOT NULL,
    run_id VARCHAR(192){bytewise} NOT NULL,
    engine VARCHAR(128){bytewise} NOT NULL,
    last_engine_seq BIGINT NOT NULL,
    CONSTRAINT engines_pkey PRIMARY KEY (region, run_id, engine)
){locality}
"""


def upgrade() -> None:
    ddl.execute(DDL)
