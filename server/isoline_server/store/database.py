"""One database seen through one role: how connections are opened, held and given up, and what its errors mean.

The engine is SQLAlchemy's (it knows the dialects and opens the connections); the statements of this package are single, prepared, and run on
the driver's own cursor with binary parameters, because a checkout and a result wrapper for each of them would cost more than the statement.

Every statement of the service is one autocommit statement, so the whole-transaction retry of the callers is a retry of the statement. It
retries by itself only a read whose connection had died while it waited. It tells failures apart by SQLSTATE:

* ``40001``, ``40P01``, ``55P03``, ``53300``, ``57P03``, ``25006`` and failed connects: surely not done;
* ``40003``, ``08xxx``, ``57P01``, ``57P02``, ``57014`` and a connection that broke: perhaps done;
* ``23505``: a row with this key exists, nothing was done.

A statement is never taken back. A caller that goes away leaves its connection, and says nothing to the server: PostgreSQL would answer a
cancel by ending a commit's wait for its standbys, and then show a row that no other node has. Nor is connecting given up half way: the server
would wait a minute for the rest of the handshake, and everything that waits for all its backends (DROP DATABASE) would wait with it.
"""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Self

import psycopg
from opentelemetry.trace import SpanKind
from psycopg import errors as pg_errors
from psycopg import waiting
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from isoline_server import telemetry
from isoline_server.operations.ports import StoreRetryable
from isoline_server.store import arrays, cockroach
from isoline_server.store.leadership import WHO_SQL, OnePlace, Place, Places, QuorumProof

NOT_DONE: Final = frozenset({"40001", "40P01", "55P03", "53300", "57P03", "25006", "08001", "08004"})
PERHAPS_DONE: Final = frozenset({"40003", "57P01", "57P02", "57014"})
CONNECT_TIMEOUT_S: Final = 2
HOLD_MAX_S: Final = 300.0
"""A connection is replaced after this time, so that a drained or demoted node loses its clients (cockroachlabs.com: connection-pooling)."""


class Role(Enum):
    """What the connections of a ``Database`` may do."""

    WRITER = "writer"
    LOCAL = "local"
    LEADER = "leader"


class UniqueKey(Exception):
    """A row with this key exists; nothing was done. ``constraint`` names the key."""

    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        self.constraint = constraint


class _Connection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """Psycopg's, but for what a cancelled wait does: nothing but leave. See this module's first lines."""

    @classmethod
    async def connect(cls, *args: Any, **kwargs: Any) -> Self:
        try:
            return await super().connect(*args, **kwargs)
        except (psycopg.Error, asyncio.CancelledError) as error:
            # The traceback's frames would keep the socket of what came to nothing open for as long as somebody keeps the error.
            raise error.with_traceback(None)  # noqa: B904

    async def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        return await waiting.wait_async(gen, self.pgconn.socket, interval=interval, timeout=timeout)


@dataclass(eq=False, slots=True)
class _Held:
    outer: AsyncConnection
    driver: "psycopg.AsyncConnection[tuple[Any, ...]]"
    until_s: float
    place: Place
    leads_since_s: float | None
    """Of a connection for reading: since when it is known that this node leads (``time.monotonic``); None where that does not matter."""
    looked_at: bool = False
    warned: bool = False


class Database:
    """Connections to one database in one role, at most ``size`` at a time. ``is_cockroach`` is set by whoever met it first.

    ``url`` may be the places of several nodes, of which one leads. ``view`` is the first statement of a read-only transaction in which every
    statement is then read: CockroachDB's way to look at the past. ``follower_reads``: whether a local session on CockroachDB reads followers
    by itself.
    """

    def __init__(
        self,
        url: str | Places,
        *,
        role: Role,
        size: int,
        cockroach_cluster: bool = False,
        view: str | None = None,
        follower_reads: bool = True,
    ) -> None:
        self._places: Places = OnePlace(url) if isinstance(url, str) else url
        self._engines: dict[str, AsyncEngine] = {}
        self._role = role
        self._cockroach_cluster = cockroach_cluster
        self._view = view
        self._follower_reads = follower_reads and view is None
        self._proof: QuorumProof | None = None
        self._size = size
        self._slots = asyncio.Semaphore(size)
        self._idle: list[_Held] = []
        self._busy: set[_Held] = set()
        self._opening: set[asyncio.Task[_Held]] = set()
        self._closed = False
        self.is_cockroach = False
        self.leads = False
        """Whether the node that was connected to last leads. Known of readers that need a proof."""

    async def asks_cockroach(self) -> bool:
        """Connect and find out what answers. Raises ``StoreRetryable``."""
        rows = await self.fetch("version", cockroach.VERSION_QUERY)
        return cockroach.is_cockroach(rows[0][0])

    async def close(self) -> None:
        """Give every connection up."""
        self._closed = True
        for held in self._busy:
            _hang_up(held)
        if self._opening:
            await asyncio.wait(self._opening, timeout=CONNECT_TIMEOUT_S)
        for opening in self._opening:
            opening.cancel()
        while self._idle:
            await self._idle.pop().outer.close()
        for engine in self._engines.values():
            await engine.dispose()

    def demand(self, proof: QuorumProof) -> None:
        """From now on give out what a leading node says only once it has proved that it leads. A local replica may turn out to be one, too.

        A writer needs no proof, for its commits are one; it gives them to those that do.
        """
        self._proof = proof

    def acknowledged(self, begun_s: float) -> None:
        """A statement that was begun then (``time.monotonic``) has changed something, and was acknowledged."""
        if self._proof is not None:
            self._proof.acknowledged(begun_s)

    async def prove(self) -> None:
        """Return once the leader is known to lead. For what is concluded from a writer's look. Raises ``StoreRetryable``."""
        if self._proof is not None:
            await self._proof.need(float("-inf"))

    async def warm(self, connections: int) -> None:
        """Have so many connections at hand: making one to a far node takes six round trips. What fails now is tried when it is needed."""
        made = await asyncio.gather(*(self._take() for _ in range(connections)), return_exceptions=True)
        for each in made:
            if isinstance(each, _Held):
                self._idle.append(each)
            elif not isinstance(each, StoreRetryable):
                raise each

    def abandon(self, current: Place | None) -> None:
        """Give up what is under way at another node than the current one: it may never answer. Nothing is abandoned while none is known."""
        if current is not None:
            for held in self._busy:
                if held.place != current:
                    _hang_up(held)

    async def who(self) -> tuple[bool, int]:
        """Whether this node follows, and the timeline it writes. PostgreSQL only. Raises ``StoreRetryable``."""
        ((follows, timeline, _),) = await self.fetch("who", WHO_SQL)
        return follows, timeline

    async def fetch(
        self, operation: str, sql: str, params: Mapping[str, Any] | Sequence[Any] | None = None
    ) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows (none for a statement without a result). ``operation`` names it for traces and metrics.

        Raises ``StoreRetryable`` or ``UniqueKey``; any other driver error comes out as it is, and is a defect.
        """
        started_s = time.perf_counter()
        span = telemetry.tracer.start_span(operation, kind=SpanKind.CLIENT, attributes=self._attributes(operation))
        try:
            async with self._slots:
                return await self._fetch(sql, params)
        except Exception as error:
            span.set_attribute(telemetry.ERROR_TYPE, type(error).__name__)
            raise
        finally:
            span.end()
            telemetry.statement_duration_s.record(time.perf_counter() - started_s, self._attributes(operation))

    async def wait_until_durable(self) -> None:
        """Return once everything that could be read so far is committed by the quorum.

        On PostgreSQL a row may be visible though its commit's wait for the standbys was cut short (a backend killed, the primary restarted).
        A commit that waits for the quorum now covers it, for the log is replicated in order.
        """
        if not self.is_cockroach:
            await self.fetch("barrier", "SELECT pg_logical_emit_message(true, 'isoline.barrier', '')")

    def _attributes(self, operation: str) -> dict[str, str]:
        system = "cockroachdb" if self.is_cockroach else "postgresql"
        return {telemetry.DB_SYSTEM: system, telemetry.DB_OPERATION: operation}

    async def _fetch(self, sql: str, params: Mapping[str, Any] | Sequence[Any] | None) -> list[tuple[Any, ...]]:
        waited = bool(self._idle)
        try:
            return await self._fetch_once(sql, params)
        except StoreRetryable:
            # A connection that waited may have died meanwhile, which says nothing about the database: a read just asks again.
            if self._role is Role.WRITER or not waited:
                raise
            return await self._fetch_once(sql, params)

    async def _fetch_once(self, sql: str, params: Mapping[str, Any] | Sequence[Any] | None) -> list[tuple[Any, ...]]:
        held = await self._take()
        if held.leads_since_s is not None:
            assert self._proof is not None
            self._proof.begin(held.leads_since_s)
        self._busy.add(held)
        try:
            rows = await self._run(held, sql, params)
        except BaseException as error:
            await self._drop_or_keep(held, error)
            if isinstance(error, psycopg.Error):
                raise _meaning(error, self._role, broken=held.driver.broken or held.driver.closed) from error
            raise
        finally:
            self._busy.discard(held)
        self._idle.append(held)
        if held.leads_since_s is not None:
            assert self._proof is not None
            await self._proof.need(held.leads_since_s)
        return rows

    async def _run(
        self, held: _Held, sql: str, params: Mapping[str, Any] | Sequence[Any] | None
    ) -> list[tuple[Any, ...]]:
        cursor = held.driver.cursor(binary=True)
        held.warned = False
        if self._view is not None:
            await cursor.execute("BEGIN")
            await cursor.execute(self._view)
        await cursor.execute(sql, params, prepare=not self.is_cockroach)
        rows = await cursor.fetchall() if cursor.description else []
        if self._view is not None:
            await cursor.execute("COMMIT")
        if held.warned:
            # PostgreSQL answers a commit whose wait for the standbys was cut short with success and a warning: not durable as promised.
            raise StoreRetryable("the database answered with a warning", ambiguous=True)
        return rows

    async def _take(self) -> _Held:
        now_s = time.monotonic()
        while len(self._idle) > self._size:
            await _discard(self._idle.pop(0))
        while self._idle:
            held = self._idle.pop()
            if (
                held.until_s > now_s
                and not held.driver.closed
                and held.place == self._places.current
                and self._seen(held)
            ):
                return held
            await _discard(held)
        opening = asyncio.create_task(self._connect(now_s), name="opening")
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._keep)
            raise

    def _keep(self, opening: "asyncio.Task[_Held]") -> None:
        """What nobody waits for any more is there for the next."""
        if not opening.cancelled() and opening.exception() is None:
            self._idle.append(opening.result())

    async def _connect(self, now_s: float) -> _Held:
        place = await self._places.place()
        try:
            outer = await self._engine_of(place.url).connect()
            raw = (await outer.get_raw_connection()).driver_connection
        except (DBAPIError, OSError) as error:
            self._places.doubt(place)
            raise StoreRetryable(f"cannot connect: {type(error).__name__}", ambiguous=False) from error
        assert raw is not None
        arrays.register(raw)
        held = _Held(outer=outer, driver=raw, until_s=now_s + HOLD_MAX_S, place=place, leads_since_s=None)
        if self._role is Role.WRITER:
            raw.add_notice_handler(lambda notice: _note(held, notice))
        if place.timeline or self._reads_with_proof:
            try:
                await self._look_at(held)
            except BaseException:
                await _discard(held)
                raise
        return held

    async def _look_at(self, held: _Held) -> None:
        """See whether the node leads. One that was to lead, and follows or stands on another timeline, is not spoken to."""
        try:
            cursor = held.driver.cursor()
            await cursor.execute(WHO_SQL)
            ((follows, timeline, strayed),) = await cursor.fetchall()
        except psycopg.Error as error:
            self._places.doubt(held.place)
            raise StoreRetryable(error.sqlstate or "connection lost", ambiguous=False) from error
        if held.place.timeline and (follows or timeline != held.place.timeline):
            self._places.doubt(held.place)
            raise StoreRetryable("this node does not lead any more", ambiguous=False)
        if strayed and self._reads_with_proof:
            raise StoreRetryable("this node has received nothing from a leader since it started", ambiguous=False)
        self.leads = not follows
        if self._reads_with_proof and not follows:
            assert self._proof is not None
            self._proof.check_timeline(timeline)
            held.leads_since_s = time.monotonic()
        held.looked_at = True

    @property
    def _reads_with_proof(self) -> bool:
        return self._proof is not None and self._role is not Role.WRITER

    def _seen(self, held: _Held) -> bool:
        return held.looked_at or not self._reads_with_proof

    def _engine_of(self, url: str) -> AsyncEngine:
        engine = self._engines.get(url)
        if engine is None:
            engine = self._engines[url] = _engine(
                url, self._role, cockroach_cluster=self._cockroach_cluster, follower_reads=self._follower_reads
            )
        return engine

    async def _drop_or_keep(self, held: _Held, error: BaseException) -> None:
        healthy = isinstance(error, psycopg.Error) and not (held.driver.broken or held.driver.closed)
        if healthy and self._view is None and getattr(error, "sqlstate", None) != "25006" and not self._closed:
            self._idle.append(held)
            return
        lost = held.driver.broken or held.driver.closed
        if lost or getattr(error, "sqlstate", None) == "25006":
            self._places.doubt(held.place)
        await _discard(held)
        while lost and self._idle:
            # What ended this connection most likely ended those that wait, too: one call learns it, not one call each.
            await _discard(self._idle.pop())


def _note(held: _Held, notice: psycopg.errors.Diagnostic) -> None:
    if notice.severity_nonlocalized == "WARNING":
        held.warned = True


def _hang_up(held: _Held) -> None:
    """End the connection under its statement, which then fails as if the other side had. Said to the socket, for the driver is waiting on it."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(held.driver.pgconn.socket)) as ours:
        ours.shutdown(socket.SHUT_RDWR)


async def _discard(held: _Held) -> None:
    await held.outer.invalidate()
    await held.outer.close()


def _meaning(error: psycopg.Error, role: Role, *, broken: bool) -> Exception:
    state = error.sqlstate or ""
    if role is Role.LOCAL:
        # Whatever keeps a replica from answering (a page that fails its checksum, a table it has not received yet), the leader is asked.
        return StoreRetryable(state or "connection lost", ambiguous=False)
    if isinstance(error, pg_errors.UniqueViolation):
        return UniqueKey(error.diag.constraint_name or "")
    if state in NOT_DONE:
        return StoreRetryable(state, ambiguous=False)
    if state in PERHAPS_DONE or state.startswith("08") or broken:
        return StoreRetryable(state or "connection lost", ambiguous=True)
    return error


def _engine(url: str, role: Role, *, cockroach_cluster: bool, follower_reads: bool) -> AsyncEngine:
    options = [] if role is Role.WRITER else ["default_transaction_read_only=on"]
    if not cockroach_cluster:
        # Rows are found by key. A plan made while a table was small must not scan it for as long as the connection lives.
        options.append("enable_seqscan=off")
    elif role is Role.LOCAL and follower_reads:
        options.append(cockroach.follower_reads_session())
    return create_async_engine(
        url,
        isolation_level="AUTOCOMMIT",
        # Connections are held by Database and given up by it: a second pool underneath would only hide broken ones.
        poolclass=NullPool,
        connect_args={
            "async_creator_fn": _Connection.connect,
            "options": " ".join(f"-c {option}" for option in options),
            "application_name": f"isoline-{role.value}",
            "connect_timeout": CONNECT_TIMEOUT_S,
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,
        },
    )
