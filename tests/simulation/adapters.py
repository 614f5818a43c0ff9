"""The ports of the operations over the simulated database: each call goes over a link, and what a replica shows may be old or damaged.

What belongs here: the translation of ports to statements. What does not: their conditions (``database``), their way (``link``).
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from isoline_server.domain.effect import ClaimEffectCommand, Effect, Move, ResolveEffectCommand
from isoline_server.domain.ids import Region, RunId, Tenant
from isoline_server.domain.lease import ClaimCommand, Claimed, LeaseRef, ReleaseCommand
from isoline_server.domain.receipt import Receipt
from isoline_server.domain.run import Head, Mark, Run, Source
from isoline_server.operations.execution_ports import EffectListing, EffectQuery, Fenced, Renewed
from isoline_server.operations.ports import (
    EventsWrite,
    GroupWrite,
    RawPage,
    ReplicaStatus,
    RunListing,
    Snapshot,
)
from simulation.database import Database, EventRow, Replica, Tables
from simulation.link import Link, Weather

LOCKED = 0.1
"""How often a row is in use when a heartbeat wants it."""


class NotSimulated(Exception):
    """A port's method that no simulated call reaches."""


class SimWriter:
    """``LogWriter``."""

    def __init__(self, link: Link, database: Database) -> None:
        self._link = link
        self._database = database

    async def append(self, region: Region, groups: Sequence[GroupWrite]) -> frozenset[RunId]:
        return await self._link.call("append", lambda: self._database.append(region, groups))

    async def load_heads(self, region: Region, run_ids: Sequence[RunId]) -> Mapping[RunId, Head]:
        return await self._link.call("load_heads", lambda: self._database.load_heads(run_ids))

    async def load_receipts(self, region: Region, keys: Sequence[bytes]) -> Mapping[bytes, Receipt]:
        return await self._link.call("load_receipts", lambda: self._database.tables.receipts_among(region, keys))

    async def load_engine_seqs(
        self, region: Region, engines: Sequence[tuple[RunId, str]]
    ) -> Mapping[tuple[RunId, str], int]:
        return await self._link.call("load_engine_seqs", lambda: self._database.load_engine_seqs(engines))

    async def insert_run(self, run: Run, receipt: Receipt, receipt_region: Region) -> None:
        await self._link.call("insert_run", lambda: self._database.insert_run(run, receipt, receipt_region))

    async def insert_events(self, region: Region, events: EventsWrite) -> bool:
        raise NotSimulated

    async def insert_snapshot(self, region: Region, run_id: RunId, snapshot: Snapshot) -> None:
        raise NotSimulated


class SimReader:
    """``LogReader`` of the leader or of a replica, and ``NearReceipts`` of the latter. Only a replica's pages are ever damaged."""

    def __init__(
        self,
        link: Link,
        tables: Callable[[], Tables],
        *,
        source: Source,
        damage: Callable[[RawPage], RawPage] = lambda page: page,
        staleness_ms: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._link = link
        self._tables = tables
        self._damage = damage
        self._staleness_ms = staleness_ms
        self.source = source

    @property
    def follows(self) -> bool:
        return self.source is not Source.LEADER

    async def run(self, run_id: RunId) -> Run | None:
        return await self._link.call("run", lambda: self._tables().run(run_id))

    async def mark(self, origin_run_id: RunId, seq: int) -> Mark | None:
        return await self._link.call("mark", lambda: self._tables().mark(origin_run_id, seq))

    async def page(
        self, origin_run_id: RunId, from_seq: int, until_seq: int, *, start_byte: int, bytes_max: int, events_max: int
    ) -> RawPage:
        def look() -> RawPage:
            events = self._tables().events
            rows: list[EventRow] = []
            for seq in range(from_seq, min(until_seq, from_seq + events_max)):
                row = events.get((origin_run_id, seq))
                if row is None or (rows and row.end_byte > start_byte + bytes_max):
                    break
                rows.append(row)
            page = RawPage(
                first_seq=from_seq,
                records=[row.record for row in rows],
                digests=[row.digest for row in rows],
                last_end_byte=rows[-1].end_byte if rows else start_byte,
            )
            return self._damage(page)

        return await self._link.call("page", look)

    async def snapshot_at_or_before(self, origin_run_id: RunId, seq: int) -> Snapshot | None:
        raise NotSimulated

    async def list_runs(self, tenant: Tenant, workflow_id: str, after: RunListing | None, limit: int) -> Sequence[Run]:
        raise NotSimulated

    async def head_seqs(self, run_ids: Sequence[RunId]) -> Mapping[RunId, int]:
        raise NotSimulated

    async def status(self) -> ReplicaStatus:
        raise NotSimulated

    async def staleness_ms(self) -> int | None:
        return await self._link.call("staleness_ms", self._staleness_ms)

    async def load_receipts(self, region: Region, keys: Sequence[bytes]) -> Mapping[bytes, Receipt]:
        return await self._link.call("near_receipts", lambda: self._tables().receipts_among(region, keys))


def replica_reader(link: Link, replica: Replica, weather: Weather, rng: random.Random) -> SimReader:
    """The region's own replica."""

    def damage(page: RawPage) -> RawPage:
        return _damaged(page, rng) if page.records and rng.random() < weather.damaged else page

    return SimReader(link, replica.catch_up, source=Source.LOCAL, damage=damage, staleness_ms=replica.staleness_ms)


def _damaged(page: RawPage, rng: random.Random) -> RawPage:
    """One row is missing, one record is another, or one digest is."""
    at = rng.randrange(len(page.records))
    records, digests = list(page.records), list(page.digests)
    match rng.randrange(3):
        case 0 if at < len(records) - 1 or at == 0:
            del records[at], digests[at]
        case 1:
            records[at] = bytes([records[at][0] ^ 1]) + records[at][1:]
        case _:
            digests[at] = bytes([digests[at][0] ^ 1]) + digests[at][1:]
    return replace(page, records=records, digests=digests)


class SimLeases:
    """``LeaseStore``."""

    def __init__(self, link: Link, database: Database, rng: random.Random) -> None:
        self._link = link
        self._database = database
        self._rng = rng

    async def claim(self, command: ClaimCommand) -> Claimed:
        return await self._link.call("claim", lambda: self._database.claim(command))

    async def renew(self, region: Region, leases: Sequence[LeaseRef], ttl_ms: int) -> Renewed:
        return await self._link.call(
            "renew", lambda: self._database.renew(leases, ttl_ms, lambda: self._rng.random() < LOCKED)
        )

    async def release(self, command: ReleaseCommand) -> bool:
        return await self._link.call("release", lambda: self._database.release(command))


class SimEffects:
    """``EffectStore``."""

    def __init__(self, link: Link, database: Database) -> None:
        self._link = link
        self._database = database

    async def insert(self, command: ClaimEffectCommand) -> Fenced:
        return await self._link.call("insert_effect", lambda: self._database.insert_effect(command))

    async def move(self, run_id: RunId, effect_id: str, lease_epoch: int, move: Move) -> Fenced:
        return await self._link.call(
            "move_effect", lambda: self._database.move_effect(run_id, effect_id, lease_epoch, move)
        )

    async def resolve(self, command: ResolveEffectCommand) -> Effect | None:
        return await self._link.call("resolve_effect", lambda: self._database.resolve_effect(command))

    async def load(self, run_id: RunId, effect_id: str) -> Effect | None:
        return await self._link.call("load_effect", lambda: self._database.tables.effects.get((run_id, effect_id)))

    async def page(self, query: EffectQuery, after: EffectListing | None, limit: int) -> Sequence[Effect]:
        raise NotSimulated
