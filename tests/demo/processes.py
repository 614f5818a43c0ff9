"""Tools of these tests: our commands as child processes, what is left of them, waiting for a condition."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isoline_server.embedded.leftovers import _processes

ISOLINE = str(Path(sys.executable).with_name("isoline"))
PATIENCE_S = 120.0
"""Bounds what takes some seconds on an idle machine."""


def environment(place: Path) -> dict[str, str]:
    """Ours, with temporary files in ``place`` (which also marks the processes) and a trap for whoever follows a developer's settings."""
    return {**os.environ, "TMPDIR": str(place), "ISOLINE_LEADER_URL": "postgresql+psycopg://nobody@127.0.0.1:1/trap"}


_started: "list[subprocess.Popen[str]]" = []


def start(command: list[str], place: Path, **how: Any) -> "subprocess.Popen[str]":
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
    _started.append(subprocess.Popen(command, text=True, env=environment(place), cwd=place, **streams))
    return _started[-1]


def end_all() -> None:
    """End what a failed test has left running."""
    while _started:
        child = _started.pop()
        if child.poll() is None:
            child.terminate()
            child.communicate()


def run(command: list[str], place: Path) -> "subprocess.CompletedProcess[str]":
    where = {"env": environment(place), "cwd": place}
    return subprocess.run(command, text=True, capture_output=True, check=False, timeout=PATIENCE_S, **where)


def ready(up: "subprocess.Popen[str]") -> dict[str, Any]:
    """What ``isoline up --json`` says when it is ready."""
    assert up.stdout is not None
    line = up.stdout.readline()
    assert line, up.communicate()
    said: dict[str, Any] = json.loads(line)
    return said


def read_until(child: "subprocess.Popen[str]", text: str) -> None:
    """Read a child's stderr up to the line that contains ``text``."""
    assert child.stderr is not None
    seen = []
    for line in child.stderr:
        seen.append(line)
        if text in line:
            return
    raise AssertionError(f"it ended without saying {text!r}: {seen}")


def wait_until(condition: Callable[[], Any], *, within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s"
        time.sleep(0.02)


def left_of(place: Path) -> list[str]:
    """The command lines of processes that have ``place`` in their arguments or their environment."""
    mark = str(place)
    ours = [each for each in _processes() if not each.ended and (mark in each.command or mark in _environ(each.pid))]
    return [f"{each.pid} {each.command}" for each in ours]


def _environ(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:  # it ended meanwhile, or there is no /proc
        return ""
