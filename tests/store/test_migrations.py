"""The migrations on a real PostgreSQL, through both dialects; and, with the answers of a CockroachDB put in, what one would be sent."""

import contextlib
import itertools
import json
import logging
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine, event, text
from sqlalchemy.exc import IntegrityError

from isoline_server.domain.errors import InvalidField
from isoline_server.store import cockroach
from isoline_server.store.migrate import (
    DatabaseFailed,
    ForeignTable,
    LeaseBusy,
    LeaseLost,
    RegionsMissing,
    SchemaOutdated,
    SchemaTooNew,
    WrongDialect,
    check_schema,
    current_revision,
    expected_revision,
    migrate,
)
from isoline_server.store.migrations import ddl, rerun
from isoline_server.store.tables import metadata

pytestmark = pytest.mark.postgres

DIALECTS = ("postgresql+psycopg", "cockroachdb+psycopg")
ALL_STEPS = tuple(f"{number:04}" for number in range(1, 16))
REGIONS = ("us-east1", "europe-west1", "us-west1")
_NUMBERS = itertools.count()


@pytest.fixture
def new_url(pg_cluster):
    """Makes empty databases and gives their URLs."""
    made = []

    def make(dialect="postgresql+psycopg"):
        made.append(f"migrations_{next(_NUMBERS)}")
        pg_cluster.create_database(made[-1])
        return pg_cluster.primary.url(dialect, made[-1])

    yield make
    for name in made:
        pg_cluster.drop_database(name)


@pytest.fixture(params=DIALECTS)
def url(request, new_url):
    return new_url(request.param)


def upgraded(url, **options):
    return migrate(url, **{"holder": "the test", **options})


@contextlib.contextmanager
def connected(url) -> Iterator[Connection]:
    engine = create_engine(url.replace("cockroachdb+", "postgresql+"), isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        yield connection


def rows(url, sql, **values):
    with connected(url) as connection:
        return [tuple(row) for row in connection.execute(text(sql), values)]


def execute(url, sql, **values):
    with connected(url) as connection:
        connection.execute(text(sql), values)


def shape(url):
    """Columns, constraints and indexes as the catalogue tells them, without the two tables that only migrations use."""
    ours = "NOT LIKE 'isoline%'"
    return {
        "columns": rows(
            url,
            f"""
            SELECT table_name, ordinal_position, column_name, data_type, character_maximum_length, is_nullable, column_default
            FROM information_schema.columns WHERE table_schema = 'public' AND table_name {ours} ORDER BY 1, 2""",
        ),
        "constraints": rows(
            url,
            f"""
            SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
            FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text {ours} ORDER BY 1, 2""",
        ),
        "indexes": rows(
            url,
            f"SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename {ours} ORDER BY 1, 2",
        ),
    }


# --- the schema ---


def test_migrations_make_the_schema_of_tables(url, new_url):
    made_directly = new_url()
    with connected(made_directly) as connection:
        metadata.create_all(connection)
    upgraded(url)
    assert shape(url) == shape(made_directly)


def test_text_is_ordered_by_bytes_as_on_cockroachdb(new_url):
    url = new_url()
    upgraded(url)
    collations = rows(
        url,
        """SELECT DISTINCT collation_name FROM information_schema.columns
           WHERE table_schema = 'public' AND data_type = 'character varying' AND table_name NOT LIKE 'isoline%'""",
    )
    assert collations == [("C",)]


def test_region_comes_first_in_every_key():
    for table in metadata.tables.values():
        for key in (table.primary_key, *table.indexes):
            assert next(column.name for column in key.columns) == "region"


def test_a_thousand_small_events_fit_three_times_their_payload(new_url):
    url = new_url()
    upgraded(url)
    with connected(url) as connection:
        for append in range(10):
            insert_append(connection, append, events=100, record_bytes=330)
        used = connection.execute(
            text("SELECT pg_total_relation_size('events') + pg_total_relation_size('receipts')")
        ).scalar_one()
    print(f"1,000 events of 256 bytes of payload use {used:,} bytes")
    assert used < 3 * 256 * 1000


def insert_append(connection, append, *, events, record_bytes):
    run_id = "acme/euw1-" + "a2345672345672345672345672"
    first = append * events
    connection.execute(
        text(
            "INSERT INTO events (region, run_id, seq, record, digest, end_byte) VALUES ('euw1', :run_id, :seq, :record, :digest, :end_byte)"
        ),
        [
            {
                "run_id": run_id,
                "seq": seq,
                "record": os.urandom(record_bytes),
                "digest": os.urandom(32),
                "end_byte": (seq + 1) * record_bytes,
            }
            for seq in range(first, first + events)
        ],
    )
    connection.execute(
        text(
            """INSERT INTO receipts (region, key, request_hash, first_seq, last_seq, digest, created_at)
               VALUES ('euw1', :key, :hash, :first, :last, :digest, now())"""
        ),
        {
            "key": os.urandom(32),
            "hash": os.urandom(32),
            "first": first,
            "last": first + events - 1,
            "digest": os.urandom(32),
        },
    )


# --- running them ---


def test_the_report_says_what_was_done(url):
    report = upgraded(url)
    assert (report.from_revision, report.to_revision, report.steps) == (None, expected_revision(), ALL_STEPS)
    assert current_revision(url) == expected_revision() == ALL_STEPS[-1]


def test_running_again_does_nothing(url):
    upgraded(url)
    before = (shape(url), rows(url, "SELECT holder, epoch, expires_at FROM isoline_migration_lease"))
    report = upgraded(url)
    assert report.steps == ()
    assert report.from_revision == report.to_revision == expected_revision()
    assert (shape(url), rows(url, "SELECT holder, epoch, expires_at FROM isoline_migration_lease")) == before


def test_a_database_that_is_up_to_date_needs_no_right_to_write(new_url):
    url = new_url()
    upgraded(url)
    with connected(url) as connection:
        name = connection.engine.url.database
        connection.execute(text(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'))
    assert upgraded(url).steps == ()


def test_it_goes_on_from_where_the_database_is(url):
    upgraded(url)
    execute(url, "DROP TABLE engines, snapshots")
    execute(url, "UPDATE isoline_schema_version SET version_num = '0005'")
    report = upgraded(url)
    assert (report.from_revision, report.steps) == ("0005", ALL_STEPS[5:])


def test_alembic_talks_to_the_callback_and_to_nobody_else(new_url, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    said = []
    upgraded(new_url(), on_progress=said.append)
    assert [line for line in said if line.startswith("Running upgrade")] == said
    assert said[0] == "Running upgrade  -> 0001, The table of runs, with the head of each."
    assert len(said) == len(ALL_STEPS)
    assert capfd.readouterr() == ("", "")
    assert not [record for record in caplog.records if record.name.startswith("alembic")]
    assert logging.getLogger("alembic").propagate


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"holder": ""}, "holder"),
        ({"holder": "x" * 256}, "holder"),
        ({"lease_ttl_s": 0}, "lease_ttl_s"),
        ({"regions": ["US"]}, "regions"),
    ],
)
def test_bad_arguments_are_named_before_anything_is_done(options, field):
    with pytest.raises(InvalidField) as refusal:
        upgraded("postgresql+psycopg://nobody@127.0.0.1:1/nothing", **options)
    assert refusal.value.field == field


# --- several runners ---

RUNNER = """
import json, sys
from sqlalchemy import Engine, event
from isoline_server.store.migrate import migrate

url, holder, ttl_s, stop_after = sys.argv[1:]

@event.listens_for(Engine, "after_cursor_execute")
def stop(conn, cursor, statement, parameters, context, executemany):
    if stop_after and stop_after in statement:
        print("stopped", flush=True)
        sys.stdin.read()

report = migrate(url, holder=holder, lease_ttl_s=int(ttl_s))
print(json.dumps(report.steps), flush=True)
"""


def start_runner(url, holder, *, ttl_s=60, stop_after=""):
    return subprocess.Popen(
        [sys.executable, "-c", RUNNER, url, holder, str(ttl_s), stop_after],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextlib.contextmanager
def killed_runner(url, *, stop_after, ttl_s):
    runner = start_runner(url, "the first", ttl_s=ttl_s, stop_after=stop_after)
    try:
        assert runner.stdout.readline() == "stopped\n"
        yield
    finally:
        runner.kill()
        runner.communicate()


def test_two_processes_run_each_step_once(url):
    runners = [start_runner(url, f"runner {number}") for number in range(2)]
    answers = [runner.communicate(timeout=60)[0] for runner in runners]
    steps = [step for answer in answers for step in json.loads(answer)]
    assert sorted(steps) == list(ALL_STEPS)


def test_eight_threads_run_each_step_once(new_url):
    url, start = new_url(), threading.Barrier(8)

    def run(number):
        start.wait()
        return upgraded(url, holder=f"thread {number}").steps

    with ThreadPoolExecutor(8) as pool:
        steps = [step for part in pool.map(run, range(8)) for step in part]
    assert sorted(steps) == list(ALL_STEPS)


@pytest.mark.parametrize(
    ("stop_after", "steps"),
    [
        ("CREATE TABLE IF NOT EXISTS isoline_schema_version", ALL_STEPS),
        ("CREATE TABLE IF NOT EXISTS runs", ALL_STEPS),
        ("SET version_num='0004'", ALL_STEPS[4:]),
        (f"SET version_num='{ALL_STEPS[-1]}'", ()),
    ],
)
def test_a_runner_killed_anywhere_is_taken_over(new_url, stop_after, steps):
    url, whole = new_url(), new_url()
    upgraded(whole)
    with killed_runner(url, stop_after=stop_after, ttl_s=1):
        pass
    assert upgraded(url, holder="the second").steps == steps
    assert shape(url) == shape(whole)
    check_schema(url)


def test_a_live_lease_is_waited_for_and_an_expired_one_is_taken(new_url):
    url, said = new_url(), []
    with killed_runner(url, stop_after="CREATE TABLE IF NOT EXISTS events", ttl_s=3):
        report = upgraded(url, holder="the second", on_progress=said.append)
    assert said[0].startswith("waiting for the first, whose lease ends in ")
    assert report.steps == ALL_STEPS[3:]
    assert rows(url, "SELECT holder, epoch FROM isoline_migration_lease") == [("the second", 2)]


def test_a_live_lease_is_not_taken(new_url):
    url = new_url()
    with (
        killed_runner(url, stop_after="CREATE TABLE IF NOT EXISTS events", ttl_s=600),
        pytest.raises(LeaseBusy) as refusal,
    ):
        upgraded(url, holder="the second", wait_s=0)
    assert refusal.value.holder == "the first"
    assert current_revision(url) == "0003"


def test_the_lease_is_released_at_the_end(url):
    upgraded(url)
    assert rows(url, "SELECT expires_at <= now() FROM isoline_migration_lease") == [(True,)]


def test_a_runner_whose_lease_was_taken_stops(url):
    upgraded(url)
    execute(url, "UPDATE isoline_schema_version SET version_num = '0001'")

    def steal(message):
        execute(
            url,
            "UPDATE isoline_migration_lease SET holder = 'a thief', epoch = epoch + 1, expires_at = now() + INTERVAL '1 hour'",
        )

    with pytest.raises(LeaseLost, match="the test lost the migration lease"):
        upgraded(url, on_progress=steal)
    assert current_revision(url) == "0002"
    assert rows(url, "SELECT holder, expires_at > now() FROM isoline_migration_lease") == [("a thief", True)]


def test_a_runner_that_slept_through_its_lease_cannot_turn_the_schema_back(url):
    """It wakes between its statement and its mark, when all is done already."""
    upgraded(url)
    execute(url, "UPDATE isoline_schema_version SET version_num = '0003'")

    def overtake(message):
        execute(url, f"UPDATE isoline_schema_version SET version_num = '{ALL_STEPS[-1]}'")
        execute(url, "UPDATE isoline_migration_lease SET epoch = epoch + 1, expires_at = now() + INTERVAL '1 hour'")

    with pytest.raises(LeaseLost):
        upgraded(url, on_progress=overtake)
    assert current_revision(url) == ALL_STEPS[-1]
    with pytest.raises(IntegrityError):
        execute(url, "INSERT INTO isoline_schema_version (version_num) VALUES ('0001')")


def test_an_error_of_the_database_comes_out_and_the_lease_is_released(new_url):
    url = new_url()
    with connected(url) as connection:
        connection.execute(text("CREATE TABLE runs (region text)"))
        with pytest.raises(DatabaseFailed, match='the database refused: column "tenant" does not exist') as refusal:
            upgraded(url)
        assert refusal.value.sqlstate == "42703"
        assert connection.execute(text("SELECT expires_at <= now() FROM isoline_migration_lease")).scalar_one()
    assert current_revision(url) == "0001"


def test_a_database_that_is_not_there_is_said_to_be():
    with (
        closed_port() as port,
        pytest.raises(DatabaseFailed, match=r"the database cannot be reached: .*refused") as refusal,
    ):
        check_schema(f"postgresql+psycopg://isoline:secret@127.0.0.1:{port}/isoline")
    assert refusal.value.sqlstate is None
    assert "secret" not in str(refusal.value)


@contextlib.contextmanager
def closed_port():
    """A port on which nobody listens, and nobody else can begin to."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_a_table_of_somebody_else_is_not_taken_for_ours(url):
    execute(url, "CREATE TABLE events (id BIGINT PRIMARY KEY, body TEXT)")
    with pytest.raises(
        ForeignTable, match="the table events exists and is not Isoline's: give Isoline a database of its own"
    ):
        upgraded(url)


# --- killed between any two statements ---


class Killed(BaseException):
    """The process is gone: nothing catches this, and nothing that it would still send arrives."""


class KilledAfter:
    """Ends a runner behind its n-th statement that leaves something to resume: these are all the places where it can stop.

    Reads change nothing; a lease that was only renewed, or given back, is the same to a successor who waited for its end.
    """

    PASSING = ("SELECT", "SHOW", "UPDATE ISOLINE_MIGRATION_LEASE")

    def __init__(self, writes):
        self.left = writes
        self.last = ""

    def before(self, connection, cursor, statement, parameters, context, executemany):
        if self.left == 0:
            raise Killed
        return statement, parameters

    def after(self, connection, cursor, statement, parameters, context, executemany):
        # What PretendCockroach answers by a SELECT was a write of the statement that came in.
        if not statement.lstrip().upper().startswith(self.PASSING) or getattr(context, "was_a_write", False):
            self.left -= 1
            self.last = " ".join(statement.split())
            if self.left == 0:
                raise Killed


@contextlib.contextmanager
def killed_after(writes):
    """Whether the block was killed: ``left`` is 0 afterwards."""
    killing = KilledAfter(writes)
    event.listen(Engine, "before_cursor_execute", killing.before, retval=True)
    event.listen(Engine, "after_cursor_execute", killing.after)
    try:
        with contextlib.suppress(Killed):
            yield killing
    finally:
        event.remove(Engine, "before_cursor_execute", killing.before)
        event.remove(Engine, "after_cursor_execute", killing.after)


def expire_the_lease_of_the_dead(url):
    """What time does: tests do not wait for it."""
    if rows(url, "SELECT to_regclass('isoline_migration_lease')") != [(None,)]:
        execute(url, "UPDATE isoline_migration_lease SET expires_at = now()")


def test_a_runner_killed_between_any_two_statements_of_any_revision_is_resumed(new_url):
    whole = new_url()
    with killed_after(-1) as counted:
        upgraded(whole)
    wanted, writes = shape(whole), -1 - counted.left
    assert writes >= 2 * len(ALL_STEPS)  # a change and a mark for each
    for number in range(1, writes + 1):
        url = new_url()
        with killed_after(number) as killing:
            upgraded(url, holder="the first")
        assert killing.left == 0, "the runner ended before it was killed"
        expire_the_lease_of_the_dead(url)
        done = current_revision(url)
        report = upgraded(url, holder="the second")
        assert report.steps == ALL_STEPS[0 if done is None else ALL_STEPS.index(done) + 1 :], killing.last
        assert shape(url) == wanted, killing.last
        check_schema(url)


def test_a_cockroachdb_runner_killed_between_any_two_statements_is_resumed(new_url):
    """Regions and schema locks included. What is left open by a kill stays open; what is left locked is opened when it must be."""
    with pretending(locked=True) as pretend, killed_after(-1) as counted:
        upgraded(new_url("cockroachdb+psycopg"), regions=REGIONS)
    once, writes = pretend.changes(), -1 - counted.left
    assert any("schema_locked = false" in line for line in once)
    for number in range(1, writes + 1):
        url = new_url("cockroachdb+psycopg")
        with pretending(locked=True) as pretend:
            with killed_after(number) as killing:
                upgraded(url, holder="the first", regions=REGIONS)
            assert killing.left == 0, "the runner ended before it was killed"
            expire_the_lease_of_the_dead(url)
            upgraded(url, holder="the second", regions=REGIONS)
            assert (pretend.regions, pretend.goal) == (list(REGIONS), "region"), killing.last
            wanted, sent = without_locks(once), without_locks(pretend.changes())
            assert set(sent) == set(wanted), killing.last
            assert len(sent) <= len(wanted) + 1, killing.last  # the one statement whose mark was not set any more
            assert current_revision(url) == ALL_STEPS[-1]


def test_an_interrupt_during_a_statement_comes_out_as_itself(new_url):
    said = []
    event.listen(Engine, "after_cursor_execute", interrupt_after_the_table_of_events)
    try:
        with pytest.raises(KeyboardInterrupt):
            upgraded(new_url(), on_progress=said.append)
    finally:
        event.remove(Engine, "after_cursor_execute", interrupt_after_the_table_of_events)
    assert said[-1] == "the lease could not be released (PendingRollbackError); it ends by itself within 60 s"


def interrupt_after_the_table_of_events(connection, cursor, statement, parameters, context, executemany):
    if statement.startswith("CREATE TABLE IF NOT EXISTS events"):
        raise KeyboardInterrupt


def without_locks(changes):
    return [re.sub(r"migrations_\d+", "", line) for line in changes if "schema_locked" not in line]


def test_a_region_job_that_a_killed_runner_left_behind_is_waited_for(new_url, monkeypatch):
    """CockroachDB refuses index changes while a region is being added, and the job goes on without the runner that ordered it."""
    monkeypatch.setattr(rerun, "BUSY_PAUSE_S", 0.01)
    refused = []

    def refuse_twice(connection, cursor, statement, parameters, context, executemany):
        if statement.startswith("CREATE INDEX") and len(refused) < 2:
            refused.append(statement)
            return "DO $$ BEGIN RAISE EXCEPTION 'a region is being added' USING ERRCODE = '55000'; END $$", ()
        return statement, parameters

    event.listen(Engine, "before_cursor_execute", refuse_twice, retval=True)
    try:
        assert upgraded(new_url()).steps == ALL_STEPS
    finally:
        event.remove(Engine, "before_cursor_execute", refuse_twice)
    assert len(refused) == 2


def test_a_region_job_that_does_not_end_is_said_to_be_in_the_way(new_url, monkeypatch):
    monkeypatch.setattr(rerun, "BUSY_PAUSE_S", 0.01)
    monkeypatch.setattr(rerun, "BUSY_WAIT_S", 0.05)

    def refuse(connection, cursor, statement, parameters, context, executemany):
        if statement.startswith("CREATE INDEX"):
            return "DO $$ BEGIN RAISE EXCEPTION 'a region is being added' USING ERRCODE = '55000'; END $$", ()
        return statement, parameters

    event.listen(Engine, "before_cursor_execute", refuse, retval=True)
    try:
        with pytest.raises(DatabaseFailed, match="a region is being added") as refusal:
            upgraded(new_url())
    finally:
        event.remove(Engine, "before_cursor_execute", refuse)
    assert refusal.value.sqlstate == "55000"


# --- refusing to serve ---


def test_an_empty_database_is_refused(url):
    assert current_revision(url) is None
    with pytest.raises(
        SchemaOutdated, match=rf"has no schema yet, and this server needs {ALL_STEPS[-1]}: run isoline migrate"
    ) as refusal:
        check_schema(url)
    assert (refusal.value.found, refusal.value.expected) == (None, ALL_STEPS[-1])


def test_an_older_schema_is_refused(url):
    upgraded(url)
    execute(url, "UPDATE isoline_schema_version SET version_num = '0003'")
    with pytest.raises(
        SchemaOutdated, match=rf"has schema 0003, and this server needs {ALL_STEPS[-1]}: run isoline migrate"
    ):
        check_schema(url)


def test_a_newer_schema_is_refused_also_by_migrate(url):
    upgraded(url)
    execute(url, "UPDATE isoline_schema_version SET version_num = '0815'")
    for call in (check_schema, upgraded):
        with pytest.raises(
            SchemaTooNew,
            match=rf"has schema 0815, which is newer than this server \(it knows up to {ALL_STEPS[-1]}\): upgrade the server",
        ):
            call(url)


def test_the_right_schema_is_accepted(url):
    upgraded(url)
    check_schema(url)


# --- what a CockroachDB would be sent ---


class PretendCockroach:
    """Answers for a CockroachDB what PostgreSQL cannot, and keeps every statement as it would have been sent."""

    def __init__(self, *, locked=False, regions=(), goal="zone"):
        self.locked, self.regions, self.goal = locked, list(regions), goal
        self.sent = []

    def __call__(self, connection, cursor, statement, parameters, context, executemany):
        self.sent.append(statement.strip())
        context.was_a_write = statement.startswith("ALTER")
        return self.answer(statement.strip()), parameters

    def answer(self, statement):
        if statement.lower() in ("select version()", "select pg_catalog.version()"):
            return "SELECT 'CockroachDB CCL v26.2.1 (x86_64-pc-linux-gnu, built 2026/05/20 00:00:00, go1.25)'"
        if statement.startswith("SHOW REGIONS FROM DATABASE"):
            return f"SELECT unnest(ARRAY{self.regions}::TEXT[]) AS region"
        if statement.startswith("SHOW SURVIVAL GOAL"):
            return f"SELECT '{self.goal}' AS survival_goal"
        if statement.startswith("SHOW CREATE TABLE"):
            return f"SELECT 'CREATE TABLE ... WITH (schema_locked = {'true' if self.locked else 'false'});' AS create_statement"
        if statement.startswith("ALTER DATABASE"):
            return self.alter(statement)
        if "schema_locked" in statement:
            self.locked = statement.endswith("true)")
            return "SELECT 1"
        if statement.startswith("CREATE INDEX"):
            assert not self.locked
        return statement.replace(cockroach.LOCALITY, "").replace(cockroach.REGION_TYPE, "VARCHAR(63)")

    def alter(self, statement):
        if match := re.search(r' (SET PRIMARY|ADD) REGION .*"(.+)"$', statement):
            assert (match[1] == "SET PRIMARY") == (not self.regions)
            self.regions.append(match[2])
        else:
            assert len(self.regions) >= 3
            self.goal = "region"
        return "SELECT 1"

    def changes(self):
        return [
            line
            for line in self.sent
            if line.startswith(("CREATE TABLE", "CREATE INDEX", "ALTER")) and "isoline_" not in line.split("(")[0]
        ]


@contextlib.contextmanager
def pretending(**options):
    pretend = PretendCockroach(**options)
    event.listen(Engine, "before_cursor_execute", pretend, retval=True)
    try:
        yield pretend
    finally:
        event.remove(Engine, "before_cursor_execute", pretend)


def kinds(changes):
    return [re.sub(r'^ALTER DATABASE "[^"]+" ', "", line).split("\n")[0] for line in changes]


def test_cockroachdb_gets_its_regions_before_its_tables(new_url):
    with pretending() as pretend:
        report = upgraded(new_url("cockroachdb+psycopg"), regions=REGIONS)
    assert report.steps == ALL_STEPS
    changes = [line.replace("migrations_", "") for line in kinds(pretend.changes())]
    assert changes[:5] == [
        'SET PRIMARY REGION "us-east1"',
        'ADD REGION IF NOT EXISTS "europe-west1"',
        'ADD REGION IF NOT EXISTS "us-west1"',
        "SURVIVE REGION FAILURE",
        "CREATE TABLE IF NOT EXISTS runs (",
    ]
    assert len(changes) == 4 + len(ALL_STEPS)


def test_every_cockroachdb_table_is_regional_by_row(new_url):
    with pretending() as pretend:
        upgraded(new_url("cockroachdb+psycopg"), regions=REGIONS)
    tables = [line for line in pretend.changes() if line.startswith("CREATE TABLE")]
    assert len(tables) == len(metadata.tables)
    assert all(
        line.endswith(f") {cockroach.LOCALITY}") and "region crdb_internal_region NOT NULL" in line for line in tables
    )
    assert not any("COLLATE" in line for line in pretend.changes())


def test_cockroachdb_is_told_only_what_it_does_not_know(new_url):
    url = new_url("cockroachdb+psycopg")
    with pretending(regions=["us-east1", "us-west1"]) as pretend:
        upgraded(url, regions=REGIONS)
        assert kinds(pretend.changes())[:2] == ['ADD REGION IF NOT EXISTS "europe-west1"', "SURVIVE REGION FAILURE"]
        assert upgraded(url, regions=REGIONS).steps == ()
    assert len(pretend.changes()) == 2 + len(ALL_STEPS)


def test_cockroachdb_set_up_by_others_keeps_its_regions(new_url):
    with pretending(regions=REGIONS) as pretend:
        upgraded(new_url("cockroachdb+psycopg"))
    assert not [line for line in pretend.sent if line.startswith("ALTER DATABASE")]


def test_cockroachdb_gets_a_region_later_without_any_step(new_url):
    url = new_url("cockroachdb+psycopg")
    with pretending(regions=REGIONS, goal="region") as pretend:
        upgraded(url)
        report = upgraded(url, regions=(*REGIONS, "asia-east1"))
    assert report.steps == ()
    assert kinds(pretend.changes())[-1] == 'ADD REGION IF NOT EXISTS "asia-east1"'


def test_cockroachdb_without_regions_is_refused_before_anything_is_made(new_url):
    url = new_url("cockroachdb+psycopg")
    with (
        pretending() as pretend,
        pytest.raises(RegionsMissing, match="has no regions; name them, the primary one first"),
    ):
        upgraded(url)
    assert not [line for line in pretend.sent if line.startswith(("CREATE", "ALTER"))]


def test_too_few_regions_to_survive_are_said_to_be(new_url):
    said = []
    with pretending() as pretend:
        upgraded(new_url("cockroachdb+psycopg"), regions=REGIONS[:1], on_progress=said.append)
    assert "1 region(s): the loss of one stops the database; 3 survive it" in said
    assert not [line for line in pretend.sent if "SURVIVE" in line]


@pytest.mark.parametrize("locked", [True, False])
def test_a_locked_table_is_opened_for_the_change_and_locked_again(new_url, locked):
    with pretending(regions=REGIONS, locked=locked) as pretend:
        upgraded(new_url("cockroachdb+psycopg"))
    index = next(number for number, line in enumerate(pretend.sent) if line.startswith("CREATE INDEX"))
    around = (
        cockroach.unlock_schema("runs") in pretend.sent[:index],
        pretend.sent[index + 1] == cockroach.lock_schema("runs"),
    )
    assert around == (locked, locked)
    assert pretend.locked == locked


def test_a_failed_change_leaves_the_table_locked(new_url):
    with pretending(regions=REGIONS, locked=True) as pretend, connected(new_url()) as connection:
        with pytest.raises(ZeroDivisionError), ddl.schema_unlocked(connection, "runs"):
            raise ZeroDivisionError
        assert pretend.locked


def test_no_statement_for_cockroachdb_runs_in_a_transaction(new_url):
    with pretending(regions=REGIONS, locked=True) as pretend:
        upgraded(new_url("cockroachdb+psycopg"))
    assert not [line for line in pretend.sent if line.upper().startswith(("BEGIN", "COMMIT", "START"))]


def test_a_postgresql_url_for_cockroachdb_is_explained(new_url):
    url = new_url("postgresql+psycopg")
    with connected(url) as connection:
        connection.execute(text("SET allow_system_table_mods = on"))
        connection.execute(
            text(
                """CREATE OR REPLACE FUNCTION pg_catalog.version() RETURNS text LANGUAGE sql STABLE
                   AS $$ SELECT 'CockroachDB CCL v26.2.1 (x86_64-pc-linux-gnu)'::text $$"""
            )
        )
    with pytest.raises(WrongDialect, match=r"must begin with cockroachdb\+psycopg://"):
        upgraded(url)
