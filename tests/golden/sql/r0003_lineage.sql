-- https://www.cockroachlabs.com/docs/v26.2/table-localities#regional-by-row-tables
CREATE TABLE IF NOT EXISTS lineage (
    region crdb_internal_region NOT NULL,
    run_id VARCHAR(192) NOT NULL,
    start_seq BIGINT NOT NULL,
    end_seq BIGINT NOT NULL,
    origin_run_id VARCHAR(192) NOT NULL,
    CONSTRAINT lineage_pkey PRIMARY KEY (region, run_id, start_seq)
) LOCALITY REGIONAL BY ROW AS region
