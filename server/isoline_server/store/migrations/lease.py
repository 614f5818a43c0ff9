"""One runner at a time: a lease in a row of the database, judged by the database's clock. No advisory locks, which CockroachDB lacks.

The lease saves work and noise. Safety does not hang on it: every step may run twice, and the version table holds one row.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from sqlalchemy import Connection, TextClause, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from isoline_server.store.migrations.errors import LeaseBusy, LeaseLost
from isoline_server.store.migrations.rerun import rerun

LEASE_TABLE_DDL: Final = """
CREATE TABLE IF NOT EXISTS isoline_migration_lease (
    name VARCHAR(32) NOT NULL,
    holder VARCHAR(255) NOT NULL,
    epoch BIGINT NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT isoline_migration_lease_pkey PRIMARY KEY (name)
)
"""
TAKE: Final = """
INSERT INTO isoline_migration_lease AS lease (name, holder, epoch, expires_at)
VALUES ('schema', CAST(:holder AS VARCHAR), 1, now() + CAST(:ttl_s AS BIGINT) * INTERVAL '1 second')
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, epoch = lease.epoch + 1, expires_at = excluded.expires_at
WHERE lease.expires_at <= now()
RETURNING epoch
"""
RENEW: Final = """
UPDATE isoline_migration_lease SET expires_at = now() + CAST(:ttl_s AS BIGINT) * INTERVAL '1 second'
WHERE name = 'schema' AND holder = CAST(:holder AS VARCHAR) AND epoch = CAST(:epoch AS BIGINT)
RETURNING epoch
"""
RELEASE: Final = """
UPDATE isoline_migration_lease SET expires_at = now()
WHERE name = 'schema' AND holder = CAST(:holder AS VARCHAR) AND epoch = CAST(:epoch AS BIGINT)
"""
WHO: Final = """
SELECT holder, CAST(EXTRACT(EPOCH FROM expires_at - now()) AS FLOAT) AS left_s FROM isoline_migration_lease WHERE name = 'schema'
"""

POLL_S: Final = 0.2
HOLDER_CHARS_MAX: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease that was taken. ``epoch`` tells it from an earlier or later one of the same holder."""

    connection: Connection
    holder: str
    ttl_s: int
    epoch: int

    def renew(self) -> None:
        """Move the expiry; ``LeaseLost`` if the lease is another's by now. An expired lease that nobody took is renewed too."""
        values = {"holder": self.holder, "ttl_s": self.ttl_s, "epoch": self.epoch}
        if _first(self.connection, _RENEW, values) is None:
            raise LeaseLost(self.holder)

    def release(self) -> None:
        """Let the next runner begin at once. Does nothing if the lease is another's by now."""
        self.connection.execute(_RELEASE, {"holder": self.holder, "epoch": self.epoch})


@contextmanager
def held_lease(
    connection: Connection, *, holder: str, ttl_s: int, wait_s: float, on_progress: Callable[[str], None]
) -> Iterator[Lease]:
    """Wait for the lease, hold it for the block, release it."""
    rerun(partial(connection.exec_driver_sql, LEASE_TABLE_DDL.strip()))
    lease = _wait(connection, holder, ttl_s, wait_s, on_progress)
    try:
        yield lease
    finally:
        try:
            lease.release()
        except SQLAlchemyError as error:
            # Also one that no database raised: an interrupt leaves the connection unusable, and must come out itself.
            reason = type(error.orig if isinstance(error, DBAPIError) else error).__name__
            on_progress(f"the lease could not be released ({reason}); it ends by itself within {ttl_s} s")


def _wait(connection: Connection, holder: str, ttl_s: int, wait_s: float, on_progress: Callable[[str], None]) -> Lease:
    began = time.monotonic()
    told = ""
    while (epoch := _first(connection, _TAKE, {"holder": holder, "ttl_s": ttl_s})) is None:
        rival, left_s = _rival(connection)
        waited_s = time.monotonic() - began
        if waited_s > wait_s:
            raise LeaseBusy(rival, waited_s)
        if rival != told:
            on_progress(f"waiting for {rival}, whose lease ends in {left_s:.0f} s unless it is renewed")
            told = rival
        time.sleep(min(POLL_S, max(left_s, 0.01)))
    return Lease(connection=connection, holder=holder, ttl_s=ttl_s, epoch=epoch)


def _first(connection: Connection, statement: TextClause, values: dict[str, object]) -> int | None:
    row = rerun(lambda: connection.execute(statement, values).first())
    return None if row is None else int(row.epoch)


def _rival(connection: Connection) -> tuple[str, float]:
    row = connection.execute(_WHO).one()
    return str(row.holder), float(row.left_s)


_TAKE, _RENEW, _RELEASE, _WHO = text(TAKE.strip()), text(RENEW.strip()), text(RELEASE.strip()), text(WHO.strip())
