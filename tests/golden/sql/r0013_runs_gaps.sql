-- https://www.cockroachlabs.com/docs/v26.2/alter-table#add-column
ALTER TABLE runs
    ADD COLUMN IF NOT EXISTS memory_gap_seq BIGINT,
    ADD COLUMN IF NOT EXISTS summary_gap_seq BIGINT
