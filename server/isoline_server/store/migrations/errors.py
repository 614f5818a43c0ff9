"""Every fact that can stop a migration or the check of a schema, one class each. Sentences for operators, who read them at start-up.

::

    MigrationError
    ├── SchemaMismatch      the database's schema is not the one this server was written for (found, expected)
    │   ├── SchemaOutdated      it lacks revisions
    │   └── SchemaTooNew        it has one that this server does not know
    ├── ForeignTable        a table with a name of ours is something else
    ├── RegionsMissing      a CockroachDB database without regions, and none were given
    ├── WrongDialect        a CockroachDB under a PostgreSQL URL
    ├── LeaseBusy           another runner is at work and stayed so
    ├── LeaseLost           another runner took over meanwhile
    └── DatabaseFailed      the database cannot be reached, or refused a statement (sqlstate)
"""


class MigrationError(Exception):
    """Base of them all. ``str()`` is the sentence for people."""


class SchemaMismatch(MigrationError):
    """The schema of the database is not the one that this server was written for."""

    def __init__(self, message: str, found: str | None, expected: str) -> None:
        self.found, self.expected = found, expected
        super().__init__(message)


class SchemaOutdated(SchemaMismatch):
    """The database lacks revisions that this server needs."""

    def __init__(self, found: str | None, expected: str) -> None:
        state = "has no schema yet" if found is None else f"has schema {found}"
        message = f"the database {state}, and this server needs {expected}: run isoline migrate"
        super().__init__(message, found, expected)


class SchemaTooNew(SchemaMismatch):
    """The database has a revision that this server has never heard of."""

    def __init__(self, found: str, expected: str) -> None:
        message = f"the database has schema {found}, which is newer than this server (it knows up to {expected}): upgrade the server"
        super().__init__(message, found, expected)


class ForeignTable(MigrationError):
    """A table with a name of ours was there before, and is something else."""

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(f"the table {table} exists and is not Isoline's: give Isoline a database of its own")


class RegionsMissing(MigrationError):
    """The tables are ``REGIONAL BY ROW``, which needs a database with regions, and none were given."""

    def __init__(self, database: str) -> None:
        self.database = database
        super().__init__(
            f"the CockroachDB database {database} has no regions; name them, the primary one first. Nodes are started with theirs: "
            "cockroach start --locality=region=... (SHOW REGIONS FROM CLUSTER lists them)"
        )


class WrongDialect(MigrationError):
    """The database is CockroachDB and the URL says PostgreSQL."""

    def __init__(self) -> None:
        super().__init__("this database is CockroachDB: its URL must begin with cockroachdb+psycopg://")


class LeaseBusy(MigrationError):
    """Another runner is at work and stayed so for as long as we were willing to wait."""

    def __init__(self, holder: str, waited_s: float) -> None:
        self.holder, self.waited_s = holder, waited_s
        super().__init__(f"{holder} is migrating this database; gave up after waiting {waited_s:.0f} s")


class LeaseLost(MigrationError):
    """Another runner took the lease while a step was under way. What was done stays done; start again to do the rest."""

    def __init__(self, holder: str) -> None:
        self.holder = holder
        super().__init__(f"{holder} lost the migration lease to another runner; run isoline migrate again")


class DatabaseFailed(MigrationError):
    """The database cannot be reached (``sqlstate`` is None), or refused a statement."""

    def __init__(self, reason: str, sqlstate: str | None) -> None:
        self.sqlstate = sqlstate
        super().__init__(
            f"the database cannot be reached: {reason}"
            if sqlstate is None
            else f"the database refused: {reason} ({sqlstate})"
        )
