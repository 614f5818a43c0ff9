"""The log of model invocations (port ``InvocationStore``). Rows are written once; writing is fenced as effects are."""

import functools
from typing import Any

from isoline_server.domain.ids import Region, Tenant, home_of
from isoline_server.domain.invocation import EnvelopeKind, Invocation, InvocationPlace
from isoline_server.store.database import Database
from isoline_server.store.tables import region_literal


class SqlInvocations:
    """``InvocationStore`` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def insert(self, tenant: Tenant, invocation: Invocation, lease_epoch: int) -> tuple[bool, bool]:
        params = {
            **_place_params(invocation.place),
            "tenant": tenant,
            "fence": lease_epoch,
            "kind": int(invocation.kind),
            "response": invocation.response,
            "cost": invocation.cost,
        }
        sql = insert_invocation_sql(home_of(invocation.place.run_id))
        ((held, recorded),) = await self._database.fetch("insert_invocation", sql, params)
        return held, recorded

    async def load(self, place: InvocationPlace) -> Invocation | None:
        sql = invocation_sql(home_of(place.run_id))
        rows = await self._database.fetch("load_invocation", sql, _place_params(place))
        if not rows:
            return None
        await self._database.wait_until_durable()
        kind, response, cost = rows[0]
        return Invocation(place=place, kind=EnvelopeKind(kind), response=response, cost=cost)


@functools.cache
def insert_invocation_sql(region: Region) -> str:
    """Record an answer whose place is empty. One row: whether the lease is held, and whether it was recorded."""
    r = region_literal(region)
    return f"""
WITH fence AS (
  SELECT r.run_id FROM runs AS r
   WHERE r.region = {r} AND r.run_id = %(run_id)s::TEXT AND r.lease_epoch = %(fence)s::BIGINT FOR SHARE
), recorded AS (
  INSERT INTO invocations (region, run_id, node_id, execution, key, repetition, tenant, kind, response, cost, created_at)
  SELECT {r}, fence.run_id, %(node_id)s::TEXT, %(execution)s::BIGINT, %(key)s::TEXT, %(repetition)s::INTEGER, %(tenant)s::TEXT,
         %(kind)s::SMALLINT, %(response)s::BYTEA, %(cost)s::BYTEA, now()
    FROM fence
  ON CONFLICT (region, run_id, node_id, execution, key, repetition) DO NOTHING
  RETURNING run_id
)
SELECT EXISTS (SELECT 1 FROM fence), EXISTS (SELECT 1 FROM recorded)"""


@functools.cache
def invocation_sql(region: Region) -> str:
    """What is recorded at a place."""
    return f"""
SELECT kind, response, cost FROM invocations
 WHERE region = {region_literal(region)} AND run_id = %(run_id)s::TEXT AND node_id = %(node_id)s::TEXT
   AND execution = %(execution)s::BIGINT AND key = %(key)s::TEXT AND repetition = %(repetition)s::INTEGER"""


def _place_params(place: InvocationPlace) -> dict[str, Any]:
    return {
        "run_id": place.run_id,
        "node_id": place.node_id,
        "execution": place.execution,
        "key": place.key,
        "repetition": place.repetition,
    }
