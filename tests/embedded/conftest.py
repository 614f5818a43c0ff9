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


@pytest.fixture
def said() -> list[str]:
    """What the clusters made by ``make_cluster`` report."""
    return []


@pytest.fixture
def make_cluster(tmp_path: Path, said: list[str]) -> Iterator[Callable[..., EmbeddedCluster]]:
    """Clusters over ``tmp_path/data`` unless told otherwise; not started; stopped at the end."""
    made: list[EmbeddedCluster] = []

    def make(data_dir: Path | None = tmp_path / "data", **how: Any) -> EmbeddedCluster:
        made.append(EmbeddedCluster(data_dir, durable=False, on_progress=said.append, **how))
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
