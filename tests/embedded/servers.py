"""Tools of these tests: a supervisor in a child process, what runs below a folder, waiting for a condition."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from isoline_server.embedded.leftovers import _processes

# A supervisor that runs until it is killed. Its arguments: the data folder ("-" for a temporary one), a text to write, then the standbys.
SUPERVISOR = """
import pathlib, sys
from isoline_server.embedded import EmbeddedCluster
folder, mark, *standbys = sys.argv[1:]
with EmbeddedCluster(None if folder == "-" else pathlib.Path(folder), standbys=standbys, durable=False) as cluster:
    cluster.execute("primary", "create table if not exists marks (text text)")
    cluster.execute("primary", f"insert into marks values ('{mark}')")
    print(cluster.execute("primary", "show data_directory"), flush=True)
    sys.stdin.read()
"""


def wait_until(condition: Callable[[], Any], *, within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s"
        time.sleep(0.01)


def servers_below(folder: Path) -> list[int]:
    """The postmasters that run over a data folder below ``folder``."""
    return [process.pid for process in _processes() if not process.ended and f"postgres -D {folder}" in process.command]


class Supervisor:
    """A child process that runs a cluster."""

    def __init__(self, *arguments: str, **how: Any) -> None:
        self._child = subprocess.Popen(
            [how.pop("python", sys.executable), "-c", SUPERVISOR, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **how,
        )

    def wait_up(self) -> Path:
        """The primary's data folder, once everything runs."""
        assert self._child.stdout is not None
        line = self._child.stdout.readline().strip()
        assert line, f"the supervisor ended with {self._child.wait()}"
        return Path(line)

    def kill(self) -> None:
        self._child.send_signal(signal.SIGKILL)
        self._child.wait()

    def close(self) -> None:
        """Let it end by itself; its exit status must be clean unless it was killed."""
        for stream in (self._child.stdin, self._child.stdout):
            _close(stream)
        assert self._child.wait(30) in (0, -signal.SIGKILL)


def _close(stream: IO[str] | None) -> None:
    if stream is not None:
        stream.close()
