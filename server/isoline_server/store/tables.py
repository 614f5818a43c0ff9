"""The tables, as SQLAlchemy Core. What is hashed is BYTEA; nothing hashed is ever JSON.

``region`` is the first column of every primary key and unique index: on CockroachDB it is the partitioning column of ``REGIONAL BY ROW``,
and statements render it as a literal. No foreign keys, triggers, sequences or enums that a client binds. The DDL that makes these tables is
written by hand in ``migrations``; ``tests/store/test_migrations.py`` compares the two.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    text,
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
    # Executors run it. When it wants one; absent: not before something happens to it. While it is leased the time stays, so that the run
    # of an executor that died is taken over when its lease ends.
    Column("executed", Boolean, nullable=False, server_default=text("false")),
    Column("wake_at", DateTime(timezone=True)),
    # Something other than an append wanted the executor since the run was claimed.
    Column("called", Boolean, nullable=False, server_default=text("false")),
    # The newest lease: its epoch only grows. No expiry: it was given back.
    Column("lease_epoch", BigInteger, nullable=False, server_default=text("0")),
    Column("lease_owner", String(128)),
    Column("lease_expires_at", DateTime(timezone=True)),
    # The first seqs at which memory, or a summary, was written without saying what it became: no executed fork may begin behind them.
    Column("memory_gap_seq", BigInteger),
    Column("summary_gap_seq", BigInteger),
    # Of an era-2 run: the first event that has no v2 form.
    Column("untranslatable_seq", BigInteger),
    PrimaryKeyConstraint("region", "run_id", name="runs_pkey"),
)
Index("runs_by_tenant", runs.c.region, runs.c.tenant, runs.c.created_at, runs.c.run_id)
Index("runs_by_workflow", runs.c.region, runs.c.tenant, runs.c.workflow_id, runs.c.created_at, runs.c.run_id)
Index(
    "runs_by_wake",
    runs.c.region,
    runs.c.tenant,
    runs.c.wake_at,
    runs.c.run_id,
    postgresql_where=runs.c.wake_at.is_not(None),
)

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

effects = Table(
    "effects",
    metadata,
    # The home region of the run: claims and outcomes are fenced by the run's row.
    Column("region", String(15), nullable=False),
    Column("run_id", String(192), nullable=False),
    Column("effect_id", String(128), nullable=False),
    Column("tenant", String(133), nullable=False),
    Column("node_id", String(128), nullable=False),
    Column("visit", BigInteger, nullable=False),
    Column("ordinal", BigInteger, nullable=False),
    Column("seam", String(128), nullable=False),
    Column("provider_key", String(512), nullable=False),
    Column("request_digest", LargeBinary, nullable=False),
    # See domain/effect.py. Moves only by statements that name the state, the attempt and the epoch before.
    Column("state", SmallInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("lease_epoch", BigInteger, nullable=False),
    Column("draws", LargeBinary, nullable=False),
    Column("outcome", LargeBinary, nullable=False),
    Column("cost", LargeBinary, nullable=False),
    # Never changes, so that lists keep their order.
    Column("first_claimed_at", DateTime(timezone=True), nullable=False),
    Column("claimed_at", DateTime(timezone=True), nullable=False),
    Column("outbound_at", DateTime(timezone=True)),
    Column("ended_at", DateTime(timezone=True)),
    Column("resolved_by", String(256), nullable=False),
    PrimaryKeyConstraint("region", "run_id", "effect_id", name="effects_pkey"),
)
Index(
    "effects_by_state",
    effects.c.region,
    effects.c.tenant,
    effects.c.state,
    effects.c.first_claimed_at,
    effects.c.run_id,
    effects.c.effect_id,
)

invocations = Table(
    "invocations",
    metadata,
    # The home region of the run.
    Column("region", String(15), nullable=False),
    Column("run_id", String(192), nullable=False),
    Column("node_id", String(128), nullable=False),
    Column("execution", BigInteger, nullable=False),
    # Lower-case hex of the request's digest.
    Column("key", String(64), nullable=False),
    Column("repetition", Integer, nullable=False),
    Column("tenant", String(133), nullable=False),
    # Immutable: the first record counts.
    Column("kind", SmallInteger, nullable=False),
    Column("response", LargeBinary, nullable=False),
    Column("cost", LargeBinary, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
    PrimaryKeyConstraint("region", "run_id", "node_id", "execution", "key", "repetition", name="invocations_pkey"),
)


def region_literal(region: Region) -> str:
    """A region as an SQL literal. Checked again here: this is the one value that is written into a statement's text."""
    return f"'{check_region(region)}'"
