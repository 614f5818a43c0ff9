"""The pause before a statement is tried again: longer each time, and never quite the same for two who were refused together."""

import asyncio
import random

FIRST_S = 0.01
LONGEST_S = 1.0


class Backoff:
    """The pauses of one piece of work."""

    def __init__(self) -> None:
        self._next_s = FIRST_S

    async def pause(self) -> None:
        """Wait, and have the next wait be twice as long."""
        await asyncio.sleep(self._next_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
        self._next_s = min(LONGEST_S, self._next_s * 2)
