"""The model of ``docs/scale.md`` beside a small real database. It must be near, and it must not be near when one of its constants is wrong."""

import asyncio
from dataclasses import fields, replace

import psycopg
import pytest
import pytest_asyncio

import isoline_client
from benchmarks.payloads import EVENT_BYTES
from benchmarks.scale import load, model
from isoline_server.embedded import EmbeddedCluster
from isoline_server.store.migrate import migrate
from isoline_server.store.tables import metadata
from support.servers import settings_for, start_region

RUNS = 300
FORKS = 150
HEAP_TOLERANCE = 0.04
INDEX_TOLERANCE = 0.20
TOTAL_TOLERANCE = 0.05
TABLES = frozenset(metadata.tables)

Relations = dict[str, int]

_SIZES = """
SELECT c.relname, pg_relation_size(c.oid), pg_total_relation_size(c.oid), c.relkind::TEXT FROM pg_class AS c
 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'i')"""


@pytest_asyncio.fixture(scope="module")
async def sizes(pg_cluster: EmbeddedCluster) -> tuple[Relations, Relations]:
    """Bytes of every relation, and of every table with all that belongs to it, behind a real server's writes."""
    name = "scale_model"
    pg_cluster.create_database(name)
    url = pg_cluster.primary.url(database=name)
    migrate(url, holder="tests")
    server = await start_region(settings_for(url, {"eu": url}), "eu")
    async with isoline_client.Client(server.address) as client:
        made = await load.seed_runs(client, RUNS)
        for run_id in made[:FORKS]:
            await client.run(run_id).fork(load.EVENTS_A_RUN // 2)
    await server.stop()
    found = await asyncio.to_thread(_sizes, pg_cluster.primary.url("postgresql", name))
    pg_cluster.drop_database(name)
    return found


def _sizes(url: str) -> tuple[Relations, Relations]:
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(_SIZES).fetchall()
    return {row[0]: row[1] for row in rows}, {row[0]: row[2] for row in rows if row[3] == "r"}


LOAD = model.Load(
    runs=RUNS,
    events=RUNS * load.EVENTS_A_RUN,
    appends=RUNS * load.APPENDS_A_RUN,
    event_bytes=EVENT_BYTES,
    forks=FORKS,
)


def worst(main: Relations, constants: model.Constants) -> float:
    """How far the model is off, as a multiple of what is tolerated, at the relation where that is most. A page more or less never counts."""
    predicted = model.predict(LOAD, constants).relations
    assert predicted.keys() <= main.keys()
    return max(
        abs(predicted[name] - main[name])
        / max(main[name] * (HEAP_TOLERANCE if name in TABLES else INDEX_TOLERANCE), model.PAGE_BYTES)
        for name in predicted
    )


def test_every_table_and_index_is_near(sizes: tuple[Relations, Relations]) -> None:
    main, _ = sizes
    predicted = model.predict(LOAD).relations
    assert worst(main, model.Constants()) <= 1, {name: (predicted[name], main[name]) for name in predicted}


def test_the_whole_is_near(sizes: tuple[Relations, Relations]) -> None:
    _, whole = sizes
    measured = sum(whole[name] for name in ("runs", "lineage", "events", "receipts"))
    assert model.predict(LOAD).total_bytes == pytest.approx(measured, rel=TOTAL_TOLERANCE)


@pytest.mark.parametrize("name", [each.name for each in fields(model.Constants)])
@pytest.mark.parametrize("factor", [0.5, 2])
def test_a_constant_that_is_twice_or_half_of_what_it_should_be_is_noticed(
    sizes: tuple[Relations, Relations], name: str, factor: float
) -> None:
    main, _ = sizes
    value = getattr(model.Constants(), name)
    wrong = replace(model.Constants(), **{name: type(value)(value * factor)})
    assert worst(main, wrong) > 1


def test_an_event_that_does_not_fit_into_a_row_is_refused() -> None:
    with pytest.raises(ValueError, match="event_bytes"):
        model.predict(replace(LOAD, event_bytes=model.INLINE_BYTES_MAX))
