"""The ledger of external effects."""

from typing import Final

from isoline_server.store.migrations import ddl

revision = "0010"
down_revision = "0009"

DDL: Final = """
CREATE TABLE IF NOT EXISTS effects (
    region {region} NOT NULL,
    run_id VARCHAR(192){bytewise} NOT NULL,
    effect_id VARCHAR(128){bytewise} NOT NULL,
    tenant VARCHAR(133){bytewise} NOT NULL,
    node_id VARCHAR(128){bytewise} NOT NULL,
    visit BIGINT NOT NULL,
    ordinal BIGINT NOT NULL,
    seam VARCHAR(128){bytewise} NOT NULL,
    provider_key VARCHAR(512){bytewise} NOT NULL,
    request_digest BYTEA NOT NULL,
    state SMALLINT NOT NULL,
    attempt INTEGER NOT NULL,
    lease_epoch BIGINT NOT NULL,
    draws BYTEA NOT NULL,
    outcome BYTEA NOT NULL,
    cost BYTEA NOT NULL,
    first_claimed_at TIMESTAMPTZ NOT NULL,
    claimed_at TIMESTAMPTZ NOT NULL,
    outbound_at TIMESTAMPTZ,
    ended_at TIMESTAMPTZ,
    resolved_by VARCHAR(256){bytewise} NOT NULL,
    CONSTRAINT effects_pkey PRIMARY KEY (region, run_id, effect_id)
){locality}
"""


def upgrade() -> None:
    ddl.execute(DDL)
