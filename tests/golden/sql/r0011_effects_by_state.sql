-- https://www.cockroachlabs.com/docs/v26.2/create-index
CREATE INDEX IF NOT EXISTS effects_by_state ON effects (region, tenant, state, first_claimed_at, run_id, effect_id)
