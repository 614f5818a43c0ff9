"""``isoline down`` ends the supervisor that holds the folder, and nobody else."""

import os
import subprocess
from pathlib import Path

import pytest

from isoline_server.embedded.folder import DataFolder
from isoline_server.local_cluster import ClusterError, ClusterRecord, stop_cluster
from isoline_server.local_cluster.record import write_record


def record(data_dir: Path, pid: int) -> None:
    write_record(ClusterRecord(pid=pid, regions={}, config=data_dir / "isoline.toml", data_dir=data_dir))


def test_a_stale_record_is_removed_and_the_program_that_has_its_pid_now_is_left_alone(tmp_path: Path) -> None:
    DataFolder.open(tmp_path / "data").close()
    with subprocess.Popen(["sleep", "60"]) as stranger:
        record(tmp_path / "data", stranger.pid)
        with pytest.raises(ClusterError, match="no cluster runs"):
            stop_cluster(tmp_path / "data")
        assert stranger.poll() is None
        stranger.kill()
    assert not (tmp_path / "data/cluster.json").exists()


def test_while_the_next_supervisor_starts_the_stale_record_is_not_believed(tmp_path: Path) -> None:
    folder = DataFolder.open(tmp_path / "data")
    with subprocess.Popen(["sleep", "60"]) as stranger:
        record(tmp_path / "data", stranger.pid)
        with pytest.raises(ClusterError, match=rf"just starting or stopping .*pid {os.getpid()}"):
            stop_cluster(tmp_path / "data")
        assert stranger.poll() is None
        stranger.kill()
    folder.close()


def test_where_there_is_nothing_nothing_runs(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no cluster runs"):
        stop_cluster(tmp_path)
