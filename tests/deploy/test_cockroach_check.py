"""The verdicts of ``cockroach_check``, from answers that are put in; and that it refuses what is no CockroachDB.

The answers are written as CockroachDB's documentation shows them. None was recorded: the checks never ran on a real one.
"""

from contextlib import contextmanager

import psycopg
import pytest

from isoline_drill import cockroach_check
from isoline_drill.cockroach_check import CHECKS, Finding, ask, judge_regions, main
from isoline_server.domain.ids import Region

PREFIX_PLAN = """
planning time: 1ms
execution time: 2ms
distribution: local
historical: AS OF SYSTEM TIME 2026-05-20 21:04:00.829742

• scan
  sql nodes: n3
  kv nodes: n3
  regions: us
  used follower read
  actual row count: 3
  table: events@events_pkey
  spans: [/'eu'/'check/eu-aa'/0 - /'eu'/'check/eu-aa'/2]
"""
APPEND_PLAN = """
distribution: local
vectorized: true

• root
│
├── • scan buffer
│     label: buffer 1 (moved)
│
├── • subquery
│   └── • buffer
│       └── • update
│           │ table: runs
│           │ set: head_seq
│           │
│           └── • scan
│                 table: runs@runs_pkey
│                 spans: [/'eu'/'check/eu-aa' - /'eu'/'check/eu-aa']
│                 locking strength: for update
└── • subquery
    └── • insert
          into: events(region, run_id, seq, record, digest, end_byte)
"""
EVERYWHERE = "[/'ap'/'check/eu-aa'/0 - /'ap'/'check/eu-aa'/2] [/'eu'/'check/eu-aa'/0 - /'eu'/'check/eu-aa'/2]"


def rows(text):
    return [(line,) for line in text.splitlines()]


class PretendedCluster:
    """Gives prepared answers. ``answers`` are (part of a statement, answer); an exception is raised, a list gives one answer a time."""

    region = Region("eu")
    regions = ("ap", "eu", "us")

    def __init__(self, *answers):
        self.answers = answers
        self.sent = []

    @contextmanager
    def session(self, *, autocommit=True):
        yield PretendedSession(self)


class PretendedSession:
    def __init__(self, cluster):
        self.cluster = cluster

    def run(self, sql, params=None):
        self.cluster.sent.append(sql)
        for part, answer in self.cluster.answers:
            if part in " ".join(sql.split()):
                found = answer.pop(0) if isinstance(answer, list) else answer
                if isinstance(found, type) and issubclass(found, Exception):
                    raise found("as the server says it")
                return rows(found) if isinstance(found, str) else found
        return ()

    def commit(self):
        self.run("COMMIT")

    def rollback(self):
        self.run("ROLLBACK")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(cockroach_check, "POLL_S", 0.001)
    monkeypatch.setattr(cockroach_check, "FOLLOWER_LAG_S", 0.05)
    monkeypatch.setattr(cockroach_check, "RACES", 2)


def verdict(name, *answers):
    (check,) = [check for check in CHECKS if check.name == name]
    found = ask(check, PretendedCluster(*answers))
    return found.outcome, found.seen


THREE = ((0,), (1,), (2,))
ONE = ((b"digest", 2),)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (PREFIX_PLAN, ("ok", "one span of eu, used follower read")),
        (
            PREFIX_PLAN.replace("  used follower read\n", ""),
            (
                "could not tell",
                "one span of eu, but not 'used follower read': ask through a gateway of another region",
            ),
        ),
        (
            PREFIX_PLAN.replace("[/'eu'/'check/eu-aa'/0 - /'eu'/'check/eu-aa'/2]", EVERYWHERE),
            ("failed", f"events is reached by {EVERYWHERE}"),
        ),
        (
            PREFIX_PLAN.replace("[/'eu'/'check/eu-aa'/0 - /'eu'/'check/eu-aa'/2]", "FULL SCAN"),
            ("failed", "events is reached by FULL SCAN"),
        ),
        (
            PREFIX_PLAN.replace("/2]", "/0] [/'eu'/'check/eu-aa'/1 - /'eu'/'check/eu-aa'/2]"),
            ("failed", "2 spans instead of one"),
        ),
    ],
)
def test_prefix_read(plan, expected):
    assert verdict("prefix read", ("EXPLAIN ANALYZE", plan), ("SELECT seq, record", THREE)) == expected


def test_a_prefix_that_no_follower_ever_shows():
    assert verdict("prefix read", ("SELECT seq, record", ())) == (
        "failed",
        "no follower read showed the events within 0.05 s",
    )


@pytest.mark.parametrize(
    ("plan", "outcome", "seen"),
    [
        (APPEND_PLAN, "ok", "runs: eu alone"),
        (APPEND_PLAN.replace("• insert", "• constraint-check"), "failed", "the plan checks uniqueness in every region"),
        (
            APPEND_PLAN.replace("[/'eu'/'check/eu-aa' - /'eu'/'check/eu-aa']", "FULL SCAN"),
            "failed",
            "runs is reached by FULL SCAN",
        ),
        (APPEND_PLAN.replace("spans:", "strange:"), "could not tell", "runs is reached by nothing that is named"),
        ("no nodes", "could not tell", "a plan without tables: no nodes"),
    ],
)
def test_append_stays_home(plan, outcome, seen):
    assert verdict("append stays home", ("EXPLAIN WITH moved", plan)) == (outcome, seen)


def test_a_lookup_join_that_names_the_region_stays_in_it():
    plan = rows("• lookup join\n│ table: runs@runs_pkey\n│ lookup condition: (region = 'eu') AND (run_id = run_id)")
    assert judge_regions(plan, "eu", ("ap", "eu")).outcome == "ok"
    assert judge_regions(plan, "ap", ("ap", "eu")).outcome == "failed"


INSERT = "INSERT INTO events"


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (
            (("COMMIT", [(), psycopg.errors.UniqueViolation]),),
            ("ok", "23505 at COMMIT"),
        ),
        (
            (("COMMIT", [(), psycopg.errors.SerializationFailure]),),
            ("ok", "40001 at COMMIT"),
        ),
        (
            ((INSERT, [(), (), psycopg.errors.UniqueViolation]),),
            ("ok", "23505 at the statement"),
        ),
        (
            (("COMMIT", [(), psycopg.errors.InternalError_]),),
            ("failed", "XX000 at COMMIT"),
        ),
        ((), ("failed", "both transactions wrote the same key")),
        (
            (("SET kv_", psycopg.errors.UndefinedObject),),
            ("could not tell", "no buffered writes here (42704)"),
        ),
    ],
)
def test_codes_at_commit(answers, expected):
    assert verdict("codes at commit", *answers) == expected


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([(("id",),), (), (), (("id",),)], ("ok", "2 races: 2 x no row, 2 x won")),
        (
            [(("id",),), psycopg.errors.SerializationFailure, psycopg.errors.UniqueViolation, (("id",),)],
            ("ok", "2 races: 1 x 23505, 1 x 40001, 2 x won"),
        ),
        ([(("id",),), (("id",),)], ("failed", "at seq 1: won and won")),
        ([(), ()], ("failed", "at seq 1: no row and no row")),
        (
            [(("id",),), psycopg.errors.InternalError_, (("id",),), ()],
            ("failed", "2 races: 1 x XX000, 1 x no row, 2 x won"),
        ),
    ],
)
def test_racing_appends(answers, expected):
    assert verdict("racing appends", ("WITH moved", list(answers))) == expected


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((("SELECT digest", [(), ONE]),), ("ok", "the row is not there 5 s ago, and is now")),
        ((("SELECT digest", [ONE, ONE]),), ("failed", "1 rows 5 s ago, 1 now, instead of 0 and 1")),
        (
            (("SET TRANSACTION AS OF", psycopg.errors.FeatureNotSupported),),
            ("failed", "refused: 0A000 as the server says it"),
        ),
        (
            (("FROM runs AS OF SYSTEM TIME", psycopg.errors.UndefinedTable),),
            ("could not tell", "the tables did not exist 5 s ago for 0.05 s"),
        ),
    ],
)
def test_past_after_begin(answers, expected):
    assert verdict("past after begin", *answers) == expected


def test_region_literals():
    plan = "• scan\n  table: runs@runs_pkey\n  spans: [/'eu'/'none' - /'eu'/'none']"
    assert verdict("region literals", ("EXPLAIN", plan)) == ("ok", "4 statements: eu alone, no cast of the column")
    cast = plan + "\n  filter: region::STRING = 'eu'"
    assert verdict("region literals", ("EXPLAIN", cast)) == ("failed", "run: the column is cast, not the literal")
    assert verdict("region literals", ("EXPLAIN", psycopg.errors.UndefinedFunction)) == (
        "failed",
        "run: 42883 as the server says it",
    )
    assert verdict("region literals", ("EXPLAIN", "• scan\n  table: runs@runs_pkey\n  spans: FULL SCAN")) == (
        "failed",
        "run: runs is reached by FULL SCAN",
    )


@pytest.mark.parametrize(
    "check", [check for check in CHECKS if check.name != "region literals"], ids=lambda check: check.name
)
def test_a_question_that_ends_by_an_error_is_one_without_an_answer(check):
    found = ask(check, PretendedCluster(("INSERT INTO runs", psycopg.errors.InsufficientPrivilege)))
    assert found == Finding(outcome="could not tell", seen="42501: as the server says it")


def test_every_question_has_its_page():
    assert len(CHECKS) == 6
    assert all(check.page.startswith("https://www.cockroachlabs.com/docs/v26.2/") for check in CHECKS)


# --- what needs no CockroachDB, on a real database ---


class OnPostgresql(cockroach_check.RealCluster):
    """The same driver, without the refusal."""

    def __init__(self, url):
        self._conninfo = cockroach_check.conninfo(url)
        self.region, self.regions = Region("eu"), ("eu",)


def test_the_race_is_really_run_and_postgresql_passes_it(pg_url):
    found = cockroach_check.racing_appends(OnPostgresql(pg_url))
    assert found.outcome == "ok", found.seen
    assert "2 x won" in found.seen


def test_the_statements_of_the_plans_are_ones_that_a_database_explains(pg_url):
    cluster = OnPostgresql(pg_url)
    assert cockroach_check.append_stays_home(cluster).seen.startswith("a plan without tables")
    assert cockroach_check.region_literals(cluster).seen.startswith("run: a plan without tables")


# --- the program ---


def test_postgresql_is_refused(pg_url, capsys):
    assert main([pg_url]) == 2
    said = capsys.readouterr()
    assert "this is PostgreSQL" in said.err
    assert "not CockroachDB: nothing here can be learnt from it" in said.err
    assert said.out == ""


def test_what_is_no_url_is_refused(capsys):
    assert main(["nonsense"]) == 2
    assert "not a database URL" in capsys.readouterr().err


class PretendedDatabase(PretendedCluster):
    """What ``main`` makes of a URL."""

    version = "CockroachDB CCL v25.4.10"
    findings = ()

    def __init__(self, url):
        super().__init__()

    def prepare(self, url):
        pass


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [(("ok", "could not tell"), 0), (("ok", "failed"), 1)],
)
def test_the_program_prints_a_line_for_each_verdict_and_its_exit_code_tells_a_failure(
    monkeypatch, capsys, outcomes, code
):
    checks = [
        cockroach_check.Check(
            name=f"check {n}", page="https://page", ask=lambda _, found=found: Finding(outcome=found, seen="this")
        )
        for n, found in enumerate(outcomes)
    ]
    monkeypatch.setattr(cockroach_check, "CHECKS", checks)
    monkeypatch.setattr(cockroach_check, "RealCluster", PretendedDatabase)
    assert main(["cockroachdb+psycopg://pretended/isoline", "--no-suite"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "CockroachDB CCL v25.4.10"
    assert [line.split("  ")[0] for line in lines[1:]] == list(outcomes)


def test_the_suite_runs_from_a_checkout_with_the_address_in_its_environment(tmp_path):
    assert cockroach_check.run_suite("cockroachdb+psycopg://a/b", tmp_path).outcome == "could not tell"
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "conftest.py").touch()
    (tmp_path / "tests" / "test_it.py").write_text(
        "import os\ndef test_it(): assert os.environ['ISOLINE_TEST_COCKROACH_URL'] == 'cockroachdb+psycopg://a/b'\n"
    )
    found = cockroach_check.run_suite("cockroachdb+psycopg://a/b", tmp_path)
    assert (found.outcome, found.seen.split(" in ")[0]) == ("ok", "1 passed")
    found = cockroach_check.run_suite("cockroachdb+psycopg://a/c", tmp_path)
    assert (found.outcome, found.seen.split(" in ")[0]) == ("failed", "1 failed")
