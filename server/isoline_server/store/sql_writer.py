"""The leader's side of the log (port ``LogWriter``): every change of the service as one statement.

Region names are rendered as literals: they come from a closed, validated set, and on CockroachDB a generic plan with a placeholder for the
region cannot know which partition it touches (cockroachdb/cockroach issue 147805).
"""

import functools
import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from isoline_server.domain.ids import Region, RunId
from isoline_server.domain.receipt import Receipt
from isoline_server.domain.run import ForkMode, Head, Run
from isoline_server.operations.ports import EventsWrite, GroupWrite, KeySeen, Snapshot
from isoline_server.store.arrays import BigintArray, BooleanArray, ByteaArray, TextArray
from isoline_server.store.database import Database, UniqueKey
from isoline_server.store.tables import region_literal

SEEN_BY = frozenset({"receipts_pkey", "events_pkey", "runs_pkey", "lineage_pkey"})
"""Keys that a statement can meet only when it, or another with its request key, landed before. Which one is met first is the database's
affair: a run's id is random, so a row with it is our own earlier try."""


class SqlLogWriter:
    """``LogWriter`` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, region: Region, groups: Sequence[GroupWrite]) -> frozenset[RunId]:
        begun_s = time.monotonic()
        if len(groups) > 1:
            rows = await self._write("append", append_sql(region), append_params(groups))
        elif _is_single(groups[0]):
            rows = await self._write("append", append_single_sql(region), _single_params(groups[0]))
        else:
            rows = await self._write("append", append_group_sql(region), _group_params(groups[0]))
        if rows:
            self._database.acknowledged(begun_s)
        return frozenset(cast("RunId", row[0]) for row in rows)

    async def load_heads(self, region: Region, run_ids: Sequence[RunId]) -> Mapping[RunId, Head]:
        rows = await self._database.fetch("load_heads", heads_sql(region), {"run_ids": list(run_ids)})
        await (
            self._database.prove()
        )  # a refusal may follow from them, which a node that does not lead any more must not cause
        return {
            RunId(run_id): Head(
                seq=seq,
                digest=digest,
                record_bytes=size,
                terminal_seq=terminal,
                lease_epoch=epoch,
                mode=None if mode is None else ForkMode(mode),
                memory_gap_seq=memory_gap,
                summary_gap_seq=summary_gap,
                era=era,
            )
            for run_id, seq, digest, size, terminal, epoch, mode, memory_gap, summary_gap, era in rows
        }

    async def load_receipts(self, region: Region, keys: Sequence[bytes]) -> Mapping[bytes, Receipt]:
        found = await load_receipts(self._database, region, keys)
        if found:
            await self._database.wait_until_durable()
        return found

    async def load_engine_seqs(
        self, region: Region, engines: Sequence[tuple[RunId, str]]
    ) -> Mapping[tuple[RunId, str], int]:
        params = {"run_ids": [run_id for run_id, _ in engines], "engines": [engine for _, engine in engines]}
        rows = await self._database.fetch("load_engine_seqs", engine_seqs_sql(region), params)
        return {(RunId(run_id), engine): last for run_id, engine, last in rows}

    async def insert_run(self, run: Run, receipt: Receipt, receipt_region: Region) -> None:
        await self._write("insert_run", insert_run_sql(run.home, receipt_region), _run_params(run, receipt))

    async def insert_events(self, region: Region, events: EventsWrite) -> bool:
        params = {
            "run_id": events.run_id,
            "first_seq": events.first_seq,
            "records": events.records,
            "digests": events.digests,
            "end_bytes": events.end_bytes,
        }
        added = await self._database.fetch("insert_events", insert_events_sql(region), params)
        if len(added) == len(events.records):
            return True
        ((equal,),) = await self._database.fetch("equal_events", equal_events_sql(region), params)
        return bool(equal == len(events.records))

    async def insert_snapshot(self, region: Region, run_id: RunId, snapshot: Snapshot) -> None:
        await self._database.fetch(
            "insert_snapshot",
            insert_snapshot_sql(region),
            {
                "run_id": run_id,
                "seq": snapshot.seq,
                "prefix_digest": snapshot.prefix_digest,
                "state": snapshot.state,
                "state_digest": snapshot.state_digest,
            },
        )

    async def _write(self, operation: str, sql: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        try:
            return await self._database.fetch(operation, sql, params)
        except UniqueKey as error:
            if error.constraint in SEEN_BY:
                raise KeySeen from error
            raise


async def load_receipts(database: Database, region: Region, keys: Sequence[bytes]) -> dict[bytes, Receipt]:
    """The receipts that one node shows among ``keys``. Raises ``StoreRetryable``."""
    rows = await database.fetch("load_receipts", receipts_sql(region), {"keys": list(keys)})
    return {
        key: Receipt(
            key=key, request_hash=request_hash, run_id=run_id, first_seq=first_seq, last_seq=last_seq, digest=digest
        )
        for key, request_hash, run_id, first_seq, last_seq, digest in rows
    }


def _fenced(epoch: str) -> str:
    """The append is not under a lease, or its lease is the run's newest."""
    return f"({epoch} = 0 OR runs.lease_epoch = {epoch})"


def _woken(wakes: str) -> str:
    """When a run wants an executor, once events from outside were appended to it. One that waits already keeps its place."""
    return f"CASE WHEN {wakes} AND executed AND (wake_at IS NULL OR wake_at > now()) THEN now() ELSE wake_at END"


@functools.cache
def append_single_sql(region: Region) -> str:
    """``append_sql`` for the commonest append: one event, one receipt, no engine. Twenty arrays of one element cost more than the statement."""
    r = region_literal(region)
    return f"""
WITH moved AS (
  UPDATE runs SET head_seq = %(seq)b::BIGINT, head_digest = %(digest)b::BYTEA, head_bytes = %(end_byte)b::BIGINT,
                  terminal_seq = %(terminal)b::BIGINT, memory_gap_seq = %(memory_gap)b::BIGINT, summary_gap_seq = %(summary_gap)b::BIGINT,
                  wake_at = {_woken("%(wakes)b::BOOLEAN")}
   WHERE region = {r} AND run_id = %(run_id)b::TEXT AND head_seq = %(seq)b::BIGINT - 1 AND head_digest = %(old_digest)b::BYTEA
     AND {_fenced("%(lease_epoch)b::BIGINT")}
  RETURNING run_id
), added AS (
  INSERT INTO events (region, run_id, seq, record, digest, end_byte)
  SELECT {r}, run_id, %(seq)b::BIGINT, %(record)b::BYTEA, %(digest)b::BYTEA, %(end_byte)b::BIGINT FROM moved
), kept AS (
  INSERT INTO receipts (region, key, request_hash, first_seq, last_seq, digest, created_at)
  SELECT {r}, %(key)b::BYTEA, %(request_hash)b::BYTEA, %(seq)b::BIGINT, %(seq)b::BIGINT, %(digest)b::BYTEA, now() FROM moved
)
SELECT run_id FROM moved"""


@functools.cache
def append_group_sql(region: Region) -> str:
    """``append_sql`` for one run: its events need no run and no seq of their own."""
    r = region_literal(region)
    return f"""
WITH moved AS (
  UPDATE runs SET head_seq = %(seq)b::BIGINT, head_digest = %(digest)b::BYTEA, head_bytes = %(end_byte)b::BIGINT,
                  terminal_seq = %(terminal)b::BIGINT, memory_gap_seq = %(memory_gap)b::BIGINT, summary_gap_seq = %(summary_gap)b::BIGINT,
                  wake_at = {_woken("%(wakes)b::BOOLEAN")}
   WHERE region = {r} AND run_id = %(run_id)b::TEXT AND head_seq = %(old_seq)b::BIGINT AND head_digest = %(old_digest)b::BYTEA
     AND {_fenced("%(lease_epoch)b::BIGINT")}
  RETURNING run_id
), added AS (
  INSERT INTO events (region, run_id, seq, record, digest, end_byte)
  SELECT {r}, moved.run_id, %(old_seq)b::BIGINT + e.place, e.record, e.digest, e.end_byte
    FROM moved, unnest(%(records)b::BYTEA[], %(digests)b::BYTEA[], %(end_bytes)b::BIGINT[]) WITH ORDINALITY AS e(record, digest, end_byte, place)
), kept AS (
  INSERT INTO receipts (region, key, request_hash, first_seq, last_seq, digest, created_at)
  SELECT {r}, c.key, c.request_hash, c.first_seq, c.last_seq, c.digest, now()
    FROM moved, unnest(%(keys)b::BYTEA[], %(hashes)b::BYTEA[], %(firsts)b::BIGINT[], %(lasts)b::BIGINT[], %(receipt_digests)b::BYTEA[])
      AS c(key, request_hash, first_seq, last_seq, digest)
), counted AS (
  INSERT INTO engines (region, run_id, engine, last_engine_seq)
  SELECT {r}, moved.run_id, n.engine, n.last_engine_seq
    FROM moved, unnest(%(engines)b::TEXT[], %(engine_seqs)b::BIGINT[]) AS n(engine, last_engine_seq)
  ON CONFLICT (region, run_id, engine) DO UPDATE SET last_engine_seq = excluded.last_engine_seq
)
SELECT run_id FROM moved"""


@functools.cache
def append_sql(region: Region) -> str:
    """Compare-and-set of every head, then the events, receipts and engine counters of the runs that moved. Returns their ids."""
    r = region_literal(region)
    return f"""
WITH moved AS (
  UPDATE runs SET head_seq = g.new_seq, head_digest = g.new_digest, head_bytes = g.new_bytes, terminal_seq = g.new_terminal,
                  memory_gap_seq = g.new_memory_gap, summary_gap_seq = g.new_summary_gap, wake_at = {_woken("g.wakes")}
    FROM unnest(%(run_ids)b::TEXT[], %(old_seqs)b::BIGINT[], %(old_digests)b::BYTEA[], %(new_seqs)b::BIGINT[], %(new_digests)b::BYTEA[],
                %(new_bytes)b::BIGINT[], %(new_terminals)b::BIGINT[], %(memory_gaps)b::BIGINT[], %(summary_gaps)b::BIGINT[],
                %(lease_epochs)b::BIGINT[], %(wakes)b::BOOLEAN[])
      AS g(run_id, old_seq, old_digest, new_seq, new_digest, new_bytes, new_terminal, new_memory_gap, new_summary_gap, lease_epoch, wakes)
   WHERE runs.region = {r} AND runs.run_id = g.run_id AND runs.head_seq = g.old_seq AND runs.head_digest = g.old_digest
     AND {_fenced("g.lease_epoch")}
  RETURNING runs.run_id
), added AS (
  INSERT INTO events (region, run_id, seq, record, digest, end_byte)
  SELECT {r}, moved.run_id, e.seq, e.record, e.digest, e.end_byte
    FROM unnest(%(event_runs)b::TEXT[], %(event_seqs)b::BIGINT[], %(event_records)b::BYTEA[], %(event_digests)b::BYTEA[],
                %(event_bytes)b::BIGINT[]) AS e(run_id, seq, record, digest, end_byte)
    JOIN moved ON moved.run_id = e.run_id
), kept AS (
  INSERT INTO receipts (region, key, request_hash, first_seq, last_seq, digest, created_at)
  SELECT {r}, c.key, c.request_hash, c.first_seq, c.last_seq, c.digest, now()
    FROM unnest(%(receipt_runs)b::TEXT[], %(receipt_keys)b::BYTEA[], %(receipt_hashes)b::BYTEA[], %(receipt_firsts)b::BIGINT[],
                %(receipt_lasts)b::BIGINT[], %(receipt_digests)b::BYTEA[]) AS c(run_id, key, request_hash, first_seq, last_seq, digest)
    JOIN moved ON moved.run_id = c.run_id
), counted AS (
  INSERT INTO engines (region, run_id, engine, last_engine_seq)
  SELECT {r}, moved.run_id, n.engine, n.last_engine_seq
    FROM unnest(%(engine_runs)b::TEXT[], %(engine_names)b::TEXT[], %(engine_seqs)b::BIGINT[]) AS n(run_id, engine, last_engine_seq)
    JOIN moved ON moved.run_id = n.run_id
  ON CONFLICT (region, run_id, engine) DO UPDATE SET last_engine_seq = excluded.last_engine_seq
)
SELECT run_id FROM moved"""


def _is_single(group: GroupWrite) -> bool:
    return len(group.records) == 1 and len(group.receipts) == 1 and not group.engines


def _single_params(group: GroupWrite) -> dict[str, Any]:
    (receipt,) = group.receipts
    return {
        **_head_params(group),
        "record": group.records[0],
        "key": receipt.key,
        "request_hash": receipt.request_hash,
    }


def _group_params(group: GroupWrite) -> dict[str, Any]:
    return {
        **_head_params(group),
        "old_seq": group.previous.seq,
        "records": ByteaArray(group.records),
        "digests": ByteaArray(group.digests),
        "end_bytes": BigintArray(group.end_bytes),
        "keys": ByteaArray([receipt.key for receipt in group.receipts]),
        "hashes": ByteaArray([receipt.request_hash for receipt in group.receipts]),
        "firsts": BigintArray([receipt.first_seq for receipt in group.receipts]),
        "lasts": BigintArray([receipt.last_seq for receipt in group.receipts]),
        "receipt_digests": ByteaArray([receipt.digest for receipt in group.receipts]),
        "engines": TextArray(list(group.engines)),
        "engine_seqs": BigintArray(list(group.engines.values())),
    }


def _head_params(group: GroupWrite) -> dict[str, Any]:
    return {
        "run_id": group.run_id,
        "seq": group.head.seq,
        "old_digest": group.previous.digest,
        "digest": group.head.digest,
        "end_byte": group.head.record_bytes,
        "terminal": group.head.terminal_seq,
        "memory_gap": group.head.memory_gap_seq,
        "summary_gap": group.head.summary_gap_seq,
        "lease_epoch": group.lease_epoch,
        "wakes": group.wakes,
    }


def append_params(groups: Sequence[GroupWrite]) -> dict[str, Any]:
    """The parameters of ``append_sql``: one array a column."""
    receipts = [(group.run_id, receipt) for group in groups for receipt in group.receipts]
    engines = [(group.run_id, engine, seq) for group in groups for engine, seq in group.engines.items()]
    return {
        "run_ids": TextArray([group.run_id for group in groups]),
        "old_seqs": BigintArray([group.previous.seq for group in groups]),
        "old_digests": ByteaArray([group.previous.digest for group in groups]),
        "new_seqs": BigintArray([group.head.seq for group in groups]),
        "new_digests": ByteaArray([group.head.digest for group in groups]),
        "new_bytes": BigintArray([group.head.record_bytes for group in groups]),
        "new_terminals": BigintArray([group.head.terminal_seq for group in groups]),
        "memory_gaps": BigintArray([group.head.memory_gap_seq for group in groups]),
        "summary_gaps": BigintArray([group.head.summary_gap_seq for group in groups]),
        "lease_epochs": BigintArray([group.lease_epoch for group in groups]),
        "wakes": BooleanArray([group.wakes for group in groups]),
        "event_runs": TextArray([group.run_id for group in groups for _ in group.records]),
        "event_seqs": BigintArray(
            [seq for group in groups for seq in range(group.previous.seq + 1, group.head.seq + 1)]
        ),
        "event_records": ByteaArray([record for group in groups for record in group.records]),
        "event_digests": ByteaArray([digest for group in groups for digest in group.digests]),
        "event_bytes": BigintArray([end_byte for group in groups for end_byte in group.end_bytes]),
        "receipt_runs": TextArray([run_id for run_id, _ in receipts]),
        "receipt_keys": ByteaArray([receipt.key for _, receipt in receipts]),
        "receipt_hashes": ByteaArray([receipt.request_hash for _, receipt in receipts]),
        "receipt_firsts": BigintArray([receipt.first_seq for _, receipt in receipts]),
        "receipt_lasts": BigintArray([receipt.last_seq for _, receipt in receipts]),
        "receipt_digests": ByteaArray([receipt.digest for _, receipt in receipts]),
        "engine_runs": TextArray([run_id for run_id, _, _ in engines]),
        "engine_names": TextArray([engine for _, engine, _ in engines]),
        "engine_seqs": BigintArray([seq for _, _, seq in engines]),
    }


@functools.cache
def heads_sql(region: Region) -> str:
    """The heads of many runs."""
    return f"""
SELECT run_id, head_seq, head_digest, head_bytes, terminal_seq, lease_epoch, fork_mode, memory_gap_seq, summary_gap_seq, era FROM runs
 WHERE region = {region_literal(region)} AND run_id = ANY(%(run_ids)s::TEXT[])"""


@functools.cache
def receipts_sql(region: Region) -> str:
    """The receipts that exist among some keys."""
    return f"""
SELECT key, request_hash, run_id, first_seq, last_seq, digest FROM receipts
 WHERE region = {region_literal(region)} AND key = ANY(%(keys)s::BYTEA[])"""


@functools.cache
def engine_seqs_sql(region: Region) -> str:
    """The newest counters of many (run, engine) pairs."""
    return f"""
SELECT n.run_id, n.engine, n.last_engine_seq
  FROM unnest(%(run_ids)s::TEXT[], %(engines)s::TEXT[]) AS q(run_id, engine)
  JOIN engines AS n ON n.region = {region_literal(region)} AND n.run_id = q.run_id AND n.engine = q.engine"""


@functools.cache
def insert_run_sql(home: Region, receipt_region: Region) -> str:
    """A run, its lineage and its receipt. A fork that executors run wants one at once; an empty run, with its first event."""
    h = region_literal(home)
    return f"""
WITH kept AS (
  INSERT INTO receipts (region, key, request_hash, run_id, created_at)
  VALUES ({region_literal(receipt_region)}, %(key)s::BYTEA, %(request_hash)s::BYTEA, %(run_id)s::TEXT, now())
), ranges AS (
  INSERT INTO lineage (region, run_id, start_seq, end_seq, origin_run_id)
  SELECT {h}, %(run_id)s::TEXT, l.start_seq, l.end_seq, l.origin_run_id
    FROM unnest(%(starts)s::BIGINT[], %(ends)s::BIGINT[], %(origins)s::TEXT[]) AS l(start_seq, end_seq, origin_run_id)
)
INSERT INTO runs (region, run_id, tenant, workflow_id, tags, created_at, era, head_seq, head_digest, head_bytes, terminal_seq,
                  fork_mode, source_run_id, from_seq, prefix_digest, overlay, memory_gap_seq, summary_gap_seq, executed, wake_at,
                  untranslatable_seq)
VALUES ({h}, %(run_id)s::TEXT, %(tenant)s::TEXT, %(workflow_id)s::TEXT, %(tags)s::BYTEA, %(created_at)s::TIMESTAMPTZ, %(era)s::SMALLINT,
        %(head_seq)s::BIGINT, %(head_digest)s::BYTEA, %(head_bytes)s::BIGINT, %(terminal)s::BIGINT,
        %(fork_mode)s::SMALLINT, %(source_run_id)s::TEXT,
        %(from_seq)s::BIGINT, %(prefix_digest)s::BYTEA, %(overlay)s::BYTEA, %(memory_gap)s::BIGINT, %(summary_gap)s::BIGINT,
        %(executed)s::BOOLEAN,
        CASE WHEN %(executed)s::BOOLEAN AND %(fork_mode)s::SMALLINT IS NOT NULL THEN now() END,
        %(untranslatable_seq)s::BIGINT)"""


@functools.cache
def insert_events_sql(region: Region) -> str:
    """Events of a run that is not there yet. Those that an earlier try of the same import wrote stay."""
    return f"""
INSERT INTO events (region, run_id, seq, record, digest, end_byte)
SELECT {region_literal(region)}, %(run_id)s::TEXT, %(first_seq)s::BIGINT + e.place - 1, e.record, e.digest, e.end_byte
  FROM unnest(%(records)s::BYTEA[], %(digests)s::BYTEA[], %(end_bytes)s::BIGINT[]) WITH ORDINALITY AS e(record, digest, end_byte, place)
ON CONFLICT (region, run_id, seq) DO NOTHING
RETURNING seq"""


@functools.cache
def equal_events_sql(region: Region) -> str:
    """How many of some events are stored as they should be: a digest is over the record and all before it."""
    return f"""
SELECT count(*)
  FROM unnest(%(records)s::BYTEA[], %(digests)s::BYTEA[], %(end_bytes)s::BIGINT[]) WITH ORDINALITY AS e(record, digest, end_byte, place)
  JOIN events AS s ON s.region = {region_literal(region)} AND s.run_id = %(run_id)s::TEXT AND s.seq = %(first_seq)s::BIGINT + e.place - 1
   AND s.digest = e.digest AND s.end_byte = e.end_byte"""


@functools.cache
def insert_snapshot_sql(region: Region) -> str:
    """A snapshot; snapshots are immutable, so one that exists stays."""
    return f"""
INSERT INTO snapshots (region, run_id, seq, prefix_digest, state, state_digest)
VALUES ({region_literal(region)}, %(run_id)s::TEXT, %(seq)s::BIGINT, %(prefix_digest)s::BYTEA, %(state)s::BYTEA, %(state_digest)s::BYTEA)
ON CONFLICT (region, run_id, seq) DO NOTHING"""


def _run_params(run: Run, receipt: Receipt) -> dict[str, Any]:
    fork = run.fork
    return {
        "key": receipt.key,
        "request_hash": receipt.request_hash,
        "run_id": run.run_id,
        "starts": [part.start_seq for part in run.lineage],
        "ends": [part.end_seq for part in run.lineage],
        "origins": [part.origin_run_id for part in run.lineage],
        "tenant": run.tenant,
        "workflow_id": run.workflow_id,
        "tags": json.dumps(run.tags).encode(),
        "created_at": datetime.fromtimestamp(run.created_at_us // 1_000_000, UTC).replace(
            microsecond=run.created_at_us % 1_000_000
        ),
        "era": run.era,
        "head_seq": run.head.seq,
        "head_digest": run.head.digest,
        "head_bytes": run.head.record_bytes,
        "fork_mode": None if fork is None else int(fork.mode),
        "source_run_id": None if fork is None else fork.source_run_id,
        "from_seq": None if fork is None else fork.from_seq,
        "prefix_digest": None if fork is None else fork.prefix_digest,
        "overlay": None if fork is None else fork.overlay,
        "memory_gap": run.head.memory_gap_seq,
        "summary_gap": run.head.summary_gap_seq,
        "executed": run.executed,
        "terminal": run.head.terminal_seq,
        "untranslatable_seq": run.untranslatable_seq,
    }
