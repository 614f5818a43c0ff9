-- https://www.cockroachlabs.com/docs/v26.2/table-localities#regional-by-row-tables
CREATE TABLE IF NOT EXISTS runs (
    region crdb_internal_region NOT NULL,
    run_id VARCHAR(192) NOT NULL,
    tenant VARCHAR(133) NOT NULL,
    workflow_id VARCHAR(128) NOT NULL,
    tags BYTEA NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    era SMALLINT NOT NULL,
    head_seq BIGINT NOT NULL,
    head_digest BYTEA NOT NULL,
    head_bytes BIGINT NOT NULL,
    terminal_seq BIGINT,
    fork_mode SMALLINT,
    source_run_id VARCHAR(192),
    from_seq BIGINT,
    prefix_digest BYTEA,
    overlay BYTEA,
    CONSTRAINT runs_pkey PRIMARY KEY (region, run_id)
) LOCALITY REGIONAL BY ROW AS region
