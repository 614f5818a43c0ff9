-- https://www.cockroachlabs.com/docs/v26.2/table-localities#regional-by-row-tables
CREATE TABLE IF NOT EXISTS engines (
    region crdb_internal_region NOT NULL,
    run_id VARCHAR(192) NOT NULL,
    engine VARCHAR(128) NOT NULL,
    last_engine_seq BIGINT NOT NULL,
    CONSTRAINT engines_pkey PRIMARY KEY (region, run_id, engine)
) LOCALITY REGIONAL BY ROW AS region
