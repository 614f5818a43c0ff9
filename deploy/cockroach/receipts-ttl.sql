-- Optional, and nothing else may expire: let receipts older than 90 days go. Afterwards a repeat of a request that is older is taken for a new
-- one, so choose more than the longest time for which any client repeats. As isoline_owner, in the database.
-- https://www.cockroachlabs.com/docs/v26.2/row-level-ttl#add-or-update-the-row-level-ttl-for-an-existing-table
ALTER TABLE receipts SET (ttl_expiration_expression = $$(created_at + '90 days')$$, ttl_job_cron = '@daily');
