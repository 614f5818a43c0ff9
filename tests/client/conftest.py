import asyncio
import time

import pytest

from client.double import Double, World
from isoline_client import Client


@pytest.fixture
def world():
    return World()


@pytest.fixture
async def near(world):
    double = await Double(world).start()
    yield double
    await double.stop()


@pytest.fixture
async def far(world):
    double = await Double(world).start()
    yield double
    await double.stop()


@pytest.fixture
async def client(near, far):
    async with Client([near.address, far.address], timeout_s=5) as client:
        yield client


@pytest.fixture
def until():
    """Wait for a condition, with a deadline."""

    async def wait(condition, within_s=5.0):
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true in time"
            await asyncio.sleep(0.005)

    return wait
