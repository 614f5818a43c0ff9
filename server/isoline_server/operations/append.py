"""Append events to a run: choose the lane of the run's home, and wait no longer than the caller does."""

import asyncio
from collections.abc import Mapping, Sequence
from zlib import crc32

from isoline_server import telemetry
from isoline_server.domain.append import AppendCommand, Outcome
from isoline_server.domain.errors import OutcomeUnknown, ReplayDivergedAtRefusal, RunNotFound
from isoline_server.domain.ids import Region, RunId, home_of
from isoline_server.operations.append_replay import ReplayComparer
from isoline_server.operations.lane import Lane


class Lanes:
    """The lanes of every home region. Appends of one run always take the same one, so that they keep their order."""

    def __init__(self, lanes: Mapping[Region, Sequence[Lane]], replays: ReplayComparer) -> None:
        self._lanes = lanes
        self._replays = replays
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> list[asyncio.Task[None]]:
        """Start every lane's task and return them: a lane that ends by an error is a defect, and whoever started it must notice."""
        self._tasks = [
            asyncio.create_task(lane.run(), name="append-lane") for lanes in self._lanes.values() for lane in lanes
        ]
        return self._tasks

    async def close(self, grace_s: float) -> None:
        """Take no more appends, and give what waits ``grace_s`` to finish."""
        for lanes in self._lanes.values():
            for lane in lanes:
                lane.close()
        if self._tasks:
            _, unfinished = await asyncio.wait(self._tasks, timeout=grace_s)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)

    def of(self, run_id: RunId) -> Lane:
        """The lane of a run. Raises ``RunNotFound`` when its home is no region of this service."""
        lanes = self._lanes.get(home_of(run_id))
        if lanes is None:
            raise RunNotFound(run_id)
        return lanes[crc32(run_id.encode()) % len(lanes)]

    async def append(self, command: AppendCommand, give_up_at_s: float | None) -> Outcome:
        """Append by the run's lane, and say on the caller's span what a replay differed in."""
        lane = self.of(command.run_id)
        try:
            outcome = await lane.append(command, give_up_at_s)
        except ReplayDivergedAtRefusal:
            telemetry.note_divergence("refusal")
            raise
        for kind in outcome.divergences:
            telemetry.note_divergence(kind)
        if outcome.repeated:
            await self._replays.say_again(command.run_id, lane.hint(command.run_id), outcome)
        return outcome


async def append_events(lanes: Lanes, command: AppendCommand, timeout_s: float | None) -> Outcome:
    """Append the command's events, all or none. Raises what ``Lane.append`` raises, and ``OutcomeUnknown`` when ``timeout_s`` passes first:
    the write may have been under way."""
    loop = asyncio.get_running_loop()
    give_up_at_s = None if timeout_s is None else loop.time() + timeout_s
    if timeout_s is None:
        return await lanes.append(command, give_up_at_s)
    try:
        async with asyncio.timeout_at(give_up_at_s):
            return await lanes.append(command, give_up_at_s)
    except TimeoutError:
        raise OutcomeUnknown from None
