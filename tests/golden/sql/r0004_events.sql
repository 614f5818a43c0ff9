-- https://www.cockroachlabs.com/docs/v26.2/table-localities#regional-by-row-tables
CREATE TABLE IF NOT EXISTS events (
    region crdb_internal_region NOT NULL,
    run_id VARCHAR(192) NOT NULL,
    seq BIGINT NOT NULL,
    record BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    end_byte BIGINT NOT NULL,
    CONSTRAINT events_pkey PRIMARY KEY (region, run_id, seq)
) LOCALITY REGIONAL BY ROW AS region
