"""Server processes of the benchmarks: started, waited for, watched and surely ended."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parent.parent
START_S = 60.0
STOP_S = 30.0


class Child:
    """One Python server process. It says where it serves by a line of JSON with ``"event": "serving"``, wherever it writes its log.

    It gets a session of its own, so that Ctrl-C reaches only us and the servers are ended in order; should we be killed, the kernel ends
    it (on Linux).
    """

    def __init__(self, name: str, module: str, arguments: Sequence[str], log: Path) -> None:
        self._name = name
        self._log = log
        launched = [sys.executable, "-m", "benchmarks.launch", str(os.getpid()), module, *arguments]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                launched,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_serving(self) -> str:
        """Wait until it serves; return its address."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            for line in self._text().splitlines():
                if '"serving"' in line:
                    return str(json.loads(line)["address"])
            if self._process.poll() is not None:
                raise RuntimeError(f"{self._name} ended with {self._process.returncode}:\n{self._text()[-2_000:]}")
            time.sleep(0.02)
        raise RuntimeError(f"{self._name} does not serve:\n{self._text()[-2_000:]}")

    def stop(self) -> None:
        """End it, politely at first."""
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def rss_bytes(self) -> int:
        """Its resident memory, as Linux counts it."""
        return rss_bytes(self.pid)

    def _text(self) -> str:
        return self._log.read_text(errors="replace")


class PeakMemory:
    """The highest resident memory of a process, looked at every 20 ms while the block runs."""

    EVERY_S = 0.02

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak-memory", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self.peak_bytes = max(self.peak_bytes, rss_bytes(self._pid))
            if self._done.wait(self.EVERY_S):
                return


def rss_bytes(pid: int) -> int:
    """``VmRSS`` of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)
