"""``python -m benchmarks.scale.plans``: how PostgreSQL carries out lists and claims on 40,000 runs, by custom and by generic plans.

A statement that visits more rows than it returns grows with what it passes over; the plans say which do.
"""

import asyncio
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import psycopg
from psycopg.sql import Literal

from benchmarks import sides
from benchmarks.scale import load
from benchmarks.topology import HOME, Server, Topology, topology
from isoline_server.domain.ids import Region, parse_run_id
from isoline_server.store.sql_leases import claim_sql
from isoline_server.store.sql_reader import list_sql

SEEDS = 40
COPIES = 999
LEASED = 10_000
DEEP = 38_000
PAGE = 51

_PLACEHOLDER = re.compile(r"%\((\w+)\)s")
_LEASE = f"""
UPDATE runs SET executed = true, wake_at = now() - INTERVAL '1 hour', lease_owner = 'other', lease_epoch = 1,
                lease_expires_at = now() + INTERVAL '1 hour'
 WHERE run_id IN (SELECT run_id FROM runs WHERE workflow_id = 'bench' LIMIT {LEASED});
UPDATE runs SET executed = true, wake_at = now() - INTERVAL '1 minute'
 WHERE run_id IN (SELECT run_id FROM runs WHERE workflow_id = 'bench' AND wake_at IS NULL LIMIT 20);
ANALYZE runs"""
_BEHIND = f"""
SELECT (extract(epoch FROM created_at) * 1000000)::BIGINT, run_id FROM runs ORDER BY created_at DESC, run_id DESC OFFSET {DEEP} LIMIT 1"""


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with topology(folder, (), lambda text: print(text, file=sys.stderr)) as place:
        database = place.migrated_database()
        with place.isoline(database) as server:
            rare = asyncio.run(_seed(server))
        load.keep_seeds(place, database)
        place.execute(database, f"DELETE FROM scale_seeds WHERE run_id = '{rare}'")
        load.copy_runs(place, database, range(1, COPIES + 1))
        place.execute(database, "VACUUM (ANALYZE)")
        _explain_all(place, database, parse_run_id(rare)[0])
    return 0


async def _seed(server: Server) -> str:
    async with sides.ours(server.address) as log:
        await load.seed_runs(log.client, SEEDS)
        return (await log.client.create_run("rare")).run_id


def _explain_all(place: Topology, database: str, tenant: str) -> None:
    with psycopg.connect(place.url(database), autocommit=True) as connection:
        ((after_us, after_id),) = connection.execute(_BEHIND).fetchall()
        home = Region(HOME)
        first = {"tenant": tenant, "limit": PAGE}
        rare = {**first, "workflow_id": "rare"}
        deep = {**first, "after_us": after_us, "after_id": after_id}
        for mode in ("custom", "generic"):
            _explain(connection, "first page", mode, list_sql(home, of_workflow=False, behind=False), first)
            _explain(connection, "a workflow of one run", mode, list_sql(home, of_workflow=True, behind=False), rare)
            _explain(connection, "deep page", mode, list_sql(home, of_workflow=False, behind=True), deep)
        connection.execute(_LEASE)
        claim = {"tenant": tenant, "workflow_ids": [load.WORKFLOW], "owner": "bench", "ttl_ms": 60_000, "limit": 1}
        for mode in ("custom", "generic"):
            _explain(connection, f"claim behind {LEASED:,} leased runs", mode, claim_sql(Region(HOME)), claim)


def _explain(connection: psycopg.Connection, title: str, mode: str, sql: str, values: Mapping[str, object]) -> None:
    """Prepare the statement as psycopg does, carry it out under one kind of plan, and print the plan."""
    names = list(dict.fromkeys(_PLACEHOLDER.findall(sql)))
    numbered = _PLACEHOLDER.sub(lambda found: f"${names.index(found[1]) + 1}", sql)
    given = ", ".join(Literal(values[name]).as_string(connection) for name in names)
    connection.execute(f"SET plan_cache_mode = force_{mode}_plan")
    connection.execute(f"PREPARE asked AS {numbered}")
    plan = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) EXECUTE asked({given})").fetchall()
    connection.execute("DEALLOCATE asked")
    print(f"{title}, {mode} plan", *(f"  {line}" for (line,) in plan), sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
