"""The tables, as SQLAlchemy Core. What is hashed is BYTEA; nothing hashed is ever JSON.

``region`` is the first column of every primary key and unique index: on CockroachDB it is the partitioning column of ``REGIONAL BY ROW``,
and statements render it as a literal. No foreign keys, triggers, sequences or enums that a client binds. The DDL that makes these tables is
written by hand in ``migrations``; ``tests/store/test_migrations.py`` compares the two.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
)

from isoline_server.domain.ids import Region, check_region

metadata = MetaData()

runs = Table(
    "runs",
    metadata,
    Column("region", String(15), nullable=False),
    Column("run_id", String(192), nullable=False),
    Column("tenant", String(133), nullable=False),
    Column("workflow_id", String(128), nullable=False),
    # A JSON array of strings; never compared or hashed.
    Column("tags", LargeBinary, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("era", SmallInteger, nullable=False),
    # The head: the only sequencer. -1 and the digest of the empty prefix while the run is empty.
    Column("head_seq", BigInteger, nullable=False),
    Column("head_digest", LargeBinary, nullable=False),
    Column("head_bytes", BigInteger, nullable=False),
    Column("terminal_seq", BigInteger),
    # Set on forks, never changed.
    Column("fork_mode", SmallInteger),
    Column("source_run_id", String(192)),
    Column("from_seq", BigInteger),
    Column("prefix_digest", LargeBinary),
    Column("overlay", LargeBinary),
    PrimaryKeyConstraint("region", "run_id", name="runs_pkey"),
)
Index("runs_by_tenant", runs.c.region, runs.c.tenant, runs.c.created_at, runs.c.run_id)

lineage = Table(
    "lineage",
    metadata,
    Column("region", String(15), nullable=False),
    Column("run_id", String(192), nullable=False),
    # Events [start_seq, end_seq) of this run stand in the log of origin_run_id.
    Column("start_seq", BigInteger, nullable=False),
    Column("end_seq", BigInteger, nullable=False),
    Column("origin_run_id", String(192), nullable=False),
    PrimaryKeyConstraint("region", "run_id", "start_seq", name="lineage_pkey"),
)

events = Table(
    "events",
    metadata,
    Column("region", String(15), nullable=False),
    Column("run_id", String(192), nullable=False),
    Column("seq", BigInteger, nullable=False),
    # The bytes of the event, made once.
    Column("record", LargeBinary, nullable=False),
    # Digest of the prefix [0, seq].
    Column("digest", LargeBinary, nullable=False),
    # Record bytes of the prefix [0, seq]: pages are cut by it without measuring rows.
    Column("end_byte", BigInteger, nullable=False),
    PrimaryKeyConstraint("region", "run_id", "seq", name="events_pkey"),
)

receipts = Table(
    "receipts",
    metadata,
    Column("region", String(15), nullable=False),
    # SHA-256 of tenant, operation and request id (or of run, engine and counter).
    Column("key", LargeBinary, nullable=False),
    Column("request_hash", LargeBinary, nullable=False),
    # The outcome: the run made, or the seqs given and the digest behind the last.
    Column("run_id", String(192)),
    Column("first_seq", BigInteger),
    Column("last_seq", BigInteger),
    Column("digest", LargeBinary),
    Column("created_at", DateTime(timezone=True), nullable=False),
    PrimaryKeyConstraint("region", "key", name="receipts_pkey"),
)

engines = Table(
    "engines",
    metadata,
    Column("region", String(15), nullable=False),
    Column("run_id", String(192), nullable=False),
    Column("engine", String(128), nullable=False),
    # The engine's own counter of its newest event in this run.
    Column("last_engine_seq", BigInteger, nullable=False),
    PrimaryKeyConstraint("region", "run_id", "engine", name="engines_pkey"),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("region", String(15), nullable=False),
    Column("run_id", String(192), nullable=False),
    # The state is the fold of [0, seq). Immutable.
    Column("seq", BigInteger, nullable=False),
    Column("prefix_digest", LargeBinary, nullable=False),
    Column("state", LargeBinary, nullable=False),
    Column("state_digest", LargeBinary, nullable=False),
    PrimaryKeyConstraint("region", "run_id", "seq", name="snapshots_pkey"),
)


def region_literal(region: Region) -> str:
    """A region as an SQL literal. Checked again here: this is the one value that is written into a statement's text."""
    return f"'{check_region(region)}'"
