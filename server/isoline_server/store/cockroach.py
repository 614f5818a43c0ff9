"""Every SQL text that only CockroachDB understands, and how to tell it from PostgreSQL. Nothing here talks to a database.

Each function returns one statement, made from checked names only, and names the page of the documentation that allows it.
``tests/golden/sql`` holds the same statements as they are sent, so that a change of one is seen in review.
SQL that both engines share does not belong here; privileges are the exception, because they go with the set-up of a cluster.
"""

import re
from typing import Final

from isoline_server.domain import ids
from isoline_server.domain.errors import InvalidField

VERSION_QUERY: Final = "SELECT version()"
REGION_TYPE: Final = "crdb_internal_region"
LOCALITY: Final = "LOCALITY REGIONAL BY ROW AS region"
REGIONS_TO_SURVIVE_ONE: Final = 3
HISTORY_S: Final = 14_400
"""How far back a read may ask: ``gc.ttlseconds`` as CockroachDB comes. Older versions of rows may be gone."""

IMMUTABLE_TABLES: Final = ("events", "lineage", "snapshots", "invocations")
_REGION_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")


def is_cockroach(version: str) -> bool:
    """Whether the answer to ``VERSION_QUERY`` is CockroachDB's. The name of the dialect does not tell: it also talks to PostgreSQL.

    https://www.cockroachlabs.com/docs/v26.2/functions-and-operators#system-info-functions
    """
    return "CockroachDB" in version


def check_region_name(text: str, field: str = "region") -> str:
    """The name of a region as the nodes of the cluster were started with, such as ``europe-west1``.

    https://www.cockroachlabs.com/docs/v26.2/multiregion-overview#cluster-regions
    """
    if _REGION_NAME.fullmatch(text) is None:
        raise InvalidField(
            field, "must be a lower-case letter, then up to 62 lower-case letters, digits or hyphens", got=text[:200]
        )
    return text


def code_literal(code: str) -> str:
    """Our short code of a region as a literal: what the column ``region`` holds on PostgreSQL."""
    return f"'{ids.check_region(code)}'"


def region_literal(name: str) -> str:
    """A region of the cluster as a literal: what the column ``region`` holds on CockroachDB.

    A literal, because a plan made for a placeholder cannot know in which region the rows are.
    https://www.cockroachlabs.com/docs/v26.2/alter-table#crdb_region
    """
    return f"'{check_region_name(name)}'"


def set_primary_region(database: str, region: str) -> str:
    """Make the database a multi-region one. It must come before the first ``add_region`` and before the tables.

    https://www.cockroachlabs.com/docs/v26.2/alter-database#set-primary-region
    """
    return f'ALTER DATABASE {_quoted(database, "database")} SET PRIMARY REGION "{check_region_name(region)}"'


def add_region(database: str, region: str) -> str:
    """Add a region to a database that has a primary region.

    https://www.cockroachlabs.com/docs/v26.2/alter-database#add-region
    """
    return f'ALTER DATABASE {_quoted(database, "database")} ADD REGION IF NOT EXISTS "{check_region_name(region)}"'


def survive_region_failure(database: str) -> str:
    """Keep every row readable and writable when a whole region is lost; needs ``REGIONS_TO_SURVIVE_ONE`` regions.

    https://www.cockroachlabs.com/docs/v26.2/alter-database#survive-zone-region-failure
    """
    return f"ALTER DATABASE {_quoted(database, 'database')} SURVIVE REGION FAILURE"


def show_regions(database: str) -> str:
    """The regions of a database, one a row, in the column ``region``; no row if it is not a multi-region one.

    https://www.cockroachlabs.com/docs/v26.2/show-regions
    """
    return f"SHOW REGIONS FROM DATABASE {_quoted(database, 'database')}"


def show_survival_goal(database: str) -> str:
    """``zone`` or ``region``, in the column ``survival_goal``; an error if the database has no regions.

    https://www.cockroachlabs.com/docs/v26.2/sql-grammar#show_survival_goal_stmt
    """
    return f"SHOW SURVIVAL GOAL FROM DATABASE {_quoted(database, 'database')}"


def follower_reads_session() -> str:
    """The session setting with which every read-only statement reads the newest past that the nearest replica can serve.

    For connections that never do anything else: a pooled connection must not stay stale by accident.
    https://www.cockroachlabs.com/docs/v26.2/follower-reads
    """
    return "default_transaction_use_follower_reads=on"


def follower_read_transaction() -> str:
    """The first statement of a transaction that reads the newest past which the nearest replica can serve, the same for all its statements.

    Sent after a plain ``BEGIN``, before anything else; the transaction may then only read, and no statement of it may have a clause
    ``AS OF SYSTEM TIME`` of its own.
    https://www.cockroachlabs.com/docs/v26.2/follower-reads#exact-staleness-follower-reads-in-read-only-transactions
    """
    return "SET TRANSACTION AS OF SYSTEM TIME follower_read_timestamp()"


def exact_staleness(age_s: int) -> str:
    """As ``follower_read_transaction``, at an age of our choice: 1 to ``HISTORY_S`` seconds before this statement.

    Constant text made from an integer: a placeholder is not allowed here. Under about 5 s the leaseholder answers, not the nearest replica.
    https://www.cockroachlabs.com/docs/v26.2/as-of-system-time#parameters
    """
    return f"SET TRANSACTION AS OF SYSTEM TIME '-{_seconds(age_s, 'age_s')}s'"


def bounded_head(region: str, max_staleness_s: int) -> str:
    """The head of one run, as new as the nearest replica can give it without asking another, at most so many seconds old.

    An error (``0A000`` apart, which is a defect) when it cannot: no leaseholder is asked. One row found by its whole primary key, sent alone,
    not in a transaction: that is all that a bounded read may be. Parameter ``run_id``; columns ``head_seq``, ``head_digest``, ``head_bytes``,
    ``terminal_seq``; no row says only that the replica has none yet.
    https://www.cockroachlabs.com/docs/v26.2/follower-reads#bounded-staleness-reads
    """
    age_s = _seconds(max_staleness_s, "max_staleness_s")
    return f"""
SELECT head_seq, head_digest, head_bytes, terminal_seq
  FROM runs AS OF SYSTEM TIME with_max_staleness('{age_s}s', true)
 WHERE region = {region_literal(region)} AND run_id = %(run_id)s::TEXT"""


def unlock_schema(table: str) -> str:
    """Allow changes to a table that was made with ``schema_locked``, the default since v26.1. Must be sent alone, without a transaction.

    https://www.cockroachlabs.com/docs/v26.2/with-storage-parameter#table-parameters
    """
    return f"ALTER TABLE {_quoted(table, 'table')} SET (schema_locked = false)"


def lock_schema(table: str) -> str:
    """Undo ``unlock_schema`` after the change. Must be sent alone, without a transaction.

    https://www.cockroachlabs.com/docs/v26.2/with-storage-parameter#table-parameters
    """
    return f"ALTER TABLE {_quoted(table, 'table')} SET (schema_locked = true)"


def show_create_table(table: str) -> str:
    """The definition of a table, in the column ``create_statement``, with its storage parameters.

    https://www.cockroachlabs.com/docs/v26.2/show-create
    """
    return f"SHOW CREATE TABLE {_quoted(table, 'table')}"


def expire_receipts_after(days: int) -> str:
    """Let the database delete receipts of this age. No migration does it: afterwards a late repeat is taken for a new request.

    An operator who bounds the age of repeats may choose it, with room to spare.
    https://www.cockroachlabs.com/docs/v26.2/row-level-ttl#add-or-update-the-row-level-ttl-for-an-existing-table
    """
    if not 1 <= days <= 36_500:
        raise InvalidField("days", "must be 1 to 36500", got=str(days))
    return f"ALTER TABLE receipts SET (ttl_expiration_expression = $$(created_at + '{int(days)} days')$$, ttl_job_cron = '@daily')"


def revoke_changes(table: str, role: str) -> str:
    """Take from the role of the servers the right to change what is immutable. PostgreSQL takes the same text.

    https://www.cockroachlabs.com/docs/v26.2/revoke
    """
    if table not in IMMUTABLE_TABLES:
        raise InvalidField("table", f"must be one of {', '.join(IMMUTABLE_TABLES)}", got=table[:200])
    return f"REVOKE UPDATE, DELETE ON TABLE {table} FROM {_quoted(role, 'role')}"


def _seconds(value: int, field: str) -> int:
    if not 1 <= value <= HISTORY_S:
        raise InvalidField(field, f"must be 1 to {HISTORY_S}", got=str(value))
    return int(value)


def _quoted(name: str, field: str) -> str:
    if _IDENTIFIER.fullmatch(name) is None:
        raise InvalidField(
            field,
            "must be a letter or underscore, then up to 62 letters, digits, underscores or hyphens",
            got=name[:200],
        )
    return f'"{name}"'
