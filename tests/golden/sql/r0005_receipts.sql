-- https://www.cockroachlabs.com/docs/v26.2/table-localities#regional-by-row-tables
CREATE TABLE IF NOT EXISTS receipts (
    region crdb_internal_region NOT NULL,
    key BYTEA NOT NULL,
    request_hash BYTEA NOT NULL,
    run_id VARCHAR(192),
    first_seq BIGINT,
    last_seq BIGINT,
    digest BYTEA,
    created_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT receipts_pkey PRIMARY KEY (region, key)
) LOCALITY REGIONAL BY ROW AS region
