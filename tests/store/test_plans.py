"""Lists visit what they return and no more, however many runs there are, also by the generic plan that a prepared statement ends up with."""

import json
import re

import psycopg
import pytest

from guarantees.copies import plain
from isoline_server.domain.ids import Region
from isoline_server.store.sql_reader import list_sql

pytestmark = pytest.mark.postgres

RUNS = 3_000
PLACEHOLDER = re.compile(r"%\((\w+)\)s")

FILL = """
INSERT INTO runs (region, run_id, tenant, workflow_id, tags, created_at, era, head_seq, head_digest, head_bytes)
SELECT 'eu', 'local/eu-' || lpad(n::TEXT, 26, 'a'), 'local', CASE n WHEN 7 THEN 'rare' ELSE 'common' END, '[]',
       TIMESTAMPTZ 'epoch' + n * INTERVAL '1 second', 3, -1, '', 0
  FROM generate_series(1, %s) AS n"""


@pytest.fixture(scope="module")
def connection(databases):
    url = databases.cluster.primary.url(database=databases.create())
    with psycopg.connect(plain(url), autocommit=True) as connected:
        connected.execute(FILL, [RUNS])
        connected.execute("ANALYZE runs")
        connected.execute("SET enable_seqscan = off")  # as the server's own connections have it
        yield connected


def plan_of(connection, mode, sql, values):
    """The node that reads ``runs``, as the statement was carried out."""
    names = list(dict.fromkeys(PLACEHOLDER.findall(sql)))
    numbered = PLACEHOLDER.sub(lambda found: f"${names.index(found[1]) + 1}", sql)
    given = ", ".join(psycopg.sql.Literal(values[name]).as_string(connection) for name in names)
    connection.execute(f"SET plan_cache_mode = force_{mode}_plan")
    connection.execute(f"PREPARE asked AS {numbered}")
    ((found,),) = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE asked({given})").fetchall()
    connection.execute("DEALLOCATE asked")
    node = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    while node.get("Relation Name") != "runs":
        (node,) = node["Plans"]
    return node


@pytest.mark.parametrize("mode", ["custom", "generic"])
@pytest.mark.parametrize(
    ("of_workflow", "behind", "index", "returned"),
    [
        (False, False, "runs_by_tenant", 51),
        (False, True, "runs_by_tenant", 51),
        (True, False, "runs_by_workflow", 1),
        (True, True, "runs_by_workflow", 1),
    ],
)
def test_a_page_of_a_list_visits_what_it_returns(connection, mode, of_workflow, behind, index, returned):
    values = {
        "tenant": "local",
        "limit": 51,
        "workflow_id": "rare",
        "after_us": 100 * 1_000_000,
        "after_id": "local/eu-z",
    }
    node = plan_of(connection, mode, list_sql(Region("eu"), of_workflow=of_workflow, behind=behind), values)
    assert (node.get("Index Name"), node["Actual Rows"]) == (index, returned)
    assert node.get("Rows Removed by Filter", 0) == 0
