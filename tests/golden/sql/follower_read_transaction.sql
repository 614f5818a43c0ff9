-- https://www.cockroachlabs.com/docs/v26.2/follower-reads#exact-staleness-follower-reads-in-read-only-transactions
SET TRANSACTION AS OF SYSTEM TIME follower_read_timestamp()
