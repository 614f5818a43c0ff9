"""Measuring in turns: ours and its floor one after the other in every round, medians over the rounds, rows that say what was asked.

Nothing here knows what is measured.
"""

import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")
WARM_UP = -1
"""The number of the round whose result is thrown away."""


@dataclass(frozen=True)
class Effort:
    """How much is measured. ``quick`` is for trying the programs: its numbers mean little."""

    rounds: int
    quick: bool

    def of(self, full: int, quick: int) -> int:
        """A count: the full one, or the one for trying."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Target:
    """What the row must reach, in words and as a test of its value and its ratio to the floor."""

    text: str
    holds: Callable[[float, float | None], bool]


def ratio_at_least(bound: float) -> Target:
    return Target(f">= {bound:g} of the floor", lambda _, ratio: ratio is not None and ratio >= bound)


def ratio_at_most(bound: float) -> Target:
    return Target(f"<= {bound:g} x the floor", lambda _, ratio: ratio is not None and ratio <= bound)


def value_at_most(bound: float, unit: str) -> Target:
    return Target(f"<= {bound:g} {unit}".strip(), lambda value, _: value <= bound)


def value_under(bound: float, unit: str) -> Target:
    return Target(f"< {bound:g} {unit}".strip(), lambda value, _: value < bound)


@dataclass(frozen=True)
class Row:
    """One line of the results. ``samples`` are the rounds behind ``value``, ``floor_samples`` those behind ``floor``."""

    name: str
    value: float
    unit: str
    floor: float | None = None
    target: Target | None = None
    samples: Sequence[float] = field(default=())
    floor_samples: Sequence[float] = field(default=())

    @property
    def ratio(self) -> float | None:
        return None if self.floor is None else self.value / self.floor

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.target.holds(self.value, self.ratio)


def row(
    name: str,
    unit: str,
    samples: Sequence[float],
    floor_samples: Sequence[float] = (),
    target: Target | None = None,
) -> Row:
    """A row of medians."""
    floor = statistics.median(floor_samples) if floor_samples else None
    return Row(name, statistics.median(samples), unit, floor, target, samples, floor_samples)


async def interleave(sides: Mapping[str, Callable[[], Awaitable[T]]], rounds: int) -> dict[str, list[T]]:
    """Measure every side once a round, after a round to warm up. The order turns around from round to round, so that no side always
    comes behind the same other."""
    found: dict[str, list[T]] = {name: [] for name in sides}
    for number in range(WARM_UP, rounds):
        for name in sides if number % 2 == 0 else reversed(sides):
            gc.collect()
            measured = await sides[name]()
            if number != WARM_UP:
                found[name].append(measured)
    return found


async def timed_ms(work: Callable[[], Awaitable[object]]) -> float:
    """How long one piece of work takes, in milliseconds."""
    started = time.perf_counter()
    await work()
    return (time.perf_counter() - started) * 1_000


def quantile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
