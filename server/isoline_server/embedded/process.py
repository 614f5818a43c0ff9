"""One PostgreSQL server as a foreground child of this process, and the short-lived programs that prepare it.

Here: launching, readiness, stopping, killing. Not here: what is in a data folder (``node.py``) or who talks to whom (``cluster.py``).

A server lives exactly as long as we do. On Linux it asks the kernel for SIGINT (its clean stop) at our death, however we die. The
kernel takes the death of the *thread* that forked for the death of the parent, so every child is forked by one thread that ends with the
interpreter; callers may use any thread. Elsewhere a server outlives a killed supervisor until the next start over its folder ends it.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Final

from isoline_server.embedded.errors import EmbeddedPostgresError, MemoryStillHeld, PortTaken, tail_of
from isoline_server.embedded.identity import Identity
from isoline_server.embedded.leftovers import KILL_S, kill_tree, read_pid_file

READY_S: Final = 300.0
"""Bounds the recovery after a crash: a gigabyte of WAL takes some ten seconds to replay, on a slow disk minutes. Killing it would not help."""
STOP_S: Final = 30.0
TOOL_S: Final = 300.0
"""Bounds a copy of the primary, the longest of the tools."""

_POLL_S: Final = 0.01
_ATTEMPT_S: Final = 20.0
_LAUNCHER: Final = Path(__file__).with_name("launch.py")

_PORT_TAKEN: Final = "could not create any TCP/IP sockets"
_MEMORY_HELD: Final = "pre-existing shared memory block"


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours without the variables by which a user points libpq at another server, and in the language that we can read."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C", **(extra or {})}


def attempt(identity: Identity, argv: list[str]) -> bool:
    """Does a program run under an identity? (The probe that ``identity.py`` asks for.)"""
    child = _spawn(identity, argv, folder=Path("/"), output=subprocess.DEVNULL)
    return _finish(child, within_s=_ATTEMPT_S) == 0


def run_tool(identity: Identity, argv: list[str], *, folder: Path, log: Path, network: str | None = None) -> None:
    """Run initdb, pg_basebackup or their like to its end; its output goes to a log of its own, shown if it fails."""
    name = Path(argv[0]).name
    with log.open("wb") as output:
        child = _spawn(identity, argv, folder=folder, output=output, network=network, death_signal=signal.SIGTERM)
    code = _finish(child, within_s=TOOL_S)
    if code is None:
        raise EmbeddedPostgresError(f"{name} did not finish within {TOOL_S:.0f} s", log_tail=tail_of(log))
    if code != 0:
        raise EmbeddedPostgresError(f"{name} failed (exit status {code})", log_tail=tail_of(log))


class PostgresProcess:
    """One server over one data folder. Not for use by several threads at a time."""

    def __init__(
        self, *, identity: Identity, postgres: str, node_dir: Path, log: Path, network: str | None = None
    ) -> None:
        self._identity = identity
        self._network = network
        self._argv = [postgres, "-D", str(node_dir)]
        self._node_dir = node_dir
        self._log = log
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The postmaster's pid while it runs."""
        return self._child.pid if self._child is not None and self._child.poll() is None else None

    @property
    def running(self) -> bool:
        return self.pid is not None

    def spawn(self) -> None:
        """Launch it, with a log that begins anew; the previous one is kept beside it."""
        assert not self.running, "one folder, one server"
        with contextlib.suppress(FileNotFoundError):
            self._log.replace(self._log.with_suffix(".log.1"))
        with self._log.open("wb") as output:
            self._child = _spawn(
                self._identity, self._argv, folder=self._node_dir, output=output, network=self._network
            )

    def is_ready(self) -> bool:
        """Does it accept connections? Raises when it has ended instead."""
        self.raise_if_ended()
        written = read_pid_file(self._node_dir)
        return written is not None and written.pid == self.pid and written.ready

    def wait_ready(self, *, within_s: float, check: Callable[[], None]) -> None:
        """Until it accepts connections. One that does not come up in time is killed. ``check`` may raise to end the wait."""
        deadline = time.monotonic() + within_s
        while not self.is_ready():
            check()
            if time.monotonic() > deadline:
                self.kill()
                raise EmbeddedPostgresError(
                    f"{self._node_dir.name}: not ready within {within_s:.0f} s", log_tail=self.log_tail()
                )
            self.pause()

    def pause(self) -> None:
        """The step of a loop that waits for a condition: short, and over at once when the server ends."""
        assert self._child is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_POLL_S)

    def raise_if_ended(self) -> None:
        assert self._child is not None, "not launched"
        if self._child.poll() is None:
            return
        tail = self.log_tail()
        kind = PortTaken if _PORT_TAKEN in tail else MemoryStillHeld if _MEMORY_HELD in tail else EmbeddedPostgresError
        last_words = [line for line in tail.splitlines() if "FATAL:" in line or "PANIC:" in line]
        cause = last_words[-1].partition("] ")[2] if last_words else f"exit status {self._child.returncode}"
        raise kind(f"{self._node_dir.name}: PostgreSQL ended ({cause})", log_tail=tail)

    def reload(self) -> None:
        """SIGHUP: read the settings file again. It is not known when each of its processes has."""
        if self._child is not None:
            self._child.send_signal(signal.SIGHUP)

    def request_stop(self) -> None:
        """SIGINT: roll back what is under way, write a checkpoint, end."""
        if self._child is not None:
            self._child.send_signal(signal.SIGINT)  # a no-op for a child that has been waited for

    def stop(self, *, within_s: float = STOP_S) -> None:
        """Stop cleanly, or by SIGKILL after the deadline. Does nothing if it does not run."""
        if self._child is None:
            return
        self.request_stop()
        try:
            self._child.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL the postmaster and all its children, and wait for them."""
        if self._child is None or self._child.poll() is not None:
            return
        kill_tree(self._child.pid)
        self._child.wait(KILL_S)

    def log_tail(self) -> str:
        return tail_of(self._log)


def launched(
    argv: Sequence[str],
    *,
    identity: Identity | None = None,
    network: str | None = None,
    folder: Path = Path("/"),
    death_signal: signal.Signals = signal.SIGTERM,
) -> list[str]:
    """The command of a direct child of ours that becomes ``argv``, as ``identity`` (``None``: as we are) and inside ``network``."""
    way = None if identity is None else identity.way
    label = None if identity is None else (identity.uid, identity.gid)
    order = {
        "parent": os.getpid(),
        "death_signal": death_signal.value,
        "network": network,
        "namespace": label if way == "namespace" else None,
        "account": label if way == "account" else None,
        "folder": str(folder),
        "argv": list(argv),
    }
    return [sys.executable, "-I", "-S", str(_LAUNCHER), json.dumps(order)]


def _spawn(
    identity: Identity,
    argv: Sequence[str],
    *,
    folder: Path,
    output: IO[bytes] | int,
    network: str | None = None,
    death_signal: signal.Signals = signal.SIGINT,
) -> subprocess.Popen[bytes]:
    command = launched(argv, identity=identity, network=network, folder=folder, death_signal=death_signal)
    return _FORKER.call(
        lambda: subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=clean_environment(),
            # Ctrl-C in the terminal is for us: we stop the servers in the right order.
            start_new_session=True,
        )
    )


def _finish(child: subprocess.Popen[bytes], *, within_s: float) -> int | None:
    """Wait for a short-lived child; ``None`` if it had to be killed. It never outlives the call, not even at Ctrl-C."""
    try:
        return child.wait(within_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


_Child = subprocess.Popen[bytes]
_Order = tuple["Future[_Child]", Callable[[], _Child]]


class _Forker:
    """The one thread that forks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: queue.SimpleQueue[_Order] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def call(self, make: "Callable[[], _Child]") -> "_Child":
        future: Future[_Child] = Future()
        with self._lock:
            if self._thread is None or not self._thread.is_alive():  # not alive: after os.fork, in the child
                self._orders = queue.SimpleQueue()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._orders,), name="postgres-forker", daemon=True
                )
                self._thread.start()
        self._orders.put((future, make))
        try:
            return future.result()
        except BaseException:  # Ctrl-C while waiting: a child that nobody will know of must not live on
            future.add_done_callback(_discard)
            raise

    @staticmethod
    def _serve(orders: "queue.SimpleQueue[_Order]") -> None:
        while True:
            future, make = orders.get()
            try:
                future.set_result(make())
            except Exception as error:  # noqa: BLE001 (handed on to the caller)
                future.set_exception(error)


def _discard(future: "Future[_Child]") -> None:
    if future.exception() is None:
        future.result().terminate()


_FORKER: Final = _Forker()
