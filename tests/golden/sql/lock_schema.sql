-- https://www.cockroachlabs.com/docs/v26.2/with-storage-parameter#table-parameters
ALTER TABLE "runs" SET (schema_locked = true)
