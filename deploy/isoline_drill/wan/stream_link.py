"""One way of a TCP connection between regions, in the loop of the proxies: pieces that arrive late, in order, and wait out a cut. No sockets."""

import asyncio
import contextlib
import time
from collections import deque
from enum import Enum
from typing import Final

UNDER_WAY_BYTES_MAX: Final = 4 * 1024 * 1024  # per connection and way; a sender that is ahead by more has to wait
_PIECE_COST_BYTES: Final = 256  # of a piece in memory, beside its bytes


class Mark(Enum):
    """What can end a stream."""

    END = "end"
    RESET = "reset"


Piece = bytes | Mark


class StreamLink:
    """What holds for everything that goes from one region to another. Used in one event loop."""

    loss_share = 0.0  # packets are not known here

    def __init__(self) -> None:
        self._delay_s = 0.0
        self._is_cut = False
        self._mended_at_s = 0.0
        self._change = asyncio.Event()  # set, and replaced, with every change

    @property
    def delay_s(self) -> float:
        return self._delay_s

    @delay_s.setter
    def delay_s(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._changed()

    def cut(self) -> None:
        self._is_cut = True

    def mend(self) -> None:
        if self._is_cut:
            self._is_cut = False
            self._mended_at_s = time.monotonic()
            self._changed()

    async def cross(self, sent_at_s: float) -> None:
        """Return when something sent at this time arrives: what a cut has held is sent again at its end."""
        while self._is_cut or self._left_s(sent_at_s) > 0:
            limit_s = None if self._is_cut else self._left_s(sent_at_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    await self._change.wait()

    def _left_s(self, sent_at_s: float) -> float:
        return max(sent_at_s, self._mended_at_s) + self._delay_s - time.monotonic()

    def _changed(self) -> None:
        self._change.set()
        self._change = asyncio.Event()


class UnderWay:
    """Pieces that were read from one end and not yet written to the other: bounded, in order, each with the time when it was sent.

    One task puts, one takes.
    """

    def __init__(self) -> None:
        self._pieces: deque[tuple[float, Piece]] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()

    async def put(self, piece: Piece) -> None:
        """Add a piece sent now, and wait until there is room for the next."""
        self._pieces.append((time.monotonic(), piece))
        self._bytes += _cost_bytes(piece)
        self._changed.set()
        while self._bytes > UNDER_WAY_BYTES_MAX:
            await self._change()

    async def first(self) -> tuple[float, Piece]:
        """The oldest piece. It stays, and counts, until it is dropped."""
        while not self._pieces:
            await self._change()
        return self._pieces[0]

    def drop(self) -> None:
        """Forget the oldest piece."""
        _, piece = self._pieces.popleft()
        self._bytes -= _cost_bytes(piece)
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


def _cost_bytes(piece: Piece) -> int:
    return _PIECE_COST_BYTES + (0 if isinstance(piece, Mark) else len(piece))
