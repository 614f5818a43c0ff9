-- https://www.cockroachlabs.com/docs/v26.2/alter-table#add-column
ALTER TABLE runs
    ADD COLUMN IF NOT EXISTS untranslatable_seq BIGINT