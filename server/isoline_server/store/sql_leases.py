"""Leases on runs (port ``LeaseStore``). All times are the database's, so that no two servers disagree about a lease.

Claims and renewals touch many runs and never wait for one: they pass over rows in use. So they cannot stand in a circle with appends, which
touch many runs, too.
"""

import functools
from collections.abc import Sequence
from datetime import datetime

from isoline_server.domain.ids import Region, RunId, home_of
from isoline_server.domain.lease import ClaimCommand, Claimed, Lease, LeaseRef, ReleaseCommand
from isoline_server.operations.execution_ports import Renewed
from isoline_server.store.database import Database
from isoline_server.store.moments import microseconds, microseconds_or_none
from isoline_server.store.tables import region_literal


class SqlLeases:
    """``LeaseStore`` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, command: ClaimCommand) -> Claimed:
        rows = await self._database.fetch(
            "claim_runs",
            claim_sql(command.home),
            {
                "tenant": command.tenant,
                "workflow_ids": list(command.workflow_ids),
                "owner": command.owner,
                "ttl_ms": command.ttl_ms,
                "limit": command.runs_max,
            },
        )
        leases = tuple(_lease(*row[1:]) for row in rows if row[1] is not None)
        return Claimed(leases=leases, next_wake_at_us=microseconds_or_none(rows[0][0]))

    async def renew(self, region: Region, leases: Sequence[LeaseRef], ttl_ms: int) -> Renewed:
        rows = await self._database.fetch(
            "renew_leases",
            renew_sql(region),
            {
                "run_ids": [lease.run_id for lease in leases],
                "epochs": [lease.epoch for lease in leases],
                "ttl_ms": ttl_ms,
            },
        )
        return Renewed(
            leases=tuple(_lease(*row) for row in rows if row[3] is not None),
            waiting=tuple(LeaseRef(RunId(row[0]), row[2]) for row in rows if row[3] is None),
        )

    async def release(self, command: ReleaseCommand) -> bool:
        rows = await self._database.fetch(
            "release_run",
            release_sql(home_of(command.lease.run_id)),
            {
                "run_id": command.lease.run_id,
                "epoch": command.lease.epoch,
                "seen_head_seq": command.seen_head_seq,
                "wake_in_ms": command.wake_in_ms,
            },
        )
        return bool(rows)


@functools.cache
def claim_sql(region: Region) -> str:
    """A new epoch for the runs that have waited longest; and, in the first column of every row, when the next one is due. One row at least.

    A leased run keeps its time, so what is due is what waits for an executor and what one has in its hands; the latter is due at its lease's
    end. Only when nothing more is due is it asked which of those comes first.
    """
    r = region_literal(region)
    wanted = f"""r.region = {r} AND r.tenant = %(tenant)s::TEXT AND r.workflow_id = ANY(%(workflow_ids)s::TEXT[])"""
    due = f"""{wanted} AND r.wake_at <= now() AND (r.lease_expires_at IS NULL OR r.lease_expires_at <= now())"""
    return f"""
WITH due AS (
  SELECT r.run_id FROM runs AS r WHERE {due}
   ORDER BY r.wake_at, r.run_id LIMIT %(limit)s::BIGINT FOR UPDATE SKIP LOCKED
), claimed AS (
  UPDATE runs SET lease_epoch = runs.lease_epoch + 1, lease_owner = %(owner)s::TEXT,
                  lease_expires_at = now() + %(ttl_ms)s::BIGINT * INTERVAL '1 millisecond', called = false
    FROM due WHERE runs.region = {r} AND runs.run_id = due.run_id
  RETURNING runs.run_id, runs.workflow_id, runs.lease_epoch, runs.lease_expires_at, runs.wake_at
), following AS (
  SELECT COALESCE(
    (SELECT r.wake_at FROM runs AS r WHERE {due} AND NOT EXISTS (SELECT 1 FROM claimed WHERE claimed.run_id = r.run_id)
      ORDER BY r.wake_at LIMIT 1),
    LEAST((SELECT r.wake_at FROM runs AS r WHERE {wanted} AND r.wake_at > now() ORDER BY r.wake_at LIMIT 1),
          (SELECT min(r.lease_expires_at) FROM runs AS r WHERE {wanted} AND r.wake_at <= now() AND r.lease_expires_at > now()))
  ) AS wake_at
)
SELECT following.wake_at, claimed.run_id, claimed.workflow_id, claimed.lease_epoch, claimed.lease_expires_at
  FROM following LEFT JOIN claimed ON true ORDER BY claimed.wake_at, claimed.run_id"""


@functools.cache
def renew_sql(region: Region) -> str:
    """Lengthen leases. One row for each that is the caller's; its end is null when another statement had the run in use."""
    r = region_literal(region)
    return f"""
WITH asked AS (
  SELECT l.run_id, l.epoch FROM unnest(%(run_ids)s::TEXT[], %(epochs)s::BIGINT[]) AS l(run_id, epoch)
), free AS (
  SELECT r.run_id FROM runs AS r JOIN asked ON asked.run_id = r.run_id AND asked.epoch = r.lease_epoch
   WHERE r.region = {r} AND r.lease_expires_at IS NOT NULL FOR UPDATE OF r SKIP LOCKED
), renewed AS (
  UPDATE runs SET lease_expires_at = now() + %(ttl_ms)s::BIGINT * INTERVAL '1 millisecond'
    FROM free WHERE runs.region = {r} AND runs.run_id = free.run_id
  RETURNING runs.run_id, runs.lease_expires_at
)
SELECT r.run_id, r.workflow_id, r.lease_epoch, renewed.lease_expires_at
  FROM runs AS r JOIN asked ON asked.run_id = r.run_id AND asked.epoch = r.lease_epoch
  LEFT JOIN renewed ON renewed.run_id = r.run_id
 WHERE r.region = {r} AND r.lease_expires_at IS NOT NULL"""


@functools.cache
def release_sql(region: Region) -> str:
    """End a lease, and say when the run wants an executor again: at once when something happened to it that its executor has not seen."""
    return f"""
UPDATE runs SET lease_expires_at = NULL, lease_owner = NULL, called = false,
       wake_at = CASE WHEN terminal_seq IS NOT NULL THEN NULL
                      WHEN called OR head_seq > %(seen_head_seq)s::BIGINT THEN now()
                      ELSE now() + %(wake_in_ms)s::BIGINT * INTERVAL '1 millisecond' END
 WHERE region = {region_literal(region)} AND run_id = %(run_id)s::TEXT AND lease_epoch = %(epoch)s::BIGINT
RETURNING run_id"""


def _lease(run_id: str, workflow_id: str, epoch: int, expires_at: datetime) -> Lease:
    return Lease(run_id=RunId(run_id), workflow_id=workflow_id, epoch=epoch, expires_at_us=microseconds(expires_at))
