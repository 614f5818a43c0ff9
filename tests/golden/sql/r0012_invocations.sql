-- https://www.cockroachlabs.com/docs/v26.2/table-localities#regional-by-row-tables
CREATE TABLE IF NOT EXISTS invocations (
    region crdb_internal_region NOT NULL,
    run_id VARCHAR(192) NOT NULL,
    node_id VARCHAR(128) NOT NULL,
    execution BIGINT NOT NULL,
    key VARCHAR(64) NOT NULL,
    repetition INTEGER NOT NULL,
    tenant VARCHAR(133) NOT NULL,
    kind SMALLINT NOT NULL,
    response BYTEA NOT NULL,
    cost BYTEA NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT invocations_pkey PRIMARY KEY (region, run_id, node_id, execution, key, repetition)
) LOCALITY REGIONAL BY ROW AS region
