"""The SQL texts of the store, checked without a database: shared ones by PostgreSQL's own grammar, CockroachDB's against golden files.

A golden file holds the address of the page that allows the statement, then the statement. Nothing here proves that a CockroachDB accepts
it: that is for the suite that runs with a real one.
"""

import ast
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pglast
import pytest

import isoline_server.store
from isoline_server.domain.errors import InvalidField
from isoline_server.store import cockroach
from isoline_server.store.migrations import ddl, lease, versions
from isoline_server.store.tables import metadata
from support.makers import cases_of

GOLDEN = Path(__file__).parents[1] / "golden" / "sql"
STORE = Path(isoline_server.store.__file__).parent

COCKROACH_TEXTS = {
    "set_primary_region": lambda: cockroach.set_primary_region("isoline", "us-east1"),
    "add_region": lambda: cockroach.add_region("isoline", "europe-west1"),
    "survive_region_failure": lambda: cockroach.survive_region_failure("isoline"),
    "show_regions": lambda: cockroach.show_regions("isoline"),
    "show_survival_goal": lambda: cockroach.show_survival_goal("isoline"),
    "follower_reads_session": cockroach.follower_reads_session,
    "follower_read_transaction": cockroach.follower_read_transaction,
    "exact_staleness": lambda: cockroach.exact_staleness(30),
    "bounded_head": lambda: cockroach.bounded_head("eu", 10),
    "unlock_schema": lambda: cockroach.unlock_schema("runs"),
    "lock_schema": lambda: cockroach.lock_schema("runs"),
    "show_create_table": lambda: cockroach.show_create_table("runs"),
    "expire_receipts_after": lambda: cockroach.expire_receipts_after(90),
    "revoke_changes": lambda: cockroach.revoke_changes("events", "isoline_server"),
}
NOT_STATEMENTS = {"is_cockroach", "check_region_name", "code_literal", "region_literal"}


def revision_texts():
    modules = [
        importlib.import_module(f"{versions.__name__}.{found.name}")
        for found in pkgutil.iter_modules(versions.__path__)
    ]
    return {module.__name__.rpartition(".")[2]: module.DDL for module in modules}


def store_modules():
    """Every module of the store but those that only Alembic may load, and the one that holds no shared text."""
    names = [found.name for found in pkgutil.walk_packages(isoline_server.store.__path__, "isoline_server.store.")]
    return [
        importlib.import_module(name)
        for name in names
        if not name.endswith((".env", ".cockroach")) and ".versions" not in name
    ]


def shared_texts():
    """Revisions, the migrations' own statements, and whatever the store calls ``..._SQL`` or makes with ``..._sql(region, ...)``."""
    found = {name: ddl.render(text, for_cockroach=False) for name, text in revision_texts().items()}
    found |= {f"lease.{name}": getattr(lease, name) for name in ("LEASE_TABLE_DDL", "TAKE", "RENEW", "RELEASE", "WHO")}
    found |= {"ddl.VERSION_TABLE_DDL": ddl.VERSION_TABLE_DDL, "cockroach.VERSION_QUERY": cockroach.VERSION_QUERY}
    found["cockroach.revoke_changes"] = cockroach.revoke_changes("events", "isoline_server")
    for module in store_modules():
        for name, value in vars(module).items():
            if name.endswith("_SQL") and isinstance(value, str):
                found[f"{module.__name__}.{name}"] = value
            elif name.endswith("_sql") and callable(value):
                found |= {f"{module.__name__}.{name}{case}": text for case, text in cases_of(value)}
    return found


def with_numbered_placeholders(sql):
    """PostgreSQL's grammar knows ``$1`` only, not the drivers' ``%(name)s`` and ``:name``."""
    sql = re.sub(r"%(\(\w+\))?[sbt]", "$1", sql).replace("%%", "%")
    return re.sub(r"(?<!:):[a-z]\w*", "$1", sql)


# --- shared statements ---


@pytest.mark.parametrize(("name", "sql"), shared_texts().items())
def test_a_shared_statement_is_one_statement_of_postgresqls_grammar(name, sql):
    assert len(pglast.parse_sql(with_numbered_placeholders(sql))) == 1


def test_a_revision_is_one_idempotent_ddl_statement():
    for name, text in revision_texts().items():
        assert re.match(r"(CREATE TABLE|CREATE INDEX|ALTER TABLE \w+\s+ADD COLUMN) IF NOT EXISTS ", text.strip()), name
        assert text.count("IF NOT EXISTS") == max(1, text.count("ADD COLUMN"))
        assert ";" not in text


def test_revisions_are_numbered_without_a_gap():
    modules = [importlib.import_module(f"{versions.__name__}.{name}") for name in revision_texts()]
    chain = [(module.__name__.rpartition(".")[2][:5], module.revision, module.down_revision) for module in modules]
    numbers = [f"{number:04}" for number in range(1, len(modules) + 1)]
    assert chain == [(f"r{number}", number, before) for number, before in zip(numbers, [None, *numbers], strict=False)]


# --- statements of CockroachDB alone ---


@pytest.mark.parametrize(("name", "make"), COCKROACH_TEXTS.items())
def test_a_cockroachdb_statement_is_the_golden_one_and_names_its_page(name, make):
    address, sql = golden(name)
    assert make().strip() == sql
    assert address.startswith("https://www.cockroachlabs.com/docs/")
    assert address in inspect.getdoc(getattr(cockroach, name)).split()


@pytest.mark.parametrize(("name", "template"), revision_texts().items())
def test_a_revision_for_cockroachdb_is_the_golden_one(name, template):
    address, sql = golden(name)
    assert ddl.render(template, for_cockroach=True) == sql
    assert address.startswith("https://www.cockroachlabs.com/docs/")


def test_every_cockroachdb_statement_has_a_golden_file_and_no_file_is_left_over():
    made = {name for name, value in vars(cockroach).items() if inspect.isfunction(value) and not name.startswith("_")}
    assert made - NOT_STATEMENTS == set(COCKROACH_TEXTS)
    assert {path.stem for path in GOLDEN.glob("*.sql")} == set(COCKROACH_TEXTS) | set(revision_texts())


def test_both_engines_get_the_same_text_but_for_the_placeholders():
    for template in revision_texts().values():
        for_postgresql = ddl.render(template, for_cockroach=False).replace(' COLLATE "C"', "")
        for_cockroach = ddl.render(template, for_cockroach=True).replace(f" {cockroach.LOCALITY}", "")
        assert for_postgresql == for_cockroach.replace(cockroach.REGION_TYPE, "VARCHAR(15)")


def golden(name):
    address, _, sql = (GOLDEN / f"{name}.sql").read_text(encoding="utf-8").partition("\n")
    return address.removeprefix("-- "), sql.strip()


# --- names that go into statements ---


@pytest.mark.parametrize("name", ["", "US-EAST1", "1st", "-a", "a_b", "a b", 'a"', "a'", "a;b", "a" * 64, "ä", "a\n"])
def test_a_region_that_is_not_a_name_is_refused(name):
    for call in (
        cockroach.region_literal,
        cockroach.check_region_name,
        lambda text: cockroach.add_region("isoline", text),
    ):
        with pytest.raises(InvalidField) as refusal:
            call(name)
        assert refusal.value.field == "region"


@pytest.mark.parametrize("code", ["", "us-east1", "a" * 16, "1a", "A", "a'", "a\n"])
def test_a_region_code_that_is_not_one_is_refused(code):
    with pytest.raises(InvalidField):
        cockroach.code_literal(code)


def test_literals_are_quoted():
    assert (cockroach.code_literal("euw1"), cockroach.region_literal("europe-west1")) == ("'euw1'", "'europe-west1'")


@pytest.mark.parametrize("name", ["", 'a"b', "a b", "1a", "a;b", "a" * 64, "a\n"])
def test_a_database_table_or_role_that_is_not_a_name_is_refused(name):
    for call in (
        cockroach.show_regions,
        cockroach.unlock_schema,
        lambda text: cockroach.revoke_changes("events", text),
    ):
        with pytest.raises(InvalidField):
            call(name)


@pytest.mark.parametrize("seconds", [0, -1, cockroach.HISTORY_S + 1])
def test_an_age_that_history_does_not_reach_is_refused(seconds):
    for call, field in (
        (cockroach.exact_staleness, "age_s"),
        (lambda value: cockroach.bounded_head("eu", value), "max_staleness_s"),
    ):
        with pytest.raises(InvalidField, match="must be 1 to 14400") as refusal:
            call(seconds)
        assert refusal.value.field == field


def test_a_bounded_read_names_its_past_before_its_condition_and_one_row():
    sql = " ".join(cockroach.bounded_head("eu", 10).split())
    assert re.search(
        r"FROM runs AS OF SYSTEM TIME with_max_staleness\('10s', true\) WHERE region = 'eu' AND run_id = ", sql
    )
    without_its_past = re.sub(r"AS OF SYSTEM TIME with_max_staleness\('10s', true\)", "", sql)
    (statement,) = pglast.parse_sql(with_numbered_placeholders(without_its_past))
    named = {condition.lexpr.fields[0].sval for condition in statement.stmt.whereClause.args}
    assert named == {column.name for column in metadata.tables["runs"].primary_key}


def test_only_what_is_immutable_can_be_made_so():
    with pytest.raises(InvalidField, match="events, lineage, snapshots, invocations"):
        cockroach.revoke_changes("runs", "isoline_server")


def test_the_engine_is_told_by_its_version():
    assert cockroach.is_cockroach("CockroachDB CCL v26.2.1 (x86_64-pc-linux-gnu, built 2026/05/20 00:00:00, go1.25)")
    assert not cockroach.is_cockroach("PostgreSQL 18.6 on x86_64-pc-linux-gnu, compiled by gcc")


# --- what no statement may use ---

FORBIDDEN = {
    "UPSERT": "it replaces rows blindly",
    "LISTEN": "CockroachDB has no such thing",
    "NOTIFY": "CockroachDB has no such thing",
    "pg_advisory": "CockroachDB has no such thing, or one that does nothing",
    "pg_try_advisory": "CockroachDB has no such thing, or one that does nothing",
    "DEFERRABLE": "CockroachDB has no such thing",
    "SERIAL": "numbers come from the head of the run",
    "BIGSERIAL": "numbers come from the head of the run",
    "nextval": "numbers come from the head of the run",
    "SELECT *": "columns are named",
    "MERGE": "CockroachDB has no such thing",
    "LOCK TABLE": "CockroachDB has no such thing",
    "SAVEPOINT": "a failed statement ends its transaction",
}
VERBS = "WITH|SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|SET|SHOW|GRANT|REVOKE|UPSERT|MERGE|LOCK|LISTEN|NOTIFY|SAVEPOINT|BEGIN|TRUNCATE|CALL"
LOOKS_LIKE_SQL = re.compile(rf"\s*({VERBS})\b")


def forbidden_in(sql):
    text = " ".join(sql.split())
    return [
        phrase
        for phrase in FORBIDDEN
        if re.search(rf"(?<!\w){re.escape(phrase)}" + ("" if phrase.endswith("y") else r"(?!\w)"), text, re.IGNORECASE)
    ]


def literals(path):
    """The string literals of a module with their lines, f-strings put together; docstrings may name what is forbidden."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in skipped:
            skipped |= {id(part) for part in node.values}
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values),
            )
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def test_no_statement_of_the_store_uses_what_is_forbidden():
    found = [
        f"{path.relative_to(STORE)}:{line}: {phrase} ({FORBIDDEN[phrase]})"
        for path in sorted(STORE.rglob("*.py"))
        for line, literal in literals(path)
        if LOOKS_LIKE_SQL.match(literal)
        for phrase in forbidden_in(literal)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT  *\nFROM runs", ["SELECT *"]),
        ("select pg_advisory_xact_lock(1)", ["pg_advisory"]),
        ("INSERT INTO t VALUES (nextval('s'))", ["nextval"]),
        ("CREATE TABLE t (id SERIAL)", ["SERIAL"]),
        ("SET default_transaction_isolation = 'serializable'", []),
        ("SELECT count(*) FROM runs", []),
    ],
)
def test_the_search_for_forbidden_words_finds_them(sql, found):
    assert forbidden_in(sql) == found


def test_the_store_is_really_read():
    texts = [literal for path in STORE.rglob("*.py") for _, literal in literals(path) if LOOKS_LIKE_SQL.match(literal)]
    assert any(text.strip().startswith("CREATE TABLE IF NOT EXISTS runs") for text in texts)
    assert any(text.strip().startswith("ALTER DATABASE x ADD REGION") for text in texts)
