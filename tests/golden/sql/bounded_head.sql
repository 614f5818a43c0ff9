-- https://www.cockroachlabs.com/docs/v26.2/follower-reads#bounded-staleness-reads
SELECT head_seq, head_digest, head_bytes, terminal_seq
  FROM runs AS OF SYSTEM TIME with_max_staleness('10s', true)
 WHERE region = 'eu' AND run_id = %(run_id)s::TEXT
