"""Databases for tests: one real PostgreSQL a session, a database a test from a migrated template; a real CockroachDB where there is one."""

import os
from dataclasses import dataclass
from pathlib import Path

from isoline_server.embedded import EmbeddedCluster
from isoline_server.store.migrate import migrate

COCKROACH_IMAGE = "cockroachdb/cockroach:v25.4.10"
COCKROACH_VARIABLE = "ISOLINE_TEST_COCKROACH_URL"
DIALECTS = ("postgresql+psycopg", "cockroachdb+psycopg")
"""Both run against PostgreSQL: the second proves that the CockroachDB dialect drives every statement."""

TEMPLATE = "isoline_template"


@dataclass
class Databases:
    """Makes and drops databases on one cluster."""

    cluster: EmbeddedCluster
    made: int = 0

    def prepare(self) -> None:
        self.cluster.create_database(TEMPLATE)
        migrate(self.cluster.primary.url(database=TEMPLATE), holder="tests")

    def create(self) -> str:
        self.made += 1
        name = f"test_{self.made}"
        self.cluster.create_database(name, template=TEMPLATE)
        return name


def find_cockroach() -> tuple[str | None, str]:
    """The URL of a real CockroachDB and an empty reason; or no URL and why there is none."""
    url = os.environ.get(COCKROACH_VARIABLE)
    if url:
        return url, ""
    if "DOCKER_HOST" not in os.environ and not Path("/var/run/docker.sock").exists():
        return None, f"{COCKROACH_VARIABLE} is not set and there is no Docker engine"
    try:
        from testcontainers.community.cockroachdb import CockroachDBContainer

        class InRegionEu(CockroachDBContainer):
            """REGIONAL BY ROW tables need a node that says its region, which the container class does not offer."""

            def _configure(self) -> None:
                super()._configure()
                self.with_command("start-single-node --locality=region=eu")

        container = InRegionEu(COCKROACH_IMAGE, dialect="cockroachdb+psycopg")
        container.start()
    except Exception as error:  # whatever keeps Docker from answering is the reason that is shown
        return None, f"{COCKROACH_VARIABLE} is not set and no Docker engine answers ({type(error).__name__})"
    return container.get_connection_url(), ""
