"""Makers of real clusters and of supervisors that may be killed. Their tools are in ``servers.py``."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded.servers import Supervisor
from isoline_server.embedded import EmbeddedCluster


@pytest.fixture
def supervise() -> Iterator[Callable[..., Supervisor]]:
    made: list[Supervisor] = []

    def start(*arguments: str, **how: Any) -> Supervisor:
        made.append(Supervisor(*arguments, **how))
        return made[-1]

    yield start
    for supervisor in made:
        supervisor.close()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a table of a hundred rows, made once: making one is what costs time. Tests leave it fit for use."""
    folder = tmp_path_factory.mktemp("home") / "data"
    with EmbeddedCluster(folder, durable=False) as cluster:
        cluster.execute("primary", "create table kept as select generate_series(1, 100) as n")
    return folder


@pytest.fixture
def make_cluster(home: Path) -> Iterator[Callable[..., EmbeddedCluster]]:
    """Clusters over ``home`` unless told otherwise; not started; stopped at the end."""
    made: list[EmbeddedCluster] = []

    def make(data_dir: Path | None = home, **how: Any) -> EmbeddedCluster:
        made.append(EmbeddedCluster(data_dir, durable=False, **how))
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="isoline-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, and the tests run as an ordinary user")
