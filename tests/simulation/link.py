"""The way between a process and a database node, and what may be lost on it.

What belongs here: when a statement lands, and what its sender is told. What does not: what it does there (``database``).
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from isoline_server.operations.ports import KeySeen, StoreRetryable
from simulation.trace import Trace

T = TypeVar("T")


@dataclass(slots=True)
class Weather:
    """How often what goes wrong, between 0 and 1 each, and how long a way takes. ``frank``: an unknown fate is said to be one."""

    refused: float
    told_nothing: float
    """The sender learns nothing: it landed, it lands later, or it never does."""
    slow: float
    way_s: float
    damaged: float
    lag_s: float
    frank: bool = True

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        self.refused = self.told_nothing = self.slow = self.damaged = self.lag_s = 0.0


class Link:
    """One process's connections to one node."""

    def __init__(self, name: str, weather: Weather, rng: random.Random, trace: Trace) -> None:
        self.name = name
        self.cut_until_s = 0.0
        self.dead = False
        self._weather = weather
        self._rng = rng
        self._trace = trace

    async def call(self, what: str, statement: Callable[[], T]) -> T:
        """Carry the statement to the node and its answer back. Raises ``KeySeen`` or ``StoreRetryable``. The statement goes on when its sender
        does not."""
        loop, rng = asyncio.get_running_loop(), self._rng
        if self.dead:
            raise StoreRetryable("the process is gone", ambiguous=False)
        if loop.time() < self.cut_until_s:
            await asyncio.sleep(self._way_s() if rng.random() < 0.5 else self.cut_until_s - loop.time())
            self._trace.add(self.name, what, "no connection")
            raise StoreRetryable("no connection", ambiguous=False)
        if rng.random() < self._weather.refused:
            await asyncio.sleep(self._way_s())
            self._trace.add(self.name, what, "40001")
            raise StoreRetryable("40001", ambiguous=False)
        answer: asyncio.Future[T] = loop.create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        silent = rng.random() < self._weather.told_nothing
        if not silent or rng.random() < 0.6:
            late_s = rng.random() * rng.choice((0.0, 0.1, 3.0)) if silent else 0.0
            loop.call_later(self._way_s() + late_s, self._land, what, statement, answer)
        if silent:
            await asyncio.sleep(self._way_s())
            raise self._unknown(what, "told nothing")
        return await answer

    def _land(self, what: str, statement: Callable[[], T], answer: "asyncio.Future[T]") -> None:
        if asyncio.get_running_loop().time() < self.cut_until_s or (answer.cancelled() and self._rng.random() < 0.5):
            self._trace.add(self.name, what, "never lands")
            if not answer.done():
                answer.set_exception(self._unknown(what, "cut on the way"))
            return
        try:
            result = statement()
        except KeySeen as error:
            self._trace.add(self.name, what, "key seen")
            if not answer.done():
                answer.set_exception(error)
            return
        self._trace.add(self.name, what, result)
        asyncio.get_running_loop().call_later(self._way_s(), self._tell, what, result, answer)

    def _tell(self, what: str, result: T, answer: "asyncio.Future[T]") -> None:
        if answer.done():
            return
        if asyncio.get_running_loop().time() < self.cut_until_s:
            answer.set_exception(self._unknown(what, "cut before the answer"))
        else:
            answer.set_result(result)

    def _unknown(self, what: str, reason: str) -> StoreRetryable:
        self._trace.add(self.name, what, reason)
        return StoreRetryable(reason, ambiguous=self._weather.frank)

    def _way_s(self) -> float:
        rng = self._rng
        slow = rng.random() < self._weather.slow
        return rng.random() * (self._weather.way_s * 30 if slow else self._weather.way_s)
