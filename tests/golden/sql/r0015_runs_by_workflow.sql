-- https://www.cockroachlabs.com/docs/v26.2/create-index
CREATE INDEX IF NOT EXISTS runs_by_workflow ON runs (region, tenant, workflow_id, created_at, run_id)
