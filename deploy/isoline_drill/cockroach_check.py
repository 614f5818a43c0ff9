"""What only a real CockroachDB can answer: ``python -m isoline_drill.cockroach_check URL`` asks it and prints one verdict a line.

Six questions about how it treats the statements of the store, each a small function with the address of its page, then the whole test suite
with this database for its CockroachDB leg. No statement of the service is repeated here: they are the store's own.

Nothing in this module ever ran against a CockroachDB. Its tests give the functions answers that are written as the documentation shows them.
"""

import argparse
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import psycopg
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from isoline_server.domain.errors import InvalidField
from isoline_server.domain.ids import Region, check_region
from isoline_server.store import cockroach, sql_leases, sql_reader, sql_writer
from isoline_server.store.migrate import MigrationError, migrate

Outcome = Literal["ok", "failed", "could not tell"]
Row = Sequence[Any]

DOCS: Final = "https://www.cockroachlabs.com/docs/v26.2"
SUITE_VARIABLE: Final = "ISOLINE_TEST_COCKROACH_URL"
FOLLOWER_LAG_S: Final = 30.0
"""How long the events of a check may take to become old enough for a follower: several times what CockroachDB needs."""
POLL_S: Final = 0.2
RACES: Final = 20
STALE_S: Final = 5

LOST_RACE: Final = frozenset({"40001", "23505"})
"""What ``store/database.py`` understands as: nothing of this statement was done, or a row with the key exists."""


class Session(Protocol):
    """One connection. Without autocommit the driver begins a transaction before the first statement, as psycopg does."""

    def run(self, sql: str, params: Mapping[str, Any] | None = None) -> Sequence[Row]: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...


class Cluster(Protocol):
    """The database that is asked."""

    region: Region
    regions: Sequence[str]

    def session(self, *, autocommit: bool = True) -> AbstractContextManager[Session]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The answer to one question, and what it was read from."""

    outcome: Outcome
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One question. ``page`` is where its answer is promised."""

    name: str
    page: str
    ask: Callable[[Cluster], Finding]


class Refused(Exception):
    """The question cannot be put to this database; the message says why."""


# --- what a plan says ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How one node of a plan reaches a table: the regions that its spans or its lookup condition name."""

    table: str
    regions: frozenset[str]
    how: str
    spans: int

    @property
    def is_full_scan(self) -> bool:
        return "FULL SCAN" in self.how or "LIMITED SCAN" in self.how


def accesses(plan: Sequence[Row], regions: Sequence[str]) -> list[Access]:
    """Every node of an ``EXPLAIN`` that touches a table."""
    found = []
    for node in "\n".join(str(row[0]) for row in plan).split("•")[1:]:
        facts = dict(re.findall(r"^[\s│├└─]*([a-z ]+): (.*)$", node, re.MULTILINE))
        if "@" in facts.get("table", ""):  # a node that only writes names no index
            how = facts.get("spans") or facts.get("lookup condition") or facts.get("equality") or ""
            named = frozenset(re.findall(r"'([^']+)'", how)) & frozenset(regions)
            found.append(
                Access(
                    table=facts["table"].partition("@")[0], regions=named, how=how, spans=len(re.findall(r"\[", how))
                )
            )
    return found


def judge_regions(plan: Sequence[Row], home: str, regions: Sequence[str]) -> Finding:
    """Whether every access of a plan stays in one region."""
    text = "\n".join(str(row[0]) for row in plan)
    if "constraint-check" in text or "uniqueness check" in text:
        return Finding(outcome="failed", seen="the plan checks uniqueness in every region")
    reached = accesses(plan, regions)
    for access in reached:
        if access.is_full_scan or access.regions - {home}:
            return Finding(outcome="failed", seen=f"{access.table} is reached by {access.how}")
    silent = [access for access in reached if access.regions != {home}]
    if silent:
        return Finding(
            outcome="could not tell", seen=f"{silent[0].table} is reached by {silent[0].how or 'nothing that is named'}"
        )
    if not reached:
        return Finding(outcome="could not tell", seen=f"a plan without tables: {text[:200]}")
    return Finding(outcome="ok", seen=f"{', '.join(sorted({access.table for access in reached}))}: {home} alone")


# --- the questions ---


def prefix_read(cluster: Cluster) -> Finding:
    """Does the read of a prefix touch one span of one region, served by a follower?"""
    run_id = make_run(cluster, events=3)
    values = {"run_id": run_id, "from_seq": 0, "until_seq": 3, "byte_max": 1 << 20}
    until_s = time.monotonic() + FOLLOWER_LAG_S
    plan: Sequence[Row] = ()
    while time.monotonic() < until_s:
        with cluster.session(autocommit=False) as session:
            session.run(cockroach.follower_read_transaction())
            if len(session.run(sql_reader.page_sql(cluster.region), values)) == 3:
                plan = session.run(f"EXPLAIN ANALYZE {sql_reader.page_sql(cluster.region)}", values)
                break
            session.rollback()
        time.sleep(POLL_S)
    if not plan:
        return Finding(outcome="failed", seen=f"no follower read showed the events within {FOLLOWER_LAG_S:g} s")
    where = judge_regions(plan, cluster.region, cluster.regions)
    if where.outcome != "ok":
        return where
    spans = sum(access.spans for access in accesses(plan, cluster.regions))
    if spans != 1:
        return Finding(outcome="failed", seen=f"{spans} spans instead of one")
    if not any("used follower read" in str(row[0]) for row in plan):
        return Finding(
            outcome="could not tell",
            seen=f"one span of {cluster.region}, but not 'used follower read': ask through a gateway of another region",
        )
    return Finding(outcome="ok", seen=f"one span of {cluster.region}, used follower read")


def append_stays_home(cluster: Cluster) -> Finding:
    """Does the append, one statement over three tables, stay in the partition of the run?"""
    run_id = make_run(cluster, events=1)
    with cluster.session() as session:
        plan = session.run(f"EXPLAIN {sql_writer.append_single_sql(cluster.region)}", append_values(run_id, seq=1))
    return judge_regions(plan, cluster.region, cluster.regions)


def codes_at_commit(cluster: Cluster) -> Finding:
    """With buffered writes, where does a key that a rival took show up, and with which code?"""
    run_id = make_run(cluster, events=1)
    insert = insert_event_sql(cluster.region)
    values = {"run_id": run_id, "seq": 1, "record": b"{}", "digest": bytes(32), "end_byte": 4}
    with cluster.session(autocommit=False) as session, cluster.session() as rival:
        try:
            session.run("SET kv_transaction_buffered_writes_enabled = on")
            session.commit()
        except psycopg.Error as error:
            return Finding(outcome="could not tell", seen=f"no buffered writes here ({error.sqlstate})")
        session.run(sql_reader.mark_sql(cluster.region), {"run_id": run_id, "seq": 0})
        rival.run(insert, values)
        where = "the statement"
        try:
            session.run(insert, values)
            where = "COMMIT"
            session.commit()
        except psycopg.Error as error:
            outcome: Outcome = "ok" if error.sqlstate in LOST_RACE else "failed"
            return Finding(outcome=outcome, seen=f"{error.sqlstate} at {where}")
    return Finding(outcome="failed", seen="both transactions wrote the same key")


def racing_appends(cluster: Cluster) -> Finding:
    """When two appends race for a head, is one of them told, and by which answer?"""
    run_id = make_run(cluster, events=1)
    seen: dict[str, int] = {}
    with ThreadPoolExecutor(2) as pool:
        for seq in range(1, RACES + 1):
            answers = list(pool.map(lambda _, seq=seq: one_append(cluster, run_id, seq), range(2)))
            for answer in answers:
                seen[answer] = seen.get(answer, 0) + 1
            if answers.count("won") != 1:
                return Finding(outcome="failed", seen=f"at seq {seq}: {' and '.join(answers)}")
    strange = set(seen) - {"won", "no row"} - LOST_RACE
    told = ", ".join(f"{count} x {answer}" for answer, count in sorted(seen.items()))
    return Finding(outcome="failed" if strange else "ok", seen=f"{RACES} races: {told}")


def past_after_begin(cluster: Cluster) -> Finding:
    """Does ``SET TRANSACTION AS OF SYSTEM TIME`` hold behind the ``BEGIN`` that the driver sends by itself?"""
    if not _tables_are_old_enough(cluster):
        return Finding(
            outcome="could not tell", seen=f"the tables did not exist {STALE_S} s ago for {FOLLOWER_LAG_S:g} s"
        )
    run_id = make_run(cluster, events=1)
    values = {"run_id": run_id, "seq": 0}
    with cluster.session(autocommit=False) as session:
        try:
            session.run(cockroach.exact_staleness(STALE_S))
            stale = session.run(sql_reader.mark_sql(cluster.region), values)
        except psycopg.Error as error:
            return Finding(outcome="failed", seen=f"refused: {error.sqlstate} {str(error).splitlines()[0][:120]}")
        session.rollback()
        fresh = session.run(sql_reader.mark_sql(cluster.region), values)
    if stale or not fresh:
        return Finding(
            outcome="failed", seen=f"{len(stale)} rows {STALE_S} s ago, {len(fresh)} now, instead of 0 and 1"
        )
    return Finding(outcome="ok", seen=f"the row is not there {STALE_S} s ago, and is now")


def _tables_are_old_enough(cluster: Cluster) -> bool:
    until_s = time.monotonic() + FOLLOWER_LAG_S
    while time.monotonic() < until_s:
        with cluster.session() as session:
            try:
                session.run(f"SELECT run_id FROM runs AS OF SYSTEM TIME '-{STALE_S}s' LIMIT 1")
            except psycopg.errors.UndefinedTable:
                time.sleep(POLL_S)
                continue
            return True
    return False


def region_literals(cluster: Cluster) -> Finding:
    """Is a region that is written as a plain literal compared as the enum it is, so that plans see one partition?"""
    home = cluster.region
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("run", sql_reader.run_sql(home), {"run_id": "none"}),
        ("head_seqs", sql_reader.head_seqs_sql(home), {"run_ids": ["none"]}),
        ("load_heads", sql_writer.heads_sql(home), {"run_ids": ["none"]}),
        (
            "release_run",
            sql_leases.release_sql(home),
            {"run_id": "none", "epoch": 1, "seen_head_seq": 0, "wake_in_ms": 0},
        ),
    ]
    with cluster.session() as session:
        for name, sql, values in asked:
            try:
                plan = session.run(f"EXPLAIN {sql}", values)
            except psycopg.Error as error:
                return Finding(outcome="failed", seen=f"{name}: {error.sqlstate} {str(error).splitlines()[0][:120]}")
            if any(re.search(r"region::(STRING|TEXT|VARCHAR)", str(row[0]), re.IGNORECASE) for row in plan):
                return Finding(outcome="failed", seen=f"{name}: the column is cast, not the literal")
            where = judge_regions(plan, home, cluster.regions)
            if where.outcome != "ok":
                return Finding(outcome=where.outcome, seen=f"{name}: {where.seen}")
    return Finding(outcome="ok", seen=f"{len(asked)} statements: {home} alone, no cast of the column")


CHECKS: Final = (
    Check(
        name="prefix read",
        page=f"{DOCS}/follower-reads#verify-that-cockroachdb-is-performing-follower-reads",
        ask=prefix_read,
    ),
    Check(name="append stays home", page=f"{DOCS}/table-localities#regional-by-row-tables", ask=append_stays_home),
    Check(name="codes at commit", page=f"{DOCS}/architecture/transaction-layer#buffered-writes", ask=codes_at_commit),
    Check(name="racing appends", page=f"{DOCS}/transaction-retry-error-reference", ask=racing_appends),
    Check(
        name="past after begin",
        page=f"{DOCS}/follower-reads#exact-staleness-follower-reads-in-read-only-transactions",
        ask=past_after_begin,
    ),
    Check(name="region literals", page=f"{DOCS}/alter-table#crdb_region", ask=region_literals),
)


# --- what the questions are asked about ---


def make_run(cluster: Cluster, *, events: int) -> str:
    """A run of its own for a check, with events; its id."""
    run_id = f"check/{cluster.region}-{secrets.token_hex(13)}"
    with cluster.session() as session:
        session.run(
            f"""INSERT INTO runs (region, run_id, tenant, workflow_id, tags, created_at, era, head_seq, head_digest, head_bytes)
                VALUES ('{cluster.region}', %(run_id)s::TEXT, 'check', 'check', '[]', now(), 2,
                        %(head)s::BIGINT, %(digest)s::BYTEA, %(bytes)s::BIGINT)""",
            {"run_id": run_id, "head": events - 1, "digest": digest_of(events - 1), "bytes": 2 * events},
        )
        for seq in range(events):
            session.run(
                insert_event_sql(cluster.region),
                {"run_id": run_id, "seq": seq, "record": b"{}", "digest": digest_of(seq), "end_byte": 2 * (seq + 1)},
            )
    return run_id


def insert_event_sql(region: Region) -> str:
    """One event, without the head: what no statement of the service does, so it stands here."""
    return f"""INSERT INTO events (region, run_id, seq, record, digest, end_byte)
        VALUES ('{check_region(region)}', %(run_id)s::TEXT, %(seq)s::BIGINT, %(record)s::BYTEA, %(digest)s::BYTEA, %(end_byte)s::BIGINT)"""


def digest_of(seq: int) -> bytes:
    """A digest that only has to differ from its neighbours: nobody verifies the runs of a check."""
    return seq.to_bytes(32, "big", signed=True)


def append_values(run_id: str, *, seq: int) -> dict[str, Any]:
    """The parameters of the store's append of one event."""
    return {
        "run_id": run_id,
        "seq": seq,
        "old_digest": digest_of(seq - 1),
        "digest": digest_of(seq),
        "end_byte": 2 * (seq + 1),
        "terminal": None,
        "memory_gap": None,
        "summary_gap": None,
        "lease_epoch": 0,
        "wakes": False,
        "record": b"{}",
        "key": secrets.token_bytes(32),
        "request_hash": bytes(32),
    }


def one_append(cluster: Cluster, run_id: str, seq: int) -> str:
    """``won``, ``no row``, or the code of the refusal."""
    with cluster.session() as session:
        try:
            rows = session.run(sql_writer.append_single_sql(cluster.region), append_values(run_id, seq=seq))
        except psycopg.Error as error:
            return error.sqlstate or type(error).__name__
    return "won" if rows else "no row"


# --- a real database ---


class _Driver:
    """``Session`` over psycopg, as the service uses it: nothing is prepared."""

    def __init__(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self._connection = connection

    def run(self, sql: str, params: Mapping[str, Any] | None = None) -> Sequence[Row]:
        cursor = self._connection.execute(sql.encode(), params)
        return cursor.fetchall() if cursor.description else []

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()


class RealCluster:
    """``Cluster`` behind a URL. Raises ``Refused`` when it is none."""

    def __init__(self, url: str) -> None:
        self._conninfo = conninfo(url)
        self.region = Region("")
        self.regions: Sequence[str] = ()
        with self.session() as session:
            version = str(session.run(cockroach.VERSION_QUERY)[0][0])
            if not cockroach.is_cockroach(version):
                raise Refused(
                    f"this is {' '.join(version.split()[:2])}, not CockroachDB: nothing here can be learnt from it. "
                    "PostgreSQL is what `make test` runs on"
                )
            self.version = version

    def prepare(self, url: str) -> None:
        """The schema, in the regions of the database, or, when it has none, of the cluster. Checks ask about the first region."""
        with self.session() as session:
            database = str(session.run("SELECT current_database()")[0][0])
            regions = [
                str(row[0]) for row in session.run("SELECT region FROM [SHOW REGIONS FROM CLUSTER] ORDER BY region")
            ]
            own = [
                str(row[0])
                for row in session.run(f"SELECT region FROM [{cockroach.show_regions(database)}] ORDER BY region")
            ]
        if not own and not regions:
            raise Refused("no node of this cluster says its region: start them with --locality=region=...")
        migrate(url, regions=() if own else regions, holder="cockroach-check")
        self.regions = own or regions
        self.region = check_region(self.regions[0])

    @contextmanager
    def session(self, *, autocommit: bool = True) -> Iterator[Session]:
        with psycopg.connect(self._conninfo, autocommit=autocommit, prepare_threshold=None) as connection:
            try:
                yield _Driver(connection)
            finally:
                if not autocommit and not connection.closed:
                    connection.rollback()


def conninfo(url: str) -> str:
    """The URL as libpq takes it."""
    try:
        return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    except ArgumentError as error:
        raise Refused(f"not a database URL: {error}") from error


# --- the program ---


def ask(check: Check, cluster: Cluster) -> Finding:
    """A question that ends by an error is one whose answer is not known."""
    try:
        return check.ask(cluster)
    except psycopg.Error as error:
        return Finding(
            outcome="could not tell",
            seen=f"{error.sqlstate or type(error).__name__}: {str(error).splitlines()[0][:160]}",
        )


def run_suite(url: str, folder: Path) -> Finding:
    """The whole test suite of the checkout, its CockroachDB leg against this database."""
    if not (folder / "tests" / "conftest.py").exists():
        return Finding(
            outcome="could not tell", seen=f"{folder} is no checkout of Isoline: run from one, or with --no-suite"
        )
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--durations=0"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, SUITE_VARIABLE: url}, stdout=subprocess.PIPE, text=True, check=False
    )
    sys.stderr.write(done.stdout)
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else f"no output (exit code {done.returncode})"
    return Finding(outcome="ok" if done.returncode == 0 else "failed", seen=last)


def say(text: str) -> None:
    """To whoever waits for it, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def line(name: str, finding: Finding, page: str) -> str:
    """One verdict as it is printed."""
    return f"{finding.outcome:<14}  {name:<17}  {finding.seen}  {page}".rstrip()


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when nothing failed, 1 when something did, 2 when the question could not be put."""
    parser = argparse.ArgumentParser(
        prog="cockroach-check", description="Ask a real CockroachDB what its documentation leaves open."
    )
    parser.add_argument(
        "url",
        help="cockroachdb+psycopg://USER@HOST:26257/DATABASE?sslmode=... Its database gets the schema, and runs of tenant check.",
    )
    parser.add_argument("--no-suite", action="store_true", help="only the six questions, not the test suite")
    given = parser.parse_args(argv)
    try:
        cluster = RealCluster(given.url)
        say(cluster.version)
        cluster.prepare(given.url)
    except (Refused, MigrationError, InvalidField, psycopg.Error) as error:
        sys.stderr.write(f"cockroach-check: {str(error).strip()}\n")
        return 2
    findings = []
    for check in CHECKS:
        findings.append(ask(check, cluster))
        say(line(check.name, findings[-1], check.page))
    if not given.no_suite:
        findings.append(run_suite(given.url, Path.cwd()))
        say(line("test suite", findings[-1], ""))
    return 1 if any(finding.outcome == "failed" for finding in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
