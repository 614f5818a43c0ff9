"""One replica of the log, read-only (port ``LogReader``): the leader, or the region's own standby or follower.

Nothing here verifies: what comes out is what is stored, and the operations decide whether it is complete and true.
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from isoline_server.domain.ids import Region, RunId, Tenant, home_of
from isoline_server.domain.run import ForkMode, ForkOrigin, Head, LineageRange, Mark, Run, Source
from isoline_server.operations.ports import RawPage, ReplicaStatus, RunListing, Snapshot, StoreRetryable
from isoline_server.store import cockroach
from isoline_server.store.database import Database
from isoline_server.store.moments import microseconds
from isoline_server.store.tables import region_literal

_RUN_COLUMNS = """r.run_id, r.tenant, r.region, r.workflow_id, r.tags, r.created_at, r.era, r.head_seq, r.head_digest, r.head_bytes,
       r.terminal_seq, r.fork_mode, r.source_run_id, r.from_seq, r.prefix_digest, r.overlay, r.executed,
       r.memory_gap_seq, r.summary_gap_seq, r.untranslatable_seq"""

Translate = Callable[[RawPage, int], RawPage]
"""Makes a page as stored, which begins behind so many record bytes, into one as readers see it: the seat of the era-2 translation."""


class SqlLogReader:
    """``LogReader`` over one database. ``regions`` are all partitions a list has to look into. Nobody else reads records.

    ``heads``, on CockroachDB: the same replica for bounded reads, which show a run's head newer than a follower read may.
    ``age_s``: of a database that reads the past, how far back.
    """

    def __init__(
        self,
        database: Database,
        *,
        source: Source,
        regions: Sequence[Region],
        translate: Translate,
        heads: Database | None = None,
        age_s: int | None = None,
    ) -> None:
        self._database = database
        self._heads = heads
        self._age_s = age_s
        self._translate = translate
        self._regions = tuple(regions)
        self.source = source

    async def run(self, run_id: RunId) -> Run | None:
        rows = await self._database.fetch("run", run_sql(home_of(run_id)), {"run_id": run_id})
        if not rows:
            return None
        ranges = tuple(
            LineageRange(start_seq=row[-3], end_seq=row[-2], origin_run_id=RunId(row[-1]))
            for row in rows
            if row[-1] is not None
        )
        found = _run(rows[0][:-3], ranges)
        return found if self._heads is None else replace(found, head=await self._newest_head(found, self._heads))

    async def _newest_head(self, run: Run, heads: Database) -> Head:
        """The head by a bounded read; the one at hand when the replica cannot give a newer one."""
        try:
            rows = await heads.fetch(
                "bounded_head", cockroach.bounded_head(run.home, HEAD_STALENESS_MAX_S), {"run_id": run.run_id}
            )
        except StoreRetryable:
            return run.head
        if not rows or rows[0][0] <= run.head.seq:
            return run.head
        seq, digest, record_bytes, terminal_seq = rows[0]
        return replace(run.head, seq=seq, digest=digest, record_bytes=record_bytes, terminal_seq=terminal_seq)

    async def mark(self, origin_run_id: RunId, seq: int) -> Mark | None:
        rows = await self._database.fetch(
            "mark", mark_sql(home_of(origin_run_id)), {"run_id": origin_run_id, "seq": seq}
        )
        return Mark(seq=seq, digest=rows[0][0], end_byte=rows[0][1]) if rows else None

    async def page(
        self, origin_run_id: RunId, from_seq: int, until_seq: int, *, start_byte: int, bytes_max: int, events_max: int
    ) -> RawPage:
        rows = await self._database.fetch(
            "page",
            page_sql(home_of(origin_run_id)),
            {
                "run_id": origin_run_id,
                "from_seq": from_seq,
                "until_seq": min(until_seq, from_seq + events_max),
                "byte_max": start_byte + bytes_max,
            },
        )
        dense = _dense_count(rows, from_seq)
        stored = RawPage(
            first_seq=from_seq,
            records=[row[1] for row in rows[:dense]],
            digests=[row[2] for row in rows[:dense]],
            last_end_byte=rows[dense - 1][3] if dense else start_byte,
        )
        return self._translate(stored, start_byte)

    async def snapshot_at_or_before(self, origin_run_id: RunId, seq: int) -> Snapshot | None:
        rows = await self._database.fetch(
            "snapshot", snapshot_sql(home_of(origin_run_id)), {"run_id": origin_run_id, "seq": seq}
        )
        if not rows:
            return None
        found_seq, prefix_digest, state, state_digest = rows[0]
        return Snapshot(seq=found_seq, prefix_digest=prefix_digest, state=state, state_digest=state_digest)

    async def list_runs(self, tenant: Tenant, workflow_id: str, after: RunListing | None, limit: int) -> Sequence[Run]:
        found: list[Run] = []
        asked: dict[str, Any] = {"tenant": tenant, "limit": limit}
        if workflow_id:
            asked["workflow_id"] = workflow_id
        if after is not None:
            asked |= {"after_us": after.created_at_us, "after_id": after.run_id}
        for region in self._regions:
            sql = list_sql(region, of_workflow=bool(workflow_id), behind=after is not None)
            rows = await self._database.fetch("list_runs", sql, asked)
            found += (_run(row, ()) for row in rows)
        found.sort(key=lambda run: (run.created_at_us, run.run_id), reverse=True)
        return found[:limit]

    async def head_seqs(self, run_ids: Sequence[RunId]) -> Mapping[RunId, int]:
        heads: dict[RunId, int] = {}
        for region in sorted({home_of(run_id) for run_id in run_ids}):
            wanted = [run_id for run_id in run_ids if home_of(run_id) == region]
            rows = await self._database.fetch("head_seqs", head_seqs_sql(region), {"run_ids": wanted})
            heads.update((RunId(run_id), seq) for run_id, seq in rows)
        return heads

    async def status(self) -> ReplicaStatus:
        if self._database.is_cockroach:
            await self._database.fetch("status", "SELECT 1")
            return ReplicaStatus(is_leader=self.source is Source.LEADER, position=None, lag_ms=None)
        (row,) = await self._database.fetch("status", STATUS_SQL)
        return ReplicaStatus(
            is_leader=not row[0], position=int(row[1]), lag_ms=None if row[2] is None else max(0, int(row[2]))
        )

    async def staleness_ms(self) -> int | None:
        if self._age_s is not None:
            return self._age_s * 1000
        if self._database.is_cockroach:
            return FOLLOWER_READ_AGE_MS
        ((age_ms,),) = await self._database.fetch("staleness", STALENESS_SQL)
        return None if age_ms is None else max(0, int(age_ms))


HEAD_STALENESS_MAX_S = 10
"""How old a head may be that a bounded read gives: more than a follower read's age, so that there always is one."""

FOLLOWER_READ_AGE_MS = 5_000
"""CockroachDB: what ``follower_read_timestamp()`` lies back (4.2 s), rounded up. https://www.cockroachlabs.com/docs/v26.2/follower-reads"""

STALENESS_SQL = """
SELECT CASE WHEN NOT pg_is_in_recovery() THEN NULL
            ELSE (extract(epoch FROM clock_timestamp() - greatest(
                   pg_last_xact_replay_timestamp(),
                   (SELECT last_msg_send_time FROM pg_stat_wal_receiver
                     WHERE status = 'streaming' AND latest_end_lsn <= pg_last_wal_replay_lsn()))) * 1000)::BIGINT END"""
"""PostgreSQL: the age of the newest moment at which a standby is known to have shown everything: when the leader last said that there is nothing
newer than what was replayed, or else the newest commit replayed. Both are the leader's times; clocks that differ make the answer differ."""

STATUS_SQL = """
SELECT pg_is_in_recovery(),
       CASE WHEN pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0') ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') END,
       CASE WHEN NOT pg_is_in_recovery() OR pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
            ELSE (extract(epoch FROM now() - pg_last_xact_replay_timestamp()) * 1000)::BIGINT END"""
"""PostgreSQL: whether the node follows, its log position in bytes, and the age of what it shows when it is behind what it received."""


@functools.cache
def run_sql(region: Region) -> str:
    """A run with its lineage, one row a range (one row with nulls when it has none)."""
    r = region_literal(region)
    return f"""
SELECT {_RUN_COLUMNS}, l.start_seq, l.end_seq, l.origin_run_id
  FROM runs AS r LEFT JOIN lineage AS l ON l.region = {r} AND l.run_id = r.run_id
 WHERE r.region = {r} AND r.run_id = %(run_id)s::TEXT
 ORDER BY l.start_seq"""


@functools.cache
def mark_sql(region: Region) -> str:
    """The digest and byte count behind one event."""
    return f"""
SELECT digest, end_byte FROM events
 WHERE region = {region_literal(region)} AND run_id = %(run_id)s::TEXT AND seq = %(seq)s::BIGINT"""


@functools.cache
def page_sql(region: Region) -> str:
    """Events of one log in order, cut by the running byte count, so that no row has to be measured; the first one always."""
    return f"""
SELECT seq, record, digest, end_byte FROM events
 WHERE region = {region_literal(region)} AND run_id = %(run_id)s::TEXT AND seq >= %(from_seq)s::BIGINT AND seq < %(until_seq)s::BIGINT
   AND (end_byte <= %(byte_max)s::BIGINT OR seq = %(from_seq)s::BIGINT)
 ORDER BY seq"""


@functools.cache
def snapshot_sql(region: Region) -> str:
    """The newest snapshot at or before a seq."""
    return f"""
SELECT seq, prefix_digest, state, state_digest FROM snapshots
 WHERE region = {region_literal(region)} AND run_id = %(run_id)s::TEXT AND seq <= %(seq)s::BIGINT
 ORDER BY seq DESC LIMIT 1"""


@functools.cache
def list_sql(region: Region, *, of_workflow: bool, behind: bool) -> str:
    """A tenant's runs of one partition, newest first; of one workflow; behind a (creation time, id).

    A statement for each case: a condition that may be switched off inside one is no condition of an index, and every row before is visited.
    """
    workflow = "\n   AND r.workflow_id = %(workflow_id)s::TEXT" if of_workflow else ""
    moment = "TIMESTAMPTZ 'epoch' + %(after_us)s::BIGINT * INTERVAL '1 microsecond'"
    after = f"\n   AND (r.created_at, r.run_id) < ({moment}, %(after_id)s::TEXT)" if behind else ""
    return f"""
SELECT {_RUN_COLUMNS} FROM runs AS r
 WHERE r.region = {region_literal(region)} AND r.tenant = %(tenant)s::TEXT{workflow}{after}
 ORDER BY r.created_at DESC, r.run_id DESC LIMIT %(limit)s::BIGINT"""


@functools.cache
def head_seqs_sql(region: Region) -> str:
    """The head seqs of many runs."""
    return f"""
SELECT run_id, head_seq FROM runs WHERE region = {region_literal(region)} AND run_id = ANY(%(run_ids)s::TEXT[])"""


def _run(row: Sequence[Any], ranges: tuple[LineageRange, ...]) -> Run:
    (
        run_id,
        tenant,
        region,
        workflow_id,
        tags,
        created_at,
        era,
        head_seq,
        head_digest,
        head_bytes,
        terminal_seq,
        *fork,
        executed,
        memory_gap_seq,
        summary_gap_seq,
        untranslatable_seq,
    ) = row
    origin = _fork_origin(fork)
    return Run(
        run_id=RunId(run_id),
        tenant=Tenant(tenant),
        home=Region(region),
        workflow_id=workflow_id,
        tags=tuple(json.loads(tags)),
        created_at_us=microseconds(created_at),
        era=era,
        head=Head(
            seq=head_seq,
            digest=head_digest,
            record_bytes=head_bytes,
            terminal_seq=terminal_seq,
            mode=None if origin is None else origin.mode,
            memory_gap_seq=memory_gap_seq,
            summary_gap_seq=summary_gap_seq,
            era=era,
        ),
        fork=origin,
        lineage=ranges,
        executed=executed,
        untranslatable_seq=untranslatable_seq,
    )


def _fork_origin(columns: Sequence[Any]) -> ForkOrigin | None:
    mode, source_run_id, from_seq, prefix_digest, overlay = columns
    if mode is None:
        return None
    return ForkOrigin(
        source_run_id=RunId(source_run_id),
        from_seq=from_seq,
        prefix_digest=prefix_digest,
        mode=ForkMode(mode),
        overlay=overlay,
    )


def _dense_count(rows: Sequence[Sequence[Any]], from_seq: int) -> int:
    """How many rows from the first on are consecutive: behind a hole nothing is served."""
    if not rows or rows[0][0] != from_seq:
        return 0
    if rows[-1][0] == from_seq + len(rows) - 1:
        return len(rows)
    return next((index for index, row in enumerate(rows) if row[0] != from_seq + index), len(rows))
