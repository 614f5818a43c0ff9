"""What goes wrong with an embedded PostgreSQL. Only the error classes and the reading of a log's tail: no recovery, no decisions."""

from pathlib import Path
from typing import Final

LOG_TAIL_LINES: Final = 15
"""Enough for PostgreSQL's FATAL line with its detail and hint, short enough for a terminal."""


class EmbeddedPostgresError(RuntimeError):
    """The embedded PostgreSQL could not do what was asked. ``log_tail`` holds the last lines of the log that explain why."""

    def __init__(self, message: str, *, log_tail: str = "") -> None:
        self.log_tail = log_tail
        super().__init__(f"{message}\n{_indent(log_tail)}" if log_tail else message)


class PortTaken(EmbeddedPostgresError):
    """Another program listens on the port that was chosen; another port, or a little patience, helps."""


class MemoryStillHeld(EmbeddedPostgresError):
    """Backends of a postmaster that was killed have not ended yet; a little patience helps."""


def tail_of(log: Path, *, lines: int = LOG_TAIL_LINES) -> str:
    """The last lines of a log file, or nothing when there is no file yet."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def _indent(text: str) -> str:
    return "\n".join(f"  | {line}" for line in text.splitlines())
