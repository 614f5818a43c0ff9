"""A file or a pipe to batches of events. A batch is full at its limits; one that a pipe leaves unfilled is handed over after a short wait.

Reading stands in a daemon thread of its own, on the bare file descriptor: so a pipe that says nothing keeps neither a batch nor Ctrl-C
waiting, and nothing is left locked when the program ends.
"""

import asyncio
import io
import os
import stat
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from isoline_client.cli.failures import CommandError
from isoline_client.cli.lines import LINE_BYTES_MAX, Line, LineError, parse_line
from isoline_client.limits import APPEND_BYTES_MAX

LINGER_S: Final = 0.05
"""How long a batch waits for more from a pipe."""

_CHUNK_BYTES: Final = 256 * 1024
_CHUNKS_AHEAD: Final = 8


@dataclass(slots=True)
class Batch:
    """Events that are appended together, and how many bytes of input they took."""

    lines: list[Line] = field(default_factory=list)
    cost: int = 0
    input_bytes: int = 0

    def has_room(self, line: Line, events_max: int) -> bool:
        return not self.lines or (len(self.lines) < events_max and self.cost + line.cost <= APPEND_BYTES_MAX)

    def add(self, line: Line | None, input_bytes: int) -> None:
        """Take a line of so many bytes; None is a blank one."""
        self.input_bytes += input_bytes
        if line is not None:
            self.lines.append(line)
            self.cost += line.cost


class Feed:
    """The events of a file, or of stdin for ``-``. Raise ``CommandError`` when it cannot be opened."""

    def __init__(self, name: str, *, batch_events: int, keep_timestamp: bool) -> None:
        self._source = _open_stdin() if name == "-" else _open_file(name)
        self.name = "stdin" if name == "-" else name
        self.size = _size(self._source)
        """Bytes of a regular file; None for a pipe."""
        self._chunks: _Chunks | None = None
        self._batch_events = batch_events
        self._keep_timestamp = keep_timestamp
        self._rest = b""
        self._number = 0

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Batches in order. Raises ``LineError`` at a bad line; the lines before it that were not handed over yet never are."""
        chunks = self._chunks = _Chunks(self._source)
        batch = Batch()
        at_end = False
        while not at_end:
            chunk = await chunks.next(LINGER_S if batch.lines else None)
            at_end = chunk is None
            for line, size in self._lines(chunk, at_end=at_end):
                if line is not None and not batch.has_room(line, self._batch_events):
                    yield batch
                    batch = Batch()
                batch.add(line, size)
            if not chunk:
                yield batch
                batch = Batch()

    def close(self) -> None:
        """Read no more. The thread closes the file, for closing it under a read could hit another one."""
        if self._chunks is not None:
            self._chunks.close()
        else:
            self._source.close()

    def _lines(self, chunk: bytes | None, *, at_end: bool) -> Iterator[tuple[Line | None, int]]:
        """The lines that ``chunk`` completes, and their sizes; at the end also one without a line end."""
        *whole, self._rest = (self._rest + (chunk or b"")).split(b"\n")
        if at_end and self._rest:
            whole, self._rest = [self._rest], b""
        for raw in whole:
            self._number += 1
            self._check_size(raw, self._number)
            yield parse_line(self._number, raw, keep_timestamp=self._keep_timestamp), len(raw) + 1
        self._check_size(self._rest, self._number + 1)

    def _check_size(self, raw: bytes, number: int) -> None:
        if len(raw) > LINE_BYTES_MAX:
            raise LineError(number, f"is longer than {LINE_BYTES_MAX} bytes")


class _Chunks:
    """What a thread reads, for one coroutine: at most a few chunks ahead of it."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Queue[bytes | OSError | None] = asyncio.Queue()
        self._room = threading.Semaphore(_CHUNKS_AHEAD)
        self._closed = False
        threading.Thread(target=self._read, name="isoline-input", daemon=True).start()

    async def next(self, patience_s: float | None) -> bytes | None:
        """The next chunk; empty when there is none within ``patience_s``, None at the end."""
        try:
            async with asyncio.timeout(patience_s):
                got = await self._ready.get()
        except TimeoutError:
            return b""
        self._room.release()
        if isinstance(got, OSError):
            raise CommandError(f"reading failed: {got}") from got
        return got

    def close(self) -> None:
        """Let the thread end, as soon as it does not wait for a pipe."""
        self._closed = True
        self._room.release()

    def _read(self) -> None:
        with self._source:
            got = self._read_one()
            while self._hand_over(got) and isinstance(got, bytes):
                self._room.acquire()
                got = self._read_one()

    def _read_one(self) -> bytes | OSError | None:
        try:
            return None if self._closed else self._source.read(_CHUNK_BYTES) or None
        except OSError as error:
            return error

    def _hand_over(self, got: bytes | OSError | None) -> bool:
        """False when the loop has ended and nobody asks for more."""
        try:
            self._loop.call_soon_threadsafe(self._ready.put_nowait, got)
        except RuntimeError:
            return False
        return True


def _open_file(name: str) -> IO[bytes]:
    try:
        return Path(name).open("rb", buffering=0)
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror or error}") from error


def _open_stdin() -> IO[bytes]:
    if sys.stdin is None:
        raise CommandError("stdin is closed")
    try:
        return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
    except (io.UnsupportedOperation, OSError):
        return io.BytesIO(sys.stdin.buffer.read())  # no descriptor behind it: somebody's memory, all there already


def _size(source: IO[bytes]) -> int | None:
    try:
        found = os.fstat(source.fileno())
    except (io.UnsupportedOperation, OSError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
