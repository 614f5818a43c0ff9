"""The SQL that an operator runs: it grants what the statements need and no more; on PostgreSQL also for real, with a server in that role.

What only CockroachDB understands was never run on one: here it is only looked at.
"""

import importlib
import pkgutil
import re

import grpc
import pglast
import psycopg
import pytest
from pglast import ast
from pglast.visitors import Visitor

import isoline_server.store
from isoline_client import Client, NewEvent
from isoline_server.store import cockroach, database
from isoline_server.store.tables import metadata
from support.executing import floor
from support.makers import cases_of
from support.servers import settings_for, start_region
from support.sqlfiles import FOLDER, statements
from support.waiting import eventually

SERVERS = "isoline_server"
FOR_MIGRATIONS = {"isoline_schema_version", "isoline_migration_lease"}


def table_rights(keep=SERVERS):
    """Table -> what the role has after the file: grants and revokes in order."""
    rights = {}
    for text in statements("grants.sql"):
        (parsed,) = pglast.parse_sql(text)
        grant = parsed.stmt
        if grant.objtype.name != "OBJECT_TABLE" or grant.grantees[0].rolename != keep:
            continue
        named = {privilege.priv_name for privilege in grant.privileges}
        for table in grant.objects:
            held = rights.setdefault(table.relname, set())
            rights[table.relname] = held | named if grant.is_grant else held - named
    return rights


# --- what is granted is what is needed ---


class Needs(Visitor):
    """Collects (table, right) of a statement. Names of its common table expressions are no tables."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def _note(self, relation, right):
        if relation.relname in metadata.tables:
            self.found.add((relation.relname, right))

    def visit(self, ancestors, node):
        match node:
            case ast.InsertStmt():
                self._note(node.relation, "insert")
                if node.onConflictClause is not None:
                    self._note(node.relation, "select")
                    if node.onConflictClause.action.name == "ONCONFLICT_UPDATE":
                        self._note(node.relation, "update")
            case ast.UpdateStmt():
                self._note(node.relation, "update")
            case ast.DeleteStmt():
                self._note(node.relation, "delete")
            case ast.SelectStmt(lockingClause=locking) if locking:
                for relation in node.fromClause:
                    if isinstance(relation, ast.RangeVar):
                        self._note(relation, "update")
            case ast.RangeVar():
                self._note(node, "select")


def needed():
    found = set()
    for name in pkgutil.iter_modules(isoline_server.store.__path__):
        if name.ispkg:
            continue
        for attribute, value in vars(importlib.import_module(f"isoline_server.store.{name.name}")).items():
            if attribute.endswith("_sql") and callable(value):
                for _, text in cases_of(value, "eu"):
                    visitor = Needs()
                    visitor(pglast.parse_sql(re.sub(r"%\(\w+\)[sbt]", "$1", text).replace("%%", "%")))
                    found |= visitor.found
    return found


def test_the_role_of_the_servers_may_do_what_their_statements_do_and_no_more():
    wanted = {}
    for table, right in needed():
        wanted.setdefault(table, set()).add(right)
    granted = table_rights()
    assert granted.pop("isoline_schema_version") == {"select"}
    assert granted.pop("isoline_migration_lease") == set()
    assert granted == {table: rights | {"select"} for table, rights in wanted.items()}


def test_every_table_is_spoken_of():
    assert set(table_rights()) == set(metadata.tables) | FOR_MIGRATIONS


def test_what_is_immutable_is_taken_from_the_servers():
    rights = table_rights()
    for table in cockroach.IMMUTABLE_TABLES:
        assert not rights[table] & {"update", "delete", "truncate", "all"}
        assert any(
            text.startswith("REVOKE UPDATE, DELETE") and re.search(rf"\b{table}\b", text)
            for text in statements("grants.sql")
        )
    assert not any("delete" in held for held in rights.values())


# --- the same text on PostgreSQL, for real ---


@pytest.fixture
def restricted(databases):
    """A database with the grants, whose sessions are in the role that serves. (Only the cluster's own user can log in there.)"""
    cluster, name = databases.cluster, databases.create()
    for role in ("isoline_owner", SERVERS):
        if not cluster.execute("primary", f"SELECT 1 FROM pg_roles WHERE rolname = '{role}'"):
            cluster.execute("primary", f"CREATE ROLE {role} LOGIN")
    for text in statements("grants.sql"):
        cluster.execute("primary", text, name)
    cluster.execute("primary", f"ALTER DATABASE {name} SET role = '{SERVERS}'")
    yield cluster.primary.url(database=name)
    cluster.drop_database(name)


def name_of(url):
    return url.rpartition("/")[2]


async def test_a_server_in_that_role_does_all_its_work(restricted, outside, databases):
    server = await start_region(settings_for(restricted, {"eu": restricted}), "eu")
    try:
        async with floor(server.address) as eu:
            run = await eu.run("order", {"url": outside.url})
            replay = await eu.fork(run, "replay")
            assert await eu.effects(run)
            assert (await replay.state()).status == (await run.state()).status == "completed"
        async with Client(server.address) as client:
            long = await client.create_run("checkout")
            for _ in range(3):
                await long.append([NewEvent(type="node.started", payload={"nodeId": "a"})] * 500)

            async def has_a_snapshot():
                return (
                    databases.cluster.execute("primary", "SELECT count(*) FROM snapshots", name_of(restricted)) != "0"
                )

            await eventually(has_a_snapshot, what="a snapshot")
    except grpc.RpcError as error:  # the reason, not the trace of a client
        raise AssertionError(str(error)) from error
    finally:
        await server.stop()


def test_that_role_deletes_nothing_and_changes_only_what_moves(restricted):
    refused = ["DELETE FROM isoline_schema_version", "CREATE TABLE mine (a BIGINT PRIMARY KEY)"]
    for table in metadata.tables.values():
        refused += [f"DELETE FROM {table.name}", f"TRUNCATE {table.name}"]
        if table.name not in {"runs", "engines", "effects"}:
            refused += [f"UPDATE {table.name} SET {column.name} = {column.name}" for column in table.columns]
    with psycopg.connect(restricted.replace("+psycopg", ""), autocommit=True) as connection:
        for text in refused:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(text)


# --- what only CockroachDB understands ---

ONLY_COCKROACH = ("cluster.sql", "settings.sql", "receipts-ttl.sql")


def test_every_file_is_looked_at():
    assert {path.name for path in FOLDER.glob("*.sql")} == {*ONLY_COCKROACH, "grants.sql"}


@pytest.mark.parametrize("name", ONLY_COCKROACH)
def test_a_statement_for_cockroachdb_has_its_page_before_it(name):
    text = (FOLDER / name).read_text(encoding="utf-8")
    for paragraph in text.split("\n\n")[1:]:
        if any(line and not line.startswith("--") for line in paragraph.splitlines()):
            assert "-- https://www.cockroachlabs.com/docs/v26.2/" in paragraph or paragraph.startswith("ALTER ROLE")


def test_the_cluster_is_made_as_the_migrations_would_make_it():
    (database_made,) = [text for text in statements("cluster.sql") if text.startswith("CREATE DATABASE")]
    assert database_made.endswith("SURVIVE REGION FAILURE")
    regions = re.search(r"REGIONS (.+) SURVIVE", database_made)[1].split(", ")
    assert len(regions) >= cockroach.REGIONS_TO_SURVIVE_ONE
    assert re.search(r"PRIMARY REGION (\S+)", database_made)[1] == regions[0]


def test_only_receipts_expire_and_the_statement_is_the_stores():
    (text,) = statements("receipts-ttl.sql")
    assert text == cockroach.expire_receipts_after(90)
    for name in ("cluster.sql", "settings.sql", "grants.sql"):
        assert not any("ttl_" in line for line in statements(name))


def test_reads_of_the_past_stay_within_what_the_cluster_keeps():
    (kept,) = [text for text in statements("cluster.sql") if "gc.ttlseconds" in text]
    assert int(re.search(r"gc\.ttlseconds = (\d+)", kept)[1]) == cockroach.HISTORY_S


def test_a_draining_node_waits_for_the_longest_statement():
    def seconds(file, setting):
        return next(int(match[1]) for text in statements(file) if (match := re.search(rf"{setting} = '(\d+)s'", text)))

    assert seconds("settings.sql", "transactions.timeout") > seconds("cluster.sql", "statement_timeout")
    assert seconds("settings.sql", "connections.timeout") < database.HOLD_MAX_S
