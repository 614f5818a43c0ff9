"""The database of the migration tests. To be removed as soon as ``tests/conftest.py`` has ``pg_cluster``."""

from collections.abc import Iterator

import pytest

from isoline_server.embedded import EmbeddedCluster


@pytest.fixture(scope="session")
def pg_cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(None, durable=False) as cluster:
        yield cluster
