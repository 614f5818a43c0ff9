"""Executors as processes of their own: to kill, to stop and to let go on."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from support.waiting import wait_until

TESTS = Path(__file__).parents[1]
START = "from isoline_client.cli import main; main()"


class ExecutorProcess:
    """``isoline executor`` against ``address``, with the workflows of ``modules`` (names under the tests' folder)."""

    def __init__(self, address: str, modules: str, *options: str, ttl: str = "2s", owner: str = "") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="isoline-executor-")
        self._log = Path(self._folder.name) / "executor.log"
        self._command = [
            sys.executable,
            "-c",
            START,
            "executor",
            "--server",
            address,
            "--workflows",
            modules,
            "--lease-ttl",
            ttl,
            *(["--owner", owner] if owner else []),
            *options,
        ]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return self._log.read_text()

    def start(self) -> Self:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), "GRPC_VERBOSITY": "NONE"},
            )
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()
        if error is not None:
            sys.stderr.write(self.log[-6000:])
        self._folder.cleanup()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self.wait()

    def freeze(self) -> None:
        """SIGSTOP: it does nothing, and does not know it."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def terminate(self) -> int:
        """SIGTERM: drain; return the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def signal(self, name: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(name)

    def wait(self, timeout_s: float = 60) -> int:
        assert self.process is not None
        return self.process.wait(timeout=timeout_s)

    def said(self, text: str, *, timeout_s: float = 30.0) -> None:
        """Wait until its log holds the text."""

        def found() -> bool:
            assert self.process is not None
            if self.process.poll() is not None and text not in self.log:
                raise AssertionError(f"the executor ended with {self.process.returncode}:\n{self.log[-4000:]}")
            return text in self.log

        wait_until(found, timeout_s=timeout_s, what=f"{text!r} in the executor's log")
