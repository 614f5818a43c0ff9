"""The pace: deeds begin at the times that the rate gives, whether or not earlier ones have ended (an open loop, so that an outage shows as the
waiting it is), with a bound on what is under way. Changes and reads are bounded apart: changes that wait for a leader keep no read away.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, Final

from isoline_client import Client
from isoline_drill.load.carrying import Caller
from isoline_drill.load.plan import Deed, Ground, KnownRun, See, Sum, next_deed
from isoline_drill.load.recorder import Recorder, now_us
from isoline_drill.load.settings import Settings
from isoline_drill.load.shared import appears, shared_runs

PROGRESS_S: Final = 1.0
LATE_MAX_S: Final = 0.5
"""A loop that was kept from running longer than this does not make up for it: it would be a burst that no client sends."""


def say(line: dict[str, Any]) -> None:
    """One line of progress, for whoever watches."""
    print(json.dumps(line, separators=(",", ":")), file=sys.stderr, flush=True)  # noqa: T201 - it is what this program says


class Load:
    """One run of the load. ``work`` ends when ``stop`` is set."""

    def __init__(self, settings: Settings, stop: asyncio.Event) -> None:
        self._settings = settings
        self._stop = stop
        self._open: dict[bool, set[asyncio.Task[None]]] = {True: set(), False: set()}
        self._open_max = {True: settings.reads_open_max, False: settings.writes_open_max}
        self._left_out = 0
        self._failure: BaseException | None = None

    async def work(self) -> None:
        """Raises what the service refuses the first runs with, and whatever is a fault of this program."""
        settings = self._settings
        with Recorder(settings.history, client=settings.client, region=settings.region) as recorder:
            async with Client(settings.addresses, api_key=settings.api_key, timeout_s=settings.deadline_s) as client:
                ground = Ground()
                caller = Caller(client, recorder, ground, deadline_s=settings.deadline_s)
                beside = [asyncio.create_task(each) for each in self._beside(recorder)]
                try:
                    await self._until_stopped(self._act(caller, ground))
                finally:
                    await self._settle(beside)
                    self._progress("ended", recorder)
        if self._failure is not None:
            raise self._failure

    def _beside(self, recorder: Recorder) -> list[Coroutine[Any, Any, None]]:
        ticker = self._tick(recorder)
        return [ticker] if self._settings.stop_file is None else [ticker, self._watch(self._settings.stop_file)]

    async def _act(self, caller: Caller, ground: Ground) -> None:
        ground.runs += await self._first_runs(caller)
        say({"load": "ready", "region": self._settings.region, "runs": [known.run_id for known in ground.runs]})
        tail = asyncio.create_task(caller.follow(KnownRun(ground.runs[0].run_id)))
        try:
            await self._begin_deeds(caller, ground)
        finally:
            tail.cancel()
            await asyncio.wait([tail])

    async def _first_runs(self, caller: Caller) -> list[KnownRun]:
        """The shared runs, then the own ones."""
        settings = self._settings

        async def make() -> str:
            return (await caller.create()).run_id

        shared = [] if settings.shared is None else await shared_runs(settings.shared, settings.shared_runs, make)
        return [*map(KnownRun, shared), *[await caller.create() for _ in range(settings.own_runs)]]

    async def _begin_deeds(self, caller: Caller, ground: Ground) -> None:
        dice = Random(self._settings.seed)  # noqa: S311 - a choice that can be repeated, not a secret
        clock = asyncio.get_running_loop().time
        due_s = clock()
        while True:
            due_s = max(due_s + dice.expovariate(self._settings.rate_per_s), clock() - LATE_MAX_S)
            await asyncio.sleep(due_s - clock())
            self._begin(caller, next_deed(dice, ground))

    def _begin(self, caller: Caller, deed: Deed) -> None:
        is_read = isinstance(deed, See | Sum)
        tasks = self._open[is_read]
        if len(tasks) >= self._open_max[is_read]:
            self._left_out += 1
            return
        task = asyncio.create_task(caller.carry_out(deed))
        tasks.add(task)
        task.add_done_callback(self._ended(tasks))

    def _ended(self, tasks: set[asyncio.Task[None]]) -> Callable[[asyncio.Task[None]], None]:
        def ended(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            if not task.cancelled() and task.exception() is not None:
                self._failure = task.exception()
                self._stop.set()

        return ended

    async def _until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        working = asyncio.create_task(work)
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        for task in (working, stopping):
            task.cancel()
        await asyncio.wait([working, stopping])
        if not working.cancelled():
            working.result()

    async def _settle(self, beside: list[asyncio.Task[None]]) -> None:
        """What is open has a little time to end; then it is given up, and what it changed is recorded as unknown."""
        open_tasks = self._open[True] | self._open[False]
        if open_tasks:
            await asyncio.wait(open_tasks, timeout=self._settings.grace_s)
        for task in (*open_tasks, *beside):
            task.cancel()
        if open_tasks or beside:
            await asyncio.wait([*open_tasks, *beside])

    async def _tick(self, recorder: Recorder) -> None:
        while True:
            await asyncio.sleep(PROGRESS_S)
            self._progress("running", recorder)

    def _progress(self, what: str, recorder: Recorder) -> None:
        names = ("acknowledged", "failed", "unknown", "read", "stale", "unread")
        counts = {name: recorder.counts[name] for name in names}
        under_way = {"open": sum(map(len, self._open.values())), "left_out": self._left_out}
        say({"load": what, "region": self._settings.region, "at_us": now_us(), **counts, **under_way})

    async def _watch(self, path: Path) -> None:
        await appears(path)
        self._stop.set()
