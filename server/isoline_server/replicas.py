"""The database as one region's server sees it: the leader (or the nodes that may lead), the region's own replica, and views further back.

Which connections there are and what each is for; who may read without a proof. Not here: statements (``store``), what is done with them.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Final

from isoline_server.config import RegionSettings, Settings
from isoline_server.domain.run import Source
from isoline_server.operations.nearby import Nearby
from isoline_server.operations.ports import StoreRetryable
from isoline_server.store import cockroach
from isoline_server.store.database import Database, Role
from isoline_server.store.leadership import Leadership, Place, Places, QuorumProof
from isoline_server.store.near_receipts import SqlNearReceipts
from isoline_server.store.sql_reader import SqlLogReader, Translate

OLDER_S: Final = (30, 300, 3_600)
"""How far back a CockroachDB replica is asked, step by step, when neither the leader nor its newest view answers: in ``gc.ttlseconds``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """The steps of the read ladder. ``older``: the region's replica as it was some time ago, the newest view first."""

    leader: SqlLogReader
    local: SqlLogReader | None
    older: tuple[SqlLogReader, ...]


class Replicas:
    """Every database of one server. ``watch()`` is its only task."""

    def __init__(self, settings: Settings, own: RegionSettings, translate: Translate) -> None:
        self._on_cockroach = settings.topology == "cockroach"
        self._probes = _probes(settings)
        self._leadership = Leadership({url: probe.who for url, probe in self._probes.items()}) if self._probes else None
        self._leading: str | Places = self._leadership or settings.leader_url
        self._databases: list[Database] = []
        self._reader = partial(SqlLogReader, regions=settings.homes, translate=translate)
        lanes = settings.append_lanes * len(settings.homes)
        reading = self._at_leader(Role.LEADER, settings.reader_connections)
        near = None if own.local_url is None else self._near(own.local_url, settings.reader_connections)
        # A lane sends one statement at a time, and may leave one behind whose outcome it has seen nearby; two more serve the making of runs.
        self.writing = self._at_leader(Role.WRITER, (2 if own.replica_counts else 1) * lanes + 2)
        # Executors' statements are many and small: they must not keep a lane waiting for a connection.
        self.executing = self._at_leader(Role.WRITER, settings.reader_connections)
        self._proving = self._at_leader(Role.WRITER, 1)
        self._to_warm = ((self.writing, lanes), (reading, 1), (self._proving, 1), (self.executing, 1))
        self._connecting: set[asyncio.Task[None]] = set()
        self.readers = Readers(
            leader=self._reader(reading, source=Source.LEADER),
            local=None if near is None else self._local(near, own.local_url),
            older=self._older(own.local_url),
        )
        self.nearby = Nearby(SqlNearReceipts(near)) if near is not None and own.replica_counts else None

    def watch(self) -> "asyncio.Task[None] | None":
        """Begin to watch who leads, where several may."""
        return None if self._leadership is None else asyncio.create_task(self._leadership.run(), name="leadership")

    async def meet(self) -> None:
        """Learn what kind of database it is from whichever replica answers: a region that is cut off from the leader serves its own reads.

        Raises ``StoreRetryable`` when none answers.
        """
        for place, database in enumerate(self._databases):
            try:
                is_cockroach = await database.asks_cockroach()
            except StoreRetryable:
                if place == len(self._databases) - 1:
                    raise
                continue
            for other in self._databases:
                other.is_cockroach = is_cockroach
            if not is_cockroach:
                self._demand_proof()
            return

    async def close(self) -> None:
        """Give every connection up, also those whose statements nobody waits for any more."""
        for connecting in self._connecting:
            connecting.cancel()
        for database in (*self._databases, *self._probes.values()):
            await database.close()
        if self.nearby is not None:
            await self.nearby.close()

    def _demand_proof(self) -> None:
        """PostgreSQL: a primary that was cut off goes on answering, so what leads has to prove that it does. CockroachDB's leaseholders have."""
        proof = QuorumProof(self._proving.wait_until_durable)
        for database in self._databases:
            if database is not self._proving:
                database.demand(proof)
        if self._leadership is not None:
            self._leadership.on_change(proof.forget)
            self._leadership.on_change(self._warm)
        self._warm(None if self._leadership is None else self._leadership.current)

    def _warm(self, leader: Place | None) -> None:
        """Connect to a new leader before anybody needs it."""
        if leader is None and self._leadership is not None:
            return
        task = asyncio.create_task(self._connect(), name="connecting")
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self) -> None:
        await asyncio.gather(
            *(database.warm(count) for database, count in self._to_warm),
        )

    def _at_leader(self, role: Role, size: int) -> Database:
        database = self._own(Database(self._leading, role=role, size=size, cockroach_cluster=self._on_cockroach))
        if self._leadership is not None:
            self._leadership.on_change(database.abandon)
        return database

    def _near(self, url: str, size: int) -> Database:
        return self._own(Database(url, role=Role.LOCAL, size=size, cockroach_cluster=self._on_cockroach))

    def _local(self, near: Database, url: str | None) -> SqlLogReader:
        """The region's replica; on CockroachDB with its bounded reads, which are allowed outside of follower-read sessions only."""
        heads = None
        if self._on_cockroach and url is not None:
            heads = self._own(Database(url, role=Role.LOCAL, size=2, cockroach_cluster=True, follower_reads=False))
        return self._reader(near, source=Source.LOCAL, heads=heads)

    def _older(self, url: str | None) -> tuple[SqlLogReader, ...]:
        if not self._on_cockroach or url is None:
            return ()
        views = {
            age_s: Database(url, role=Role.LOCAL, size=2, cockroach_cluster=True, view=cockroach.exact_staleness(age_s))
            for age_s in OLDER_S
        }
        return tuple(self._reader(self._own(view), source=Source.LOCAL, age_s=age_s) for age_s, view in views.items())

    def _own(self, database: Database) -> Database:
        self._databases.append(database)
        return database


def _probes(settings: Settings) -> dict[str, Database]:
    """The nodes that may lead, each over a connection of its own. None where there is but one: then there is nothing to watch."""
    nodes = dict.fromkeys((settings.leader_url, *settings.standby_urls)) if settings.standby_urls else {}
    return {url: Database(url, role=Role.LEADER, size=1) for url in nodes}
