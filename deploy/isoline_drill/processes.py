"""Programs in the regions: started where they belong, with a log each, killed, ended in order. What they do is not known here."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from isoline_drill.errors import DrillError
from isoline_drill.wan import enter

READY_S: Final = 60.0
"""From launch to the words that it is ready. A second or two on an idle machine; the rest is for loaded ones."""
STOP_S: Final = 20.0
_POLL_S: Final = 0.02
_TAIL_LINES: Final = 15


class Program:
    """One program of a region. Not for use by several threads at a time.

    ``ready`` is what it writes to its log once it serves; empty: at once. Its life is tied to the process that starts it.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        namespace: str | None,
        log: Path,
        environment: Mapping[str, str],
        ready: str = "",
    ) -> None:
        self.name = name
        self.log = log
        self._argv = enter.command(namespace, argv)
        self._environment = dict(environment)
        self._ready = ready
        self._child: subprocess.Popen[bytes] | None = None
        self._said_before = 0

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def launch(self) -> None:
        """Start it. ``wait_ready`` waits until it serves."""
        self._said_before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            self._child = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,  # an interrupt at the terminal is for the drill, which ends everything in order
            )

    def wait_ready(self, within_s: float = READY_S) -> None:
        """Raises ``DrillError`` with the end of its log when it ends, or does not serve in time."""
        assert self._child is not None
        deadline = time.monotonic() + within_s
        while self._ready not in self.said():
            if self._child.poll() is not None:
                raise DrillError(
                    f"{self.name} ended with {self._child.returncode} before it served:\n{self.log_tail()}"
                )
            if time.monotonic() > deadline:
                raise DrillError(f"{self.name} does not serve within {within_s:.0f} s:\n{self.log_tail()}")
            time.sleep(_POLL_S)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._signal(signal.SIGKILL)

    def stop(self, within_s: float = STOP_S) -> bool:
        """SIGTERM, and wait; SIGKILL after the deadline. Whether it ended by itself."""
        self.request_stop()
        assert self._child is not None
        try:
            self._child.wait(within_s)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            return False
        return True

    def request_stop(self) -> None:
        """SIGTERM, without waiting."""
        if self.running:
            assert self._child is not None
            self._child.send_signal(signal.SIGTERM)

    def wait(self, within_s: float) -> int:
        """Wait for its end; its exit status. Raises ``DrillError``."""
        assert self._child is not None
        try:
            return self._child.wait(within_s)
        except subprocess.TimeoutExpired:
            raise DrillError(f"{self.name} does not end within {within_s:.0f} s:\n{self.log_tail()}") from None

    def said(self) -> str:
        """What it has written since it was started last."""
        with self.log.open("rb") as log:
            log.seek(self._said_before)
            return log.read().decode(errors="replace")

    def log_tail(self) -> str:
        """The end of what it wrote, for people."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join(f"  | {line}" for line in text.splitlines()[-_TAIL_LINES:])

    def _signal(self, number: signal.Signals) -> None:
        if self.running:
            assert self._child is not None
            self._child.send_signal(number)
            self._child.wait()


def environment(**more: str) -> dict[str, str]:
    """Ours, without the variables by which a developer points Isoline or PostgreSQL elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(("ISOLINE_", "PG"))}
    return {**kept, "GRPC_VERBOSITY": "NONE", **more}
