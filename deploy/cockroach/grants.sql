-- What the servers' role may do, after each `isoline migrate`, for a new table gives it nothing by itself. As an administrator (CockroachDB) or
-- as the owner of the database (PostgreSQL takes the same text), in the database:
--   cockroach sql --certs-dir=certs --host=HOST --database=isoline -f grants.sql
--   psql -d isoline -f grants.sql
-- Nobody but an administrator and isoline_owner can then change an event, where a fork begins, a snapshot, a receipt, or what a model said.
-- https://www.cockroachlabs.com/docs/v26.2/grant
-- https://www.cockroachlabs.com/docs/v26.2/revoke

GRANT USAGE, CREATE ON SCHEMA public TO isoline_owner;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO isoline_server;

-- Written once.
GRANT SELECT, INSERT ON TABLE events, lineage, snapshots, invocations, receipts TO isoline_server;
REVOKE UPDATE, DELETE ON TABLE events, lineage, snapshots, invocations, receipts FROM isoline_server;

-- Heads and leases, the counters of engines, the ledger of effects: they move by compare-and-set. Nothing is deleted.
GRANT SELECT, INSERT, UPDATE ON TABLE runs, engines, effects TO isoline_server;
REVOKE DELETE ON TABLE runs, engines, effects FROM isoline_server;

-- A server reads which schema it is; the rest is for who migrates.
GRANT SELECT ON TABLE isoline_schema_version TO isoline_server;
REVOKE INSERT, UPDATE, DELETE ON TABLE isoline_schema_version FROM isoline_server;
REVOKE SELECT, INSERT, UPDATE, DELETE ON TABLE isoline_migration_lease FROM isoline_server;
