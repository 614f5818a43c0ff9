"""Waiting for a condition with a deadline, instead of sleeping."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T], *, timeout_s: float = 20.0, every_s: float = 0.02, what: str = "the condition"
) -> T:
    """The first true answer of ``condition``; fail after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {timeout_s} s (last answer: {answer!r})")
        time.sleep(every_s)
    return answer


async def eventually(
    condition: Callable[[], Awaitable[T]],
    *,
    timeout_s: float = 20.0,
    every_s: float = 0.02,
    what: str = "the condition",
) -> T:
    """The first true answer of the awaited ``condition``; fail after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not (answer := await condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {timeout_s} s (last answer: {answer!r})")
        await asyncio.sleep(every_s)
    return answer
