"""``isoline down``: have the supervisor of a data folder stop its cluster, and wait until it has."""

import os
import signal
import time
from pathlib import Path
from typing import Final

from isoline_server.local_cluster.errors import ClusterError
from isoline_server.local_cluster.record import is_running, recorded_pid, remove_record

STOP_S: Final = 60.0
"""Draining the servers, then a checkpoint of every PostgreSQL."""

LEAVE_S: Final = 10.0
"""What the process itself may take to end once everything that it ran is stopped. Longer is no failure: the folder is free."""

_POLL_S: Final = 0.05


def stop_cluster(data_dir: Path, *, within_s: float = STOP_S) -> int:
    """Stop what runs over ``data_dir``; return the pid of the supervisor that is gone now. Raises ``ClusterError``."""
    pid = recorded_pid(data_dir)
    if not is_running(data_dir):
        if pid is not None:
            remove_record(data_dir)  # of a supervisor that was killed
        raise ClusterError(f"no cluster runs in {data_dir}")
    if pid is None:
        raise ClusterError(f"a cluster is just starting or stopping in {data_dir}; try again in a moment")
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass  # it ended while we looked
    except PermissionError as error:
        raise ClusterError(f"the cluster in {data_dir} is another user's (pid {pid})") from error
    _wait_until_gone(data_dir, pid, within_s)
    return pid


def _wait_until_gone(data_dir: Path, pid: int, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while is_running(data_dir):
        if time.monotonic() > deadline:
            raise ClusterError(f"the cluster in {data_dir} (pid {pid}) did not stop within {within_s:.0f} s")
        time.sleep(_POLL_S)
    deadline = time.monotonic() + LEAVE_S
    while _exists(pid) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
