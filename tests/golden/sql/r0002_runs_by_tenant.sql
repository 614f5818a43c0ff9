-- https://www.cockroachlabs.com/docs/v26.2/create-index
CREATE INDEX IF NOT EXISTS runs_by_tenant ON runs (region, tenant, created_at, run_id)
