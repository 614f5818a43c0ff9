"""What the numbers were taken on: without it they mean nothing."""

import os
import platform
import statistics
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.topology import Topology

LIBRARIES = ("grpcio", "protobuf", "psycopg", "psycopg-binary", "SQLAlchemy", "uvloop")
_SETTINGS = ("server_version", "fsync", "synchronous_commit", "shared_buffers")
_WRITES = 300
_BLOCK = 8_192


@dataclass(frozen=True)
class Machine:
    """The facts, as text."""

    facts: dict[str, str]


def describe(topology: Topology, data_dir: Path | None) -> Machine:
    """Look around. ``data_dir`` is where the database files are, or None for the folder of temporary files."""
    folder = data_dir or Path(tempfile.gettempdir())
    postgres, fsync, commit, buffers = (_setting(topology, name) for name in _SETTINGS)
    if (fsync, commit) != ("on", "on"):
        raise RuntimeError(f"commits would not be durable: fsync {fsync}, synchronous_commit {commit}")
    return Machine(
        {
            "processor": f"{_cpu_model()}, {os.cpu_count()} cores, shared by clients, servers and database",
            "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB",
            "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
            "file system": f"{_file_system(folder)}; fdatasync of 8 KiB takes {fdatasync_us(folder):.0f} µs (median)",
            "PostgreSQL": f"{postgres}, fsync {fsync}, synchronous_commit {commit}, shared_buffers {buffers}, TCP on loopback",
            "Python": f"{platform.python_version()} ({platform.python_implementation()})",
            "libraries": ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
            "load before": f"{os.getloadavg()[0]:.1f} (1 minute)",
        }
    )


def fdatasync_us(folder: Path) -> float:
    """How long the disk takes to say that a block is safe: the floor under every commit."""
    taken: list[float] = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(_WRITES):
            os.pwrite(file.fileno(), os.urandom(_BLOCK), 0)
            started = time.perf_counter()
            _sync(file.fileno())
            taken.append((time.perf_counter() - started) * 1e6)
    return statistics.median(taken)


def _setting(topology: Topology, name: str) -> str:
    ((value,),) = topology.execute("postgres", f"SHOW {name}")
    return str(value)


def _sync(number: int) -> None:
    # macOS has no fdatasync.
    getattr(os, "fdatasync", os.fsync)(number)


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown processor"
    )


def _file_system(folder: Path) -> str:
    """The type of the file system that holds a folder."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown file system"
    holding = [(point, kind) for point, kind in mounts if folder.resolve().is_relative_to(point)]
    return max(holding, key=lambda mount: len(mount[0]), default=("", "unknown file system"))[1]
