-- A new cluster: the database, its regions, the two roles. As an administrator, once; running it again changes nothing.
--   cockroach sql --certs-dir=certs --host=HOST -f cluster.sql
-- Regions are what the nodes were started with (cockroach start --locality=region=eu,...). Isoline's region codes are the same names, the
-- primary region first. Tables, and REGIONAL BY ROW on each of them, are made by `isoline migrate`; then comes grants.sql.
-- Replace eu, us, ap by yours; three or more, else SURVIVE REGION FAILURE is refused.

-- https://www.cockroachlabs.com/docs/v26.2/create-database
CREATE DATABASE IF NOT EXISTS isoline PRIMARY REGION "eu" REGIONS "eu", "us", "ap" SURVIVE REGION FAILURE;

-- Who migrates owns the tables; who serves may change none of them. Both log in with client certificates of these names.
-- https://www.cockroachlabs.com/docs/v26.2/create-user
CREATE USER IF NOT EXISTS isoline_owner;
CREATE USER IF NOT EXISTS isoline_server;

-- https://www.cockroachlabs.com/docs/v26.2/alter-database#owner-to
ALTER DATABASE isoline OWNER TO isoline_owner;

-- How far back reads may go: the ladder's older snapshots lie within it. This is the default, written down because Isoline relies on it.
-- https://www.cockroachlabs.com/docs/v26.2/configure-replication-zones#gc-ttlseconds
ALTER DATABASE isoline CONFIGURE ZONE USING gc.ttlseconds = 14400;

-- A statement that hangs must not hold a head for longer than any caller waits for it.
-- https://www.cockroachlabs.com/docs/v26.2/alter-role#set-default-session-variable-values-for-a-role
ALTER ROLE isoline_server SET statement_timeout = '30s';
ALTER ROLE isoline_server SET idle_in_transaction_session_timeout = '10s';
ALTER ROLE isoline_server SET default_transaction_isolation = 'serializable';
