"""``isoline down``: have the supervisor of a data folder stop its cluster, and wait until it has.

The lock of the folder tells: it is given up when everything is stopped. The supervisor's own process may take a moment longer to end.
"""

import os
import signal
import time
from pathlib import Path
from typing import Final

from isoline_server.local_cluster.errors import ClusterError
from isoline_server.local_cluster.record import holder_pid, recorded_pid, remove_record

STOP_S: Final = 60.0
"""Draining the servers, then a checkpoint of every PostgreSQL."""

_POLL_S: Final = 0.05


def stop_cluster(data_dir: Path, *, within_s: float = STOP_S) -> int:
    """Stop what runs over ``data_dir``; return the pid of the supervisor. Raises ``ClusterError``."""
    pid, recorded = holder_pid(data_dir), recorded_pid(data_dir)
    if pid is None:
        if recorded is not None:
            remove_record(data_dir)  # of a supervisor that was killed
        raise ClusterError(f"no cluster runs in {data_dir}")
    if pid != recorded:
        raise ClusterError(f"a cluster is just starting or stopping in {data_dir} (pid {pid}); try again in a moment")
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass  # it ended while we looked
    except PermissionError as error:
        raise ClusterError(f"the cluster in {data_dir} is another user's (pid {pid})") from error
    deadline = time.monotonic() + within_s
    while holder_pid(data_dir) == pid:
        if time.monotonic() > deadline:
            raise ClusterError(f"the cluster in {data_dir} (pid {pid}) did not stop within {within_s:.0f} s")
        time.sleep(_POLL_S)
    return pid
