"""The record of one client, written as it happens: a line reaches the operating system before the call that it announces is sent, so that a
client that is killed leaves nothing out. One file, one process, one event loop.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from isoline_drill.history import Header, Look, Operation, Outcome, header_line, operation_line

K = TypeVar("K", bound=Operation)
ERROR_CHARACTERS_MAX: Final = 300


def now_us() -> int:
    """Microseconds of the clock that all processes of this machine share."""
    return time.monotonic_ns() // 1_000


class Recorder:
    """Numbers the operations of a client and writes them to a new file. ``counts`` tell how many ended how: for people, while it goes on."""

    def __init__(self, path: Path, *, client: str, region: str, clock_us: Callable[[], int] = now_us) -> None:
        self.counts: Counter[str] = Counter()
        self._who = {"client": client, "region": region}
        self._clock_us = clock_us
        self._begun = 0
        self._file = path.open("xb", buffering=0)
        offset_us = time.time_ns() // 1_000 - clock_us()
        self._write(header_line(Header(client=client, region=region, wall_offset_us=offset_us)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def begin(self, kind: type[K], **asked: Any) -> K:
        """An operation that is about to be sent. A change is written down at once; a read that never ends says nothing."""
        self._begun += 1
        operation = kind(
            **self._who,
            op=self._begun,
            invoked_us=self._clock_us(),
            completed_us=None,
            outcome="unknown",
            **asked,
        )
        if not isinstance(operation, Look):
            self._write(operation_line(operation))
        return operation

    def end(self, operation: K, outcome: Outcome, error: BaseException | None = None, **told: Any) -> K:
        """Write down how it ended."""
        said = "" if error is None else f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]
        ended = replace(operation, completed_us=self._clock_us(), outcome=outcome, error=said, **told)
        self._write(operation_line(ended))
        self._count(ended)
        return ended

    def _count(self, ended: Operation) -> None:
        if not isinstance(ended, Look):
            self.counts["acknowledged" if ended.outcome == "ok" else ended.outcome] += 1
        elif ended.outcome == "ok":
            self.counts["stale" if ended.source == "stale" else "read"] += 1
        else:
            self.counts["unread"] += 1

    def _write(self, line: str) -> None:
        self._file.write(line.encode())
