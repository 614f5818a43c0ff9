"""Carry a step out that is safe to repeat, for as long as its caller waits: the one law for calls that carry no request id."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from isoline_server.domain.errors import OutcomeUnknown, StoreUnavailable
from isoline_server.operations.backoff import Backoff
from isoline_server.operations.ports import StoreRetryable

T = TypeVar("T")


async def carry_out(step: Callable[[], Awaitable[T]], timeout_s: float) -> T:
    """What the step returns, once the database carries it out. Raises ``StoreUnavailable``, or ``OutcomeUnknown`` when a try may have landed."""
    backoff = Backoff()
    in_doubt = False
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                doubtful_before, in_doubt = in_doubt, True
                try:
                    return await step()
                except StoreRetryable as error:
                    in_doubt = doubtful_before or error.ambiguous
                await backoff.pause()
    except TimeoutError:
        raise (OutcomeUnknown() if in_doubt else StoreUnavailable("no answer within the deadline")) from None
