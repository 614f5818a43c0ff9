"""A server that does not come up says why."""

import os
from pathlib import Path

import pytest

from isoline_server.domain.ids import Region
from isoline_server.local_cluster import ClusterError
from isoline_server.local_cluster.region_process import RegionProcess

pytestmark = pytest.mark.e2e


async def test_a_server_that_ends_before_it_serves_is_an_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    server = RegionProcess(
        region=Region("eu"),
        address="127.0.0.1:1",
        config=tmp_path / "missing.toml",
        workflows="",
        log=tmp_path / "server.log",
        parent=os.getpid(),
        environment=os.environ,
        on_launch=lambda: None,
        report=lambda text: None,
    )
    with pytest.raises(ClusterError, match=r"(?s)eu: its server ended with exit status 1 .*missing\.toml"):
        await server.start()


async def test_a_server_whose_parent_is_gone_does_not_start(tmp_path: Path) -> None:
    server = RegionProcess(
        region=Region("eu"),
        address="127.0.0.1:1",
        config=tmp_path / "missing.toml",
        workflows="",
        log=tmp_path / "server.log",
        parent=1,  # ours is another one
        environment=os.environ,
        on_launch=lambda: None,
        report=lambda text: None,
    )
    with pytest.raises(ClusterError, match="exit status 98"):
        await server.start()
