-- https://www.cockroachlabs.com/docs/v26.2/table-localities#regional-by-row-tables
CREATE TABLE IF NOT EXISTS snapshots (
    region crdb_internal_region NOT NULL,
    run_id VARCHAR(192) NOT NULL,
    seq BIGINT NOT NULL,
    prefix_digest BYTEA NOT NULL,
    state BYTEA NOT NULL,
    state_digest BYTEA NOT NULL,
    CONSTRAINT snapshots_pkey PRIMARY KEY (region, run_id, seq)
) LOCALITY REGIONAL BY ROW AS region
