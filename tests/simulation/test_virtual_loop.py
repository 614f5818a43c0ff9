"""The loop itself: time that jumps, an order that is the seed's, and an end for what can never go on."""

import asyncio
import random
import time

import pytest

from simulation.virtual_loop import Stuck, run


def _order(seed: int) -> list[tuple[int, float]]:
    async def main() -> list[tuple[int, float]]:
        seen: list[tuple[int, float]] = []

        async def worker(number: int) -> None:
            for _ in range(5):
                await asyncio.sleep(0)
                seen.append((number, asyncio.get_running_loop().time()))
            await asyncio.sleep(3600)
            seen.append((number, asyncio.get_running_loop().time()))

        await asyncio.gather(*(worker(number) for number in range(6)))
        return seen

    return run(random.Random(seed), main())


def test_one_seed_is_one_order_and_another_seed_another() -> None:
    assert _order(1) == _order(1)
    assert _order(1) != _order(2)


def test_hours_pass_at_once() -> None:
    begun_s = time.monotonic()
    assert _order(3)[-1][1] == pytest.approx(3600)
    assert time.monotonic() - begun_s < 5


def test_what_can_never_go_on_is_said() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck):
        run(random.Random(1), main())
