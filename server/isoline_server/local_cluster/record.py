"""``cluster.json`` in the data folder: who runs the cluster and where its servers are, for programs that want to reach or to stop it.

It is there while the cluster runs, and remains when the supervisor is killed. Whether it still holds is told by the lock of the folder.
"""

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from isoline_server.local_cluster.files import replace_file

RECORD_NAME: Final = "cluster.json"
LOCK_NAME: Final = "isoline.lock"
"""The lock file of ``embedded.folder``, held as long as the cluster runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRecord:
    """One region's server."""

    address: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """A running cluster. ``pid`` is the supervisor's; the first region is the one whose database leads."""

    pid: int
    regions: dict[str, ServerRecord]
    config: Path
    data_dir: Path

    def to_json(self) -> str:
        """One line."""
        return json.dumps(
            {
                "pid": self.pid,
                "regions": {name: {"address": each.address, "pid": each.pid} for name, each in self.regions.items()},
                "config": str(self.config),
                "data_dir": str(self.data_dir),
            }
        )

    def to_text(self) -> str:
        """For people."""
        servers = "\n".join(f"  {name:<8} {each.address}" for name, each in self.regions.items())
        return f"Isoline runs in {self.data_dir}\n{servers}\nCtrl-C, or isoline down, stops it."


def write_record(record: ClusterRecord) -> None:
    """Replace the file at one instant."""
    replace_file(record.data_dir / RECORD_NAME, record.to_json() + "\n")


def remove_record(data_dir: Path) -> None:
    (data_dir / RECORD_NAME).unlink(missing_ok=True)


def recorded_pid(data_dir: Path) -> int | None:
    """The supervisor's pid as recorded; None without a record that can be read."""
    try:
        found: Any = json.loads((data_dir / RECORD_NAME).read_text(encoding="utf-8"))
        return int(found["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def holder_pid(data_dir: Path) -> int | None:
    """The process that holds the folder now, 0 when it has not said its pid yet; None when nobody does.

    A record alone would not tell: the pid in it may have been given to another program since.
    """
    try:
        lock = os.open(data_dir / LOCK_NAME, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(os.read(lock, 32).strip() or b"0")
    finally:
        os.close(lock)
    return None
