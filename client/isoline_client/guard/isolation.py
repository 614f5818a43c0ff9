"""Layer (c): shutting this process in, finding out whether that holds, and asking a host beforehand whether it would.

Namespaces take the network away, Landlock the writing of files, a filter of system calls what neither of them holds. Each is tried
by itself; what a host refuses is said, never passed over.
"""

import contextlib
import errno
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from isoline_client.guard import kernel
from isoline_client.guard.switches import Fences
from isoline_client.limits import (
    PROBE_TIMEOUT_S,
    WORKER_FILE_BYTES_MAX,
    WORKER_OPEN_FILES_MAX,
)

_INTERNET: Final = (int(socket.AF_INET), int(socket.AF_INET6), 16)
"""Families that an empty network namespace holds: IPv4, IPv6, netlink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationReport:
    """What holds a process in, each verified from inside, and why the rest does not."""

    netns: bool = False
    landlock: bool = False
    call_filter: bool = False
    reasons: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing can leave, by whatever library."""
        return self.netns and self.landlock and self.call_filter

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "IsolationReport":
        """Back from JSON."""
        return cls(**{**document, "reasons": tuple(document["reasons"])})


NOT_ISOLATED: Final = IsolationReport(reasons=("not a replay worker",))


def shut_in(scratch: Path, *, listening_port: int, fences: Fences | None = None) -> IsolationReport:
    """Take network, files and foreign sockets away from this process, for good, and try whether they are gone.

    ``listening_port`` is one on 127.0.0.1 that answers: reaching it shows that the network is still there. One thread only.
    """
    wanted = fences or Fences()
    reasons: list[str] = []
    _limit_resources()
    if wanted.namespaces:
        _try("network namespace", kernel.enter_empty_namespaces, reasons)
    else:
        reasons.append("network namespace: switched off")
    netns = _has_no_network(listening_port)
    _try("death signal", kernel.die_with_parent, reasons)
    _try("no new privileges", kernel.gain_no_privileges, reasons)
    if wanted.landlock:
        _try("Landlock", lambda: kernel.allow_writes_only_beneath(scratch), reasons)
    else:
        reasons.append("Landlock: switched off")
    landlock = _cannot_write(scratch.parent)
    if wanted.call_filter:
        # Without a namespace no family is harmless; then the filter alone keeps the network away from sockets made from here on.
        _try("call filter", lambda: kernel.filter_calls(_INTERNET if netns else ()), reasons)
    else:
        reasons.append("call filter: switched off")
    return IsolationReport(
        netns=netns, landlock=landlock, call_filter=_makes_no_foreign_socket(), reasons=tuple(reasons)
    )


@cache
def probe() -> IsolationReport:
    """What a replay worker of this host would be held by: a process is shut in for it, once."""
    command = [sys.executable, "-m", "isoline_client.guard.worker_main", "probe"]
    with (
        contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener,
        tempfile.TemporaryDirectory() as folder,
    ):
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        command += [str(scratch), str(listener.getsockname()[1])]
        try:
            done = subprocess.run(command, capture_output=True, timeout=PROBE_TIMEOUT_S, check=False)
            return IsolationReport.from_document(json.loads(done.stdout))
        except (OSError, subprocess.TimeoutExpired) as error:
            return IsolationReport(reasons=(f"no process could be shut in: {error}",))
        except ValueError:
            said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            return IsolationReport(reasons=(f"no process could be shut in: {said}",))


def _try(what: str, step: Any, reasons: list[str]) -> None:
    try:
        step()
    except OSError as error:
        reasons.append(f"{what}: {error.strerror or error}")


def _limit_resources() -> None:
    for name, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, WORKER_OPEN_FILES_MAX),
        (resource.RLIMIT_FSIZE, WORKER_FILE_BYTES_MAX),
    ):
        _soft, hard = resource.getrlimit(name)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(name, (least, least))


def _has_no_network(port: int) -> bool:
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as tried:
        return tried.connect_ex(("127.0.0.1", port)) == errno.ENETUNREACH


def _cannot_write(folder: Path) -> bool:
    """Whether a folder that belongs to us, beside the scratch folder, takes no file."""
    beside = folder / f"outside-{os.getpid()}"
    try:
        beside.touch()
    except OSError as error:
        return error.errno == errno.EACCES
    beside.unlink()
    return False


def _makes_no_foreign_socket() -> bool:
    try:
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close()
    except OSError as error:
        return error.errno == errno.EACCES
    return False
