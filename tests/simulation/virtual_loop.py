"""An event loop without a world: its time jumps to the next timer, and the seed says which of the ready callbacks runs next.

What belongs here: time and order. What does not: anything that is simulated on it. No file, no socket, no thread: there is no selector.
"""

import asyncio
import random
from collections import deque
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Stuck(Exception):
    """Nothing is ready and no timer is set, so what is waited for never comes."""


class _Shuffled(deque[Any]):
    """The ready callbacks. The next one is any of them: a stronger scheduler than asyncio's, which is first come, first served."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._draw = rng.random

    def popleft(self) -> Any:
        count = len(self)
        if count > 1:
            self.rotate(-int(self._draw() * count))
        return super().popleft()


class _Jump:
    """Stands where the selector is: waiting for the outside is a jump of the time."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def select(self, timeout_s: float | None) -> list[Any]:
        if timeout_s is None:
            raise Stuck
        self.now_s += timeout_s
        return []


class SeededLoop(asyncio.BaseEventLoop):
    """One seed, one order of everything."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._jump = _Jump()
        self._selector = self._jump
        self._ready = _Shuffled(rng)
        self.set_debug(False)

    def time(self) -> float:
        return self._jump.now_s

    def _process_events(self, events: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody else is there to wake the loop."""


def run(rng: random.Random, main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` to its end on a loop of its own, and throw away whatever is left of it."""
    loop = SeededLoop(rng)
    try:
        return loop.run_until_complete(main)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True) if left else _nothing())
        loop.close()


async def _nothing() -> None:
    """Nobody is left."""
