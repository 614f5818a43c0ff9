-- https://www.cockroachlabs.com/docs/v26.2/partial-indexes
CREATE INDEX IF NOT EXISTS runs_by_wake ON runs (region, tenant, wake_at, run_id) WHERE wake_at IS NOT NULL
