"""Fixtures that every test folder may use. Databases are real: a PostgreSQL from a wheel, started by the session."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from isoline_server.bootstrap import RegionServer
from isoline_server.embedded import EmbeddedCluster
from support.counting import Counting
from support.databases import DIALECTS, Databases, find_cockroach
from support.executing import Floor, floor
from support.servers import settings_for, start_region

_left_out: list[str] = []


@pytest.fixture(scope="session")
def pg_cluster() -> Iterator[EmbeddedCluster]:
    """One PostgreSQL for the session, without fsync: tests kill it, but do not cut its power."""
    with EmbeddedCluster(None, durable=False) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def databases(pg_cluster: EmbeddedCluster) -> Databases:
    """Makes databases with our schema on ``pg_cluster``."""
    made = Databases(pg_cluster)
    made.prepare()
    return made


@pytest.fixture(scope="session")
def cockroach_url() -> str:
    """A real CockroachDB, or a skip that the summary names."""
    url, reason = find_cockroach()
    if url is None:
        _left_out.append(f"real CockroachDB: {reason}")
        pytest.skip(f"real CockroachDB: {reason}")
    return url


@pytest.fixture(params=[*DIALECTS, pytest.param("cockroach", marks=pytest.mark.cockroach)])
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh database with our schema: through both dialects on PostgreSQL, and on a real CockroachDB where there is one."""
    if request.param == "cockroach":
        from isoline_server.store.migrate import migrate

        url = request.getfixturevalue("cockroach_url")
        # A single node needs --locality=region=eu for REGIONAL BY ROW tables.
        migrate(url, regions=("eu",), holder="tests")
        yield url
        return
    made: Databases = request.getfixturevalue("databases")
    name = made.create()
    yield made.cluster.primary.url(request.param, database=name)
    made.cluster.drop_database(name)


@pytest.fixture
def pg_url(databases: Databases) -> Iterator[str]:
    """A fresh database with our schema, through the PostgreSQL dialect only: for tests that are not about SQL."""
    name = databases.create()
    yield databases.cluster.primary.url(database=name)
    databases.cluster.drop_database(name)


@pytest_asyncio.fixture
async def server(pg_url: str) -> AsyncIterator[RegionServer]:
    """The server of region ``eu`` in this process, whose leader is its local replica; ``us`` is configured and not running."""
    running = await start_region(settings_for(pg_url, {"eu": pg_url, "us": None}), "eu")
    yield running
    await running.stop()


@pytest.fixture(scope="session")
def topology() -> Iterator[EmbeddedCluster]:
    """A primary (region ``eu``) and two hot standbys (``us``, ``ap``) with quorum synchronous commit."""
    with EmbeddedCluster(None, standbys=("us", "ap"), durable=False) as cluster:
        made = Databases(cluster)
        made.prepare()
        yield cluster


@pytest_asyncio.fixture(scope="session")
async def home(databases: Databases) -> AsyncIterator[RegionServer]:
    """The server of region ``eu`` that all tests with executors share; each test makes runs of its own."""
    url = databases.cluster.primary.url(database=databases.create())
    running = await start_region(settings_for(url, {"eu": url}, drain_grace_s=1.0), "eu")
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="session")
async def eu(home: RegionServer) -> AsyncIterator[Floor]:
    """Executors in this process, for ``home``."""
    async with floor(home.address) as made:
        yield made


@pytest.fixture
def outside() -> Iterator[Counting]:
    """The world outside: an HTTP server that counts what reaches it."""
    with Counting() as counting:
        yield counting


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what this machine could not run."""
    for line in dict.fromkeys(_left_out):
        terminalreporter.write_line(f"NOT RUN HERE: {line}", yellow=True)
