"""The ledger of effects (port ``EffectStore``).

Every change of a lease's holder holds the run's row while it is made (``FOR SHARE``: holders of one run do not wait for each other): a claim
of the run comes before it and ends it, or after it and finds it done.
"""

import functools
from collections.abc import Sequence
from typing import Any

from isoline_server.domain.effect import ClaimEffectCommand, Effect, EffectState, Move, ResolveEffectCommand
from isoline_server.domain.ids import Region, RunId, home_of
from isoline_server.operations.execution_ports import EffectListing, EffectQuery, Fenced
from isoline_server.store.database import Database
from isoline_server.store.moments import microseconds, microseconds_or_none
from isoline_server.store.tables import region_literal

_PLAIN = (
    *(
        "run_id",
        "effect_id",
        "node_id",
        "visit",
        "ordinal",
        "seam",
        "provider_key",
        "request_digest",
        "attempt",
        "lease_epoch",
    ),
    *("draws", "outcome", "cost", "resolved_by"),
)
"""Columns that are kept as they are."""
_COLUMNS = ", ".join(
    f"x.{name}" for name in (*_PLAIN, "state", "first_claimed_at", "claimed_at", "outbound_at", "ended_at")
)
_STATES = {state.name: int(state) for state in EffectState}


class SqlEffects:
    """``EffectStore`` over one database. ``regions`` are all partitions that a tenant's list has to look into."""

    def __init__(self, database: Database, *, regions: Sequence[Region]) -> None:
        self._database = database
        self._regions = tuple(regions)

    async def insert(self, command: ClaimEffectCommand) -> Fenced:
        params = {
            "tenant": command.tenant,
            "run_id": command.run_id,
            "fence": command.lease_epoch,
            "effect_id": command.effect_id,
            "node_id": command.node_id,
            "visit": command.visit,
            "ordinal": command.ordinal,
            "seam": command.seam,
            "provider_key": command.provider_key,
            "request_digest": command.request_digest,
            "draws": command.draws,
        }
        rows = await self._database.fetch("insert_effect", insert_effect_sql(home_of(command.run_id)), params)
        return _fenced(rows)

    async def move(self, run_id: RunId, effect_id: str, lease_epoch: int, move: Move) -> Fenced:
        params = {
            "run_id": run_id,
            "fence": lease_epoch,
            "live": move.needs_live_lease,
            "effect_id": effect_id,
            "sources": [int(state) for state in move.sources],
            "source_attempt": move.source_attempt,
            "source_epoch": move.source_epoch,
            "state": int(move.state),
            "attempt": move.attempt,
            "lease_epoch": move.lease_epoch,
            "outcome": move.outcome,
            "cost": move.cost,
        }
        return _fenced(await self._database.fetch("move_effect", move_effect_sql(home_of(run_id)), params))

    async def resolve(self, command: ResolveEffectCommand) -> Effect | None:
        params = {
            "run_id": command.run_id,
            "effect_id": command.effect_id,
            "state": int(command.to),
            "outcome": command.outcome,
            "resolved_by": command.resolved_by,
        }
        rows = await self._database.fetch("resolve_effect", resolve_effect_sql(home_of(command.run_id)), params)
        return _effect(rows[0]) if rows else None

    async def load(self, run_id: RunId, effect_id: str) -> Effect | None:
        rows = await self._database.fetch(
            "load_effect", effect_sql(home_of(run_id)), {"run_id": run_id, "effect_id": effect_id}
        )
        if not rows:
            return None
        await self._database.wait_until_durable()
        return _effect(rows[0])

    async def page(self, query: EffectQuery, after: EffectListing | None, limit: int) -> Sequence[Effect]:
        params = {
            "tenant": query.tenant,
            "run_id": query.run_id,
            "states": [int(state) for state in query.states],
            "node_id": query.node_id,
            "after_us": None if after is None else after.first_claimed_at_us,
            "after_run_id": None if after is None else after.run_id,
            "after_effect_id": None if after is None else after.effect_id,
            "limit": limit,
        }
        found: list[Effect] = []
        for region in self._regions if query.run_id is None else (home_of(query.run_id),):
            sql = effects_of_tenant_sql(region) if query.run_id is None else effects_of_run_sql(region)
            found += (_effect(row) for row in await self._database.fetch("list_effects", sql, params))
        found.sort(key=lambda effect: (effect.first_claimed_at_us, effect.run_id, effect.effect_id))
        return found[:limit]


def _fence(region: str, *, live: str = "") -> str:
    return f"""SELECT r.run_id FROM runs AS r
   WHERE r.region = {region} AND r.run_id = %(run_id)s::TEXT AND r.lease_epoch = %(fence)s::BIGINT{live} FOR SHARE"""


@functools.cache
def insert_effect_sql(region: Region) -> str:
    """Claim an effect that does not exist. One row: whether the lease is held, and the effect when it was made."""
    r = region_literal(region)
    return f"""
WITH fence AS (
  {_fence(r)}
), x AS (
  INSERT INTO effects (region, run_id, effect_id, tenant, node_id, visit, ordinal, seam, provider_key, request_digest, state, attempt,
                       lease_epoch, draws, outcome, cost, resolved_by, first_claimed_at, claimed_at)
  SELECT {r}, fence.run_id, %(effect_id)s::TEXT, %(tenant)s::TEXT, %(node_id)s::TEXT, %(visit)s::BIGINT, %(ordinal)s::BIGINT,
         %(seam)s::TEXT, %(provider_key)s::TEXT, %(request_digest)s::BYTEA, {_STATES["CLAIMED"]}, 1,
         %(fence)s::BIGINT, %(draws)s::BYTEA, ''::BYTEA, ''::BYTEA, '', now(), now()
    FROM fence
  ON CONFLICT (region, run_id, effect_id) DO NOTHING
  RETURNING *
)
SELECT EXISTS (SELECT 1 FROM fence), {_COLUMNS} FROM (VALUES (1)) AS one(n) LEFT JOIN x ON true"""


@functools.cache
def move_effect_sql(region: Region) -> str:
    """Change an effect that is as expected. One row: whether the lease is held, and the effect when it was changed."""
    r = region_literal(region)
    return f"""
WITH fence AS (
  {_fence(r, live=" AND (NOT %(live)s::BOOLEAN OR r.lease_expires_at > now())")}
), x AS (
  UPDATE effects SET state = %(state)s::SMALLINT, attempt = %(attempt)s::INTEGER, lease_epoch = %(lease_epoch)s::BIGINT,
         outcome = %(outcome)s::BYTEA, cost = CASE WHEN %(cost)s::BYTEA = ''::BYTEA THEN effects.cost ELSE %(cost)s::BYTEA END,
         claimed_at = CASE WHEN %(state)s::SMALLINT = {_STATES["CLAIMED"]} THEN now() ELSE effects.claimed_at END,
         outbound_at = CASE %(state)s::SMALLINT WHEN {_STATES["CLAIMED"]} THEN NULL WHEN {_STATES["OUTBOUND"]} THEN now()
                       ELSE effects.outbound_at END,
         ended_at = CASE WHEN %(state)s::SMALLINT IN ({_STATES["COMPLETED"]}, {_STATES["FAILED"]}) THEN now() END,
         resolved_by = ''
    FROM fence
   WHERE effects.region = {r} AND effects.run_id = fence.run_id AND effects.effect_id = %(effect_id)s::TEXT
     AND effects.state = ANY(%(sources)s::SMALLINT[]) AND effects.attempt = %(source_attempt)s::INTEGER
     AND effects.lease_epoch = %(source_epoch)s::BIGINT
  RETURNING effects.*
)
SELECT EXISTS (SELECT 1 FROM fence), {_COLUMNS} FROM (VALUES (1)) AS one(n) LEFT JOIN x ON true"""


@functools.cache
def resolve_effect_sql(region: Region) -> str:
    """End an effect in doubt, and call for an executor: also when one has the run in its hands and has looked at the effect already.

    The run's row is taken first, as by every other statement that needs both.
    """
    r = region_literal(region)
    return f"""
WITH run AS (
  SELECT r.run_id FROM runs AS r WHERE r.region = {r} AND r.run_id = %(run_id)s::TEXT FOR UPDATE
), x AS (
  UPDATE effects SET state = %(state)s::SMALLINT, outcome = %(outcome)s::BYTEA, ended_at = now(), resolved_by = %(resolved_by)s::TEXT
    FROM run
   WHERE effects.region = {r} AND effects.run_id = run.run_id AND effects.effect_id = %(effect_id)s::TEXT
     AND effects.state = {_STATES["IN_DOUBT"]}
  RETURNING effects.*
), woken AS (
  UPDATE runs SET called = true, wake_at = CASE WHEN wake_at <= now() THEN wake_at ELSE now() END
    FROM x
   WHERE runs.region = {r} AND runs.run_id = x.run_id AND runs.executed AND runs.terminal_seq IS NULL
)
SELECT {_COLUMNS} FROM x"""


@functools.cache
def effect_sql(region: Region) -> str:
    """One effect."""
    return f"""
SELECT {_COLUMNS} FROM effects AS x
 WHERE x.region = {region_literal(region)} AND x.run_id = %(run_id)s::TEXT AND x.effect_id = %(effect_id)s::TEXT"""


_BEHIND = """(%(after_us)s::BIGINT IS NULL
        OR (x.first_claimed_at, x.run_id, x.effect_id)
           > (TIMESTAMPTZ 'epoch' + %(after_us)s::BIGINT * INTERVAL '1 microsecond', %(after_run_id)s::TEXT, %(after_effect_id)s::TEXT))
   AND (%(node_id)s::TEXT = '' OR x.node_id = %(node_id)s::TEXT)
 ORDER BY x.first_claimed_at, x.run_id, x.effect_id LIMIT %(limit)s::BIGINT"""


@functools.cache
def effects_of_run_sql(region: Region) -> str:
    """The effects of one run, oldest first, behind one of them."""
    return f"""
SELECT {_COLUMNS} FROM effects AS x
 WHERE x.region = {region_literal(region)} AND x.run_id = %(run_id)s::TEXT
   AND (cardinality(%(states)s::SMALLINT[]) = 0 OR x.state = ANY(%(states)s::SMALLINT[]))
   AND {_BEHIND}"""


@functools.cache
def effects_of_tenant_sql(region: Region) -> str:
    """The tenant's effects of some states in one partition, oldest first, behind one of them."""
    return f"""
SELECT {_COLUMNS} FROM effects AS x
 WHERE x.region = {region_literal(region)} AND x.tenant = %(tenant)s::TEXT AND x.state = ANY(%(states)s::SMALLINT[])
   AND {_BEHIND}"""


def _fenced(rows: Sequence[Sequence[Any]]) -> Fenced:
    (row,) = rows
    return Fenced(held=row[0], effect=None if row[1] is None else _effect(row[1:]))


def _effect(row: Sequence[Any]) -> Effect:
    *columns, state, first_claimed_at, claimed_at, outbound_at, ended_at = row
    return Effect(
        **dict(zip(_PLAIN, columns, strict=True)),
        state=EffectState(state),
        first_claimed_at_us=microseconds(first_claimed_at),
        claimed_at_us=microseconds(claimed_at),
        outbound_at_us=microseconds_or_none(outbound_at),
        ended_at_us=microseconds_or_none(ended_at),
    )
