-- https://www.cockroachlabs.com/docs/v26.2/row-level-ttl#add-or-update-the-row-level-ttl-for-an-existing-table
ALTER TABLE receipts SET (ttl_expiration_expression = $$(created_at + '90 days')$$, ttl_job_cron = '@daily')
