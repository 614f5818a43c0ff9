"""Fills a database: some runs through a real server, the others as copies of their rows.

The chain holds neither run ids nor regions, so a copy under a new run id is a whole, verifiable run: its bytes and its digests are those that
the server made. Only ids and receipt keys are new, and both are hashes, so that indexes are filled in random order, as they are in use.
"""

from collections.abc import Sequence
from hashlib import sha256

import isoline_client
from benchmarks.payloads import EVENT_TYPE, payloads
from benchmarks.topology import Topology

EVENTS_A_RUN = 10
APPENDS_A_RUN = 2
WORKFLOW = "bench"
LONG_EVENTS_A_CALL = 1_000

_DIGITS = "0189"
_LETTERS = "ghij"
"""Hexadecimal digits that base32 does not have, and what stands for them."""
_RANDOM_CHARS = 26

_ID = """region_part || left(translate(encode(sha256(convert_to(seed.run_id || '#' || k, 'UTF8')), 'hex'), '0189', 'ghij'), 26)"""
_NEW = f"""
CREATE TEMPORARY TABLE copies AS
SELECT seed.run_id AS old_id, k, {_ID} AS run_id
  FROM (SELECT run_id, left(run_id, -26) AS region_part FROM scale_seeds) AS seed, generate_series(%d, %d) AS k
 ORDER BY k, seed.run_id"""
_ANALYZE_COPIES = "ANALYZE copies"
_RUN_COLUMNS = """tenant, workflow_id, tags, era, head_seq, head_digest, head_bytes, executed, called, lease_epoch"""
_RUNS = f"""
INSERT INTO runs (region, run_id, created_at, {_RUN_COLUMNS})
SELECT r.region, c.run_id, r.created_at + c.k * INTERVAL '1 second', {", ".join("r." + name.strip() for name in _RUN_COLUMNS.split(","))}
  FROM copies AS c JOIN scale_seeds AS r ON r.run_id = c.old_id ORDER BY c.k, c.old_id"""
_EVENTS = """
INSERT INTO events (region, run_id, seq, record, digest, end_byte)
SELECT e.region, c.run_id, e.seq, e.record, e.digest, e.end_byte
  FROM copies AS c JOIN scale_events AS e ON e.run_id = c.old_id ORDER BY c.k, c.old_id, e.seq"""
_RECEIPTS = """
INSERT INTO receipts (region, key, request_hash, run_id, first_seq, last_seq, digest, created_at)
SELECT r.region, sha256(r.key || int4send(k::INTEGER)), r.request_hash, CASE WHEN r.run_id IS NOT NULL THEN c.run_id END,
       r.first_seq, r.last_seq, r.digest, r.created_at
  FROM scale_receipts AS r JOIN copies AS c ON c.old_id = r.owner ORDER BY c.k, c.old_id"""
_PREPARE = (
    "CREATE TABLE scale_seeds AS SELECT * FROM runs",
    "CREATE TABLE scale_events AS SELECT * FROM events",
    # A receipt of an append does not name its run; the digest it ends with stands behind one event only.
    """CREATE TABLE scale_receipts AS SELECT r.*, COALESCE(r.run_id, e.run_id) AS owner
         FROM receipts AS r LEFT JOIN events AS e ON e.region = r.region AND e.digest = r.digest AND e.seq = r.last_seq""",
    "ANALYZE scale_seeds, scale_events, scale_receipts",
)


def copy_id(seed: str, number: int) -> str:
    """The id of a copy, as the database makes it."""
    letters = sha256(f"{seed}#{number}".encode()).hexdigest().translate(str.maketrans(_DIGITS, _LETTERS))
    return seed[:-_RANDOM_CHARS] + letters[:_RANDOM_CHARS]


async def seed_runs(client: isoline_client.Client, count: int) -> list[str]:
    """Make runs through the server, each of other bytes."""
    made = []
    for number in range(count):
        run = await client.create_run(WORKFLOW)
        supply = [isoline_client.NewEvent(EVENT_TYPE, each) for each in payloads(EVENTS_A_RUN, seed=number)]
        step = EVENTS_A_RUN // APPENDS_A_RUN
        for start in range(0, EVENTS_A_RUN, step):
            await run.append(supply[start : start + step], expected_seq=start)
        made.append(run.run_id)
    return made


async def long_run(client: isoline_client.Client, events: int) -> str:
    """Make one long run through the server."""
    run = await client.create_run("long")
    supply = [isoline_client.NewEvent(EVENT_TYPE, each) for each in payloads(LONG_EVENTS_A_CALL)]
    for start in range(0, events, LONG_EVENTS_A_CALL):
        await run.append(supply[: events - start], expected_seq=start)
    return run.run_id


def keep_seeds(place: Topology, database: str) -> None:
    """Set the rows aside that are copied later."""
    for statement in _PREPARE:
        place.execute(database, statement)


def copy_runs(place: Topology, database: str, numbers: Sequence[int]) -> None:
    """Add copies with these consecutive numbers of every seed, in one session that does not wait for the disk."""
    make = _NEW % (numbers[0], numbers[-1])
    steps = ("SET synchronous_commit = off", make, _ANALYZE_COPIES, _RUNS, _EVENTS, _RECEIPTS, "DROP TABLE copies")
    place.execute(database, ";".join(steps))


_SHAPES = """
SELECT 'runs', pg_column_size(t.*) FROM runs AS t WHERE workflow_id = 'bench' AND fork_mode IS NULL AND run_id {among} (SELECT run_id FROM scale_seeds)
UNION SELECT 'events', pg_column_size(t.*) FROM events AS t WHERE seq < {events} AND run_id {among}
  (SELECT run_id FROM scale_seeds UNION SELECT run_id FROM runs WHERE workflow_id <> 'bench' AND '{among}' = 'NOT IN')
ORDER BY 1, 2"""


def check_copies(place: Topology, database: str) -> None:
    """Raise ``RuntimeError`` unless the rows of copies have exactly the lengths that the server's own have."""
    seeds, copies = (
        place.execute(database, _SHAPES.format(among=among, events=EVENTS_A_RUN)) for among in ("IN", "NOT IN")
    )
    if seeds != copies:
        raise RuntimeError(f"rows of copies are not like those of seeds: {copies} and {seeds}")
