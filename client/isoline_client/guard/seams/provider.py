"""Calls of a model or another provider through its SDK."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from isoline_client.guard.policy import ask
from isoline_client.guard.seams.seam import REGISTRY, Seam

P = ParamSpec("P")
R = TypeVar("R")

PROVIDER: Final = REGISTRY.add(
    Seam(
        name="provider.call",
        kind="provider-sdk",
        module=__name__,
        note="a model's answer is served from the invocation log in a replay; a branch calls again",
    )
)


def guarded_provider(call: Callable[P, Awaitable[R]], *, provider: str) -> Callable[P, Awaitable[R]]:
    """``call`` that asks first. ``provider`` is named in the refusal."""

    @wraps(call)
    async def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        ask(PROVIDER.name, provider)
        return await call(*args, **kwargs)

    return asked
