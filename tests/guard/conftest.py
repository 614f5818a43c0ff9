"""The outside world of these tests, and the in-process layers."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest

from guard.outside import Outside
from guard.ways import WAYS, Way, World
from isoline_client import guard
from isoline_client.guard.policy import Policy, Scope
from isoline_client.guard.switches import SWITCHES, Switches

guard.install()


@pytest.fixture
def outside(tmp_path) -> Iterator[Outside]:
    made = Outside(tmp_path)
    yield made
    made.close()


@pytest.fixture
def switches() -> Iterator[Switches]:
    """The switches, which are as they were after the test."""
    before = {each.name: getattr(SWITCHES, each.name) for each in fields(Switches)}
    yield SWITCHES
    for name, value in before.items():
        setattr(SWITCHES, name, value)


@pytest.fixture
def leave(outside) -> Callable[[Way, Policy], Scope]:
    """Try a way out under a policy, swallowing what it raises: whether it got out is for the outside to say."""

    def attempt(way: Way, policy: Policy) -> Scope:
        if not way.here:
            pytest.skip(f"{way.name}: {way.needs} is not installed")
        world = World(**outside.address)
        if way.opens is not None:
            world.opened[way.name] = way.opens(world)
        outside.start_counting()
        try:
            with guard.enter(policy) as scope, contextlib.suppress(BaseException):
                way.attempt(world)
            return scope
        finally:
            for each in world.opened.values():
                _close(each)

    return attempt


def _close(opened: Any) -> None:
    (getattr(opened, "close", None) or opened.shutdown)()


__all__ = ["WAYS"]
