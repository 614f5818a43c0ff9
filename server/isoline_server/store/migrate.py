"""Bringing a database to the schema of this server, and refusing to serve on any other. Statements are in ``migrations``, not here.

``migrate`` may be run by several processes at once, again, and after a kill at any instant. ``check_schema`` is what a server asks at start.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, NullPool, create_engine, false, make_url, select
from sqlalchemy.exc import DBAPIError, ProgrammingError

from isoline_server.domain.errors import InvalidField
from isoline_server.store import cockroach
from isoline_server.store.leadership import WHO_SQL
from isoline_server.store.migrations import ddl
from isoline_server.store.migrations import regions as database_regions
from isoline_server.store.migrations.errors import (
    DatabaseFailed,
    ForeignTable,
    LeaseBusy,
    LeaseLost,
    MigrationError,
    RegionsMissing,
    SchemaMismatch,
    SchemaOutdated,
    SchemaTooNew,
    WrongDialect,
)
from isoline_server.store.migrations.lease import HOLDER_CHARS_MAX, Lease, held_lease
from isoline_server.store.migrations.rerun import rerun, sqlstate
from isoline_server.store.tables import metadata

__all__ = [
    "DatabaseFailed",
    "ForeignTable",
    "LeaseBusy",
    "LeaseLost",
    "MigrationError",
    "MigrationReport",
    "RegionsMissing",
    "SchemaMismatch",
    "SchemaOutdated",
    "SchemaTooNew",
    "WrongDialect",
    "check_schema",
    "current_revision",
    "expected_revision",
    "leading_url",
    "migrate",
]

Progress = Callable[[str], None]

UNDEFINED_TABLE: Final = "42P01"
CONNECT_TIMEOUT_S: Final = 10
"""Unless the URL says otherwise. A black hole would hold a start-up for minutes."""
WAIT_S: Final = 600.0
"""How long to wait for another runner: longer than a deployment is patient, so that its own message comes first."""

_SAID_EVERY_TIME: Final = ("Context impl ", "Will assume ")
_ALEMBIC_LOCK = threading.Lock()
"""Alembic keeps the running environment and its loggers in globals: one revision at a time in this process, whatever the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationReport:
    """What this runner did. ``steps`` are the revisions that it applied itself; empty when there was nothing to do."""

    from_revision: str | None
    to_revision: str
    steps: tuple[str, ...]


def expected_revision() -> str:
    """The newest revision that this server has."""
    return _revisions()[-1]


def current_revision(url: str) -> str | None:
    """The revision of the database; None if it was never migrated."""
    with _connection(url) as connection:
        return _found(connection)


def check_schema(url: str) -> None:
    """Return if the database has the schema of this server; ``SchemaOutdated`` or ``SchemaTooNew`` if not. Writes nothing."""
    found, known = current_revision(url), _revisions()
    _refuse_newer(found, known)
    if found != known[-1]:
        raise SchemaOutdated(found, known[-1])


def leading_url(urls: Sequence[str]) -> str:
    """Of several PostgreSQL nodes, the one that leads now: after a failover it need not be the first. Of those that do not follow, the one on
    the highest timeline. Raises ``DatabaseFailed`` when none that answers leads; a single URL is taken as it is."""
    if len(urls) == 1:
        return urls[0]
    leading: dict[str, int] = {}
    for url in urls:
        with suppress(DatabaseFailed), _connection(url) as connection:
            follows, timeline, _ = connection.exec_driver_sql(WHO_SQL).one()
            if not follows:
                leading[url] = timeline
    if not leading:
        raise DatabaseFailed(f"of {len(urls)} nodes none that answers leads", None)
    return max(leading, key=lambda url: leading[url])


def migrate(
    url: str,
    *,
    regions: Sequence[str] = (),
    holder: str,
    lease_ttl_s: int = 60,
    wait_s: float = WAIT_S,
    on_progress: Progress = lambda _: None,
) -> MigrationReport:
    """Bring the database to ``expected_revision()``. What can stop it is a ``MigrationError``; see ``migrations/errors.py``.

    ``regions`` are CockroachDB's names of the regions, the primary one first; on PostgreSQL they are not used. ``holder`` names this runner
    for people. If another runner is at work, wait for it; if it is dead, take over when its lease of ``lease_ttl_s`` ends. A step may take
    longer than that: at worst two runners then run the same step, which is harmless, and one of them stops with ``LeaseLost``.
    """
    _check_arguments(regions, holder, lease_ttl_s)
    with _connection(url) as connection:
        began, pending = _found(connection), _pending(connection)
        if not _region_statements(connection, regions) and not pending:
            return MigrationReport(from_revision=began, to_revision=expected_revision(), steps=())
        with held_lease(connection, holder=holder, ttl_s=lease_ttl_s, wait_s=wait_s, on_progress=on_progress) as lease:
            began = _found(connection)
            _set_regions(connection, lease, regions, on_progress)
            steps = _run_steps(connection, lease, on_progress)
            _refuse_foreign_tables(connection)
    return MigrationReport(from_revision=began, to_revision=expected_revision(), steps=steps)


def _set_regions(connection: Connection, lease: Lease, regions: Sequence[str], on_progress: Progress) -> None:
    for statement in _region_statements(connection, regions):
        lease.renew()
        on_progress(statement)
        rerun(partial(connection.exec_driver_sql, statement))
    if 0 < len(regions) < cockroach.REGIONS_TO_SURVIVE_ONE and ddl.on_cockroach(connection):
        on_progress(
            f"{len(regions)} region(s): the loss of one stops the database; {cockroach.REGIONS_TO_SURVIVE_ONE} survive it"
        )


def _run_steps(connection: Connection, lease: Lease, on_progress: Progress) -> tuple[str, ...]:
    rerun(partial(connection.exec_driver_sql, ddl.VERSION_TABLE_DDL.strip()))
    steps = _pending(connection)
    for revision in steps:
        lease.renew()
        try:
            rerun(partial(_upgrade, connection, revision, on_progress))
        except (CommandError, DBAPIError):
            lease.renew()  # If the lease is lost, that is the reason, and the better error.
            raise
    return steps


def _refuse_foreign_tables(connection: Connection) -> None:
    """``IF NOT EXISTS`` is content with any table of the name: ask whether each has our columns."""
    for table in metadata.sorted_tables:
        try:
            connection.execute(select(*table.columns).where(false()))
        except ProgrammingError as error:
            raise ForeignTable(table.name) from error


def _upgrade(connection: Connection, revision: str, on_progress: Progress) -> None:
    config = _config()
    config.attributes["connection"] = connection
    with _ALEMBIC_LOCK, _chatter_to(on_progress):
        command.upgrade(config, revision)


def _pending(connection: Connection) -> tuple[str, ...]:
    found, known = _found(connection), _revisions()
    _refuse_newer(found, known)
    return known if found is None else known[known.index(found) + 1 :]


def _refuse_newer(found: str | None, known: tuple[str, ...]) -> None:
    if found is not None and found not in known:
        raise SchemaTooNew(found, known[-1])


def _found(connection: Connection) -> str | None:
    try:
        found = connection.exec_driver_sql(f"SELECT version_num FROM {ddl.VERSION_TABLE}").scalar_one_or_none()
    except ProgrammingError as error:
        if sqlstate(error) != UNDEFINED_TABLE:
            raise
        return None
    return None if found is None else str(found)


def _region_statements(connection: Connection, regions: Sequence[str]) -> list[str]:
    return database_regions.missing_statements(connection, regions) if ddl.on_cockroach(connection) else []


def _revisions() -> tuple[str, ...]:
    """Every revision of this server, oldest first."""
    script = ScriptDirectory.from_config(_config())
    return tuple(step.revision for step in reversed(list(script.walk_revisions())))


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "isoline_server.store:migrations")
    config.set_main_option("path_separator", "os")
    return config


def _check_arguments(regions: Sequence[str], holder: str, lease_ttl_s: int) -> None:
    for region in regions:
        cockroach.check_region_name(region, "regions")
    if not 1 <= len(holder) <= HOLDER_CHARS_MAX:
        raise InvalidField("holder", f"must be 1 to {HOLDER_CHARS_MAX} characters", got=holder[:200])
    if lease_ttl_s < 1:
        raise InvalidField("lease_ttl_s", "must be at least 1", got=str(lease_ttl_s))


@contextmanager
def _connection(url: str) -> Iterator[Connection]:
    """A connection on which every statement commits by itself, as CockroachDB wants its DDL. Its errors come out as ours."""
    patience = {} if "connect_timeout" in make_url(url).query else {"connect_timeout": CONNECT_TIMEOUT_S}
    options = {"prepare_threshold": None, **patience}
    engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=options)
    try:
        with engine.connect() as connection:
            yield connection
    except DBAPIError as error:
        raise DatabaseFailed(str(error.orig).strip(), sqlstate(error)) from error
    except AssertionError as error:
        # SQLAlchemy's PostgreSQL dialect asserts that it can read the version, and CockroachDB's it cannot.
        if cockroach.is_cockroach(str(error)):
            raise WrongDialect from error
        raise


@contextmanager
def _chatter_to(on_progress: Progress) -> Iterator[None]:
    """Let Alembic's log lines go to the callback and nowhere else. Only under ``_ALEMBIC_LOCK``."""
    logger, handler = logging.getLogger("alembic"), _ToCallback(on_progress)
    before = (logger.level, logger.propagate)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


class _ToCallback(logging.Handler):
    def __init__(self, on_progress: Progress) -> None:
        super().__init__()
        self._on_progress = on_progress

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if not message.startswith(_SAID_EVERY_TIME):
            self._on_progress(message)
