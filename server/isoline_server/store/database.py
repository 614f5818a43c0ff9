"""One database seen through one role: how connections are opened, held and given up, and what its errors mean.

The engine is SQLAlchemy's (it knows the dialects and opens the connections); the statements of this package are single, prepared, and run on
the driver's own cursor with binary parameters, because a checkout and a result wrapper for each of them would cost more than the statement.

Every statement of the service is one autocommit statement, so the whole-transaction retry of the callers is a retry of the statement. It
retries by itself only a read whose connection had died while it waited. It tells failures apart by SQLSTATE:

* ``40001``, ``40P01``, ``55P03``, ``53300``, ``57P03``, ``25006`` and failed connects: surely not done;
* ``40003``, ``08xxx``, ``57P01``, ``57P02``, ``57014`` and a connection that broke: perhaps done;
* ``23505``: a row with this key exists, nothing was done.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import psycopg
from opentelemetry.trace import SpanKind
from psycopg import errors as pg_errors
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from isoline_server import telemetry
from isoline_server.operations.ports import StoreRetryable
from isoline_server.store import arrays, cockroach

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


@dataclass(eq=False, slots=True)
class _Held:
    outer: AsyncConnection
    driver: "psycopg.AsyncConnection[tuple[Any, ...]]"
    until_s: float
    warned: bool = False


class Database:
    """Connections to one database in one role, at most ``size`` at a time. ``is_cockroach`` is set by whoever met it first."""

    def __init__(self, url: str, *, role: Role, size: int, cockroach_cluster: bool = False) -> None:
        self._engine = _engine(url, role, cockroach_cluster=cockroach_cluster)
        self._role = role
        self._slots = asyncio.Semaphore(size)
        self._idle: list[_Held] = []
        self._closed = False
        self.is_cockroach = False

    async def asks_cockroach(self) -> bool:
        """Connect and find out what answers. Raises ``StoreRetryable``."""
        rows = await self.fetch("version", cockroach.VERSION_QUERY)
        return cockroach.is_cockroach(rows[0][0])

    async def close(self) -> None:
        """Give every connection up."""
        self._closed = True
        while self._idle:
            await self._idle.pop().outer.close()
        await self._engine.dispose()

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
        try:
            rows = await self._run(held, sql, params)
        except BaseException as error:
            await self._drop_or_keep(held, error)
            if isinstance(error, psycopg.Error):
                raise _meaning(error, self._role, broken=held.driver.broken or held.driver.closed) from error
            raise
        self._idle.append(held)
        return rows

    async def _run(
        self, held: _Held, sql: str, params: Mapping[str, Any] | Sequence[Any] | None
    ) -> list[tuple[Any, ...]]:
        cursor = held.driver.cursor(binary=True)
        held.warned = False
        await cursor.execute(sql, params, prepare=not self.is_cockroach)
        rows = await cursor.fetchall() if cursor.description else []
        if held.warned:
            # PostgreSQL answers a commit whose wait for the standbys was cut short with success and a warning: not durable as promised.
            raise StoreRetryable("the database answered with a warning", ambiguous=True)
        return rows

    async def _take(self) -> _Held:
        now_s = time.monotonic()
        while self._idle:
            held = self._idle.pop()
            if held.until_s > now_s and not held.driver.closed:
                return held
            await _discard(held)
        return await self._connect(now_s)

    async def _connect(self, now_s: float) -> _Held:
        try:
            outer = await self._engine.connect()
            raw = (await outer.get_raw_connection()).driver_connection
        except (DBAPIError, OSError) as error:
            raise StoreRetryable(f"cannot connect: {type(error).__name__}", ambiguous=False) from error
        assert raw is not None
        arrays.register(raw)
        held = _Held(outer=outer, driver=raw, until_s=now_s + HOLD_MAX_S)
        if self._role is Role.WRITER:
            raw.add_notice_handler(lambda notice: _note(held, notice))
        return held

    async def _drop_or_keep(self, held: _Held, error: BaseException) -> None:
        healthy = isinstance(error, psycopg.Error) and not (held.driver.broken or held.driver.closed)
        if healthy and getattr(error, "sqlstate", None) != "25006" and not self._closed:
            self._idle.append(held)
            return
        lost = held.driver.broken or held.driver.closed
        await _discard(held)
        while lost and self._idle:
            # What ended this connection most likely ended those that wait, too: one call learns it, not one call each.
            await _discard(self._idle.pop())


def _note(held: _Held, notice: psycopg.errors.Diagnostic) -> None:
    if notice.severity_nonlocalized == "WARNING":
        held.warned = True


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


def _engine(url: str, role: Role, *, cockroach_cluster: bool) -> AsyncEngine:
    options = [] if role is Role.WRITER else ["default_transaction_read_only=on"]
    if not cockroach_cluster:
        # Rows are found by key. A plan made while a table was small must not scan it for as long as the connection lives.
        options.append("enable_seqscan=off")
    elif role is Role.LOCAL:
        options.append(cockroach.follower_reads_session())
    return create_async_engine(
        url,
        isolation_level="AUTOCOMMIT",
        # Connections are held by Database and given up by it: a second pool underneath would only hide broken ones.
        poolclass=NullPool,
        connect_args={
            "options": " ".join(f"-c {option}" for option in options),
            "application_name": f"isoline-{role.value}",
            "connect_timeout": CONNECT_TIMEOUT_S,
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,
        },
    )
