"""What a PostgreSQL that nobody waits for any more has left: its processes and its ``postmaster.pid``. Reading, ending, disarming.

Nothing here starts a server. Linux is read through ``/proc``; elsewhere ``ps`` is asked.
"""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from isoline_server.embedded.errors import EmbeddedPostgresError

ORPHAN_STOP_S: Final = 30.0
"""How long a clean stop may take: it writes a checkpoint, which on a slow disk takes its time."""
KILL_S: Final = 10.0

_POLL_S: Final = 0.01
_IPC_RMID: Final = 0
_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class PidFile:
    """What ``postmaster.pid`` says."""

    pid: int
    ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    pid: int
    parent: int
    ended: bool
    command: str


def read_pid_file(node_dir: Path) -> PidFile | None:
    """The lock file of a server, or nothing if there is none or it is still being written."""
    try:
        lines = (node_dir / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        return PidFile(pid=int(lines[0]), ready=len(lines) > 7 and lines[7].strip() == "ready")
    except (OSError, ValueError, IndexError):
        return None


def clear_leftovers(node_dir: Path) -> None:
    """Make a folder startable again after its supervisor died: end a server that still runs in it, disarm the lock file it left."""
    written = read_pid_file(node_dir)
    if written is None:
        return
    if _is_server_of(written.pid, node_dir):
        _end_orphan(written.pid, node_dir)
    _disarm(node_dir)


def release_memory(node_dir: Path) -> None:
    """Give back the segment by which a killed server is known to the kernel. For data that is about to be removed only.

    The next start over the same data does this itself; without one the segments pile up, and the kernel allows some thousands.
    """
    try:
        key, number = map(int, (node_dir / "postmaster.pid").read_text(encoding="utf-8").splitlines()[6].split())
    except (OSError, ValueError, IndexError):
        return
    libc = ctypes.CDLL(None)
    if libc.shmget(ctypes.c_int(key), 0, 0) == number:  # else the number is somebody else's by now
        libc.shmctl(number, _IPC_RMID, None)


def kill_tree(pid: int) -> None:
    """SIGKILL a postmaster together with its children, as a power cut would. The caller waits for the postmaster itself.

    Its children lead sessions of their own, so no signal to a group would reach them.
    """
    _signal(pid, signal.SIGSTOP)  # or it would start new children while we count
    children = [process.pid for process in _processes() if process.parent == pid]
    for doomed in (*children, pid):
        _signal(doomed, signal.SIGKILL)
    _wait_ended(children, within_s=KILL_S)


def _end_orphan(pid: int, node_dir: Path) -> None:
    """Most likely it is stopping already: it was told when its supervisor died."""
    _signal(pid, signal.SIGINT)
    if not _all_ended([pid], within_s=ORPHAN_STOP_S):
        kill_tree(pid)
        _wait_ended([pid], within_s=KILL_S)
    if _is_server_of(pid, node_dir):
        raise EmbeddedPostgresError(f"an earlier PostgreSQL (pid {pid}) still runs in {node_dir} and cannot be stopped")


def _disarm(node_dir: Path) -> None:
    """Put our own pid into the lock file: PostgreSQL takes a lock with its parent's pid for stale.

    The pid in it may meanwhile belong to any other program, which would keep the server from starting. Removing the file would
    also remove the number of the shared memory, by which PostgreSQL sees that backends of the killed server are still at work.
    """
    lock = node_dir / "postmaster.pid"
    try:
        _, newline, rest = lock.read_text(encoding="utf-8").partition("\n")
        lock.write_text(f"{os.getpid()}{newline}{rest}", encoding="utf-8")
    except FileNotFoundError:
        return


def _is_server_of(pid: int, node_dir: Path) -> bool:
    wanted = f"postgres -D {node_dir}"
    return any(
        process.pid == pid and not process.ended and process.command.endswith(wanted) for process in _processes()
    )


def _wait_ended(pids: list[int], *, within_s: float) -> None:
    if not _all_ended(pids, within_s=within_s):
        raise EmbeddedPostgresError(f"processes {pids} do not end, not even by SIGKILL")


def _all_ended(pids: list[int], *, within_s: float) -> bool:
    """Wait for processes that are not our children, so that ``waitpid`` is of no use. A zombie counts as ended."""
    deadline = time.monotonic() + within_s
    while any(process.pid in pids and not process.ended for process in _processes()):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _processes() -> Iterator[_Process]:
    return _from_proc() if (_PROC / "self" / "stat").exists() else _from_ps()


def _from_proc() -> Iterator[_Process]:
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            # The name in parentheses may hold anything, so the fields are counted from its end.
            state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            command = (entry / "cmdline").read_text(errors="replace").rstrip("\0").replace("\0", " ")
        except (OSError, ValueError):  # it ended while we looked
            continue
        yield _Process(pid=int(entry.name), parent=int(parent), ended=state in "ZX", command=command)


def _from_ps() -> Iterator[_Process]:
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        pid, parent, state, *command = line.split(maxsplit=3)
        yield _Process(pid=int(pid), parent=int(parent), ended=state[0] in "ZX", command="".join(command).rstrip())
