"""The executor: claims runs of its region, drives a bounded number of them at once, keeps their leases, and stops in good order.

Recovery is this same loop: a run whose executor died is claimed by whoever comes next once its lease is up, and is driven on from its log.
What happens to one run is ``drive``; nothing here knows what a workflow is.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from isoline_client.errors import Busy, Damaged, IsolineError, LeaseLost
from isoline_client.execution import Claim, ExecutionClient
from isoline_client.executor.leases import Held, Leases
from isoline_client.executor.rest import Rest
from isoline_client.executor.settings import CLAIM_MAX, FAILURE_PAUSE_MS, Settings

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failures:
    """How often in a row a run could not be driven, and why the last time."""

    times: int = 0
    last: str = ""


Drive = Callable[[Held, asyncio.Event, Failures], Awaitable[Rest]]
"""Drives one run until it ends or waits. The event says that the executor wants to stop."""


class Executor:
    """Runs until it is drained, or as ``settings.until`` says."""

    def __init__(
        self, execution: ExecutionClient, settings: Settings, workflow_ids: Sequence[str], drive: Drive
    ) -> None:
        self._execution = execution
        self._settings = settings
        self._workflow_ids = tuple(workflow_ids)
        self._drive = drive
        self._leases = Leases(execution, ttl_ms=settings.lease_ttl_ms)
        self._driving: dict[asyncio.Task[None], Held] = {}
        self._failures: dict[str, Failures] = {}
        self._draining = asyncio.Event()
        self._changed = asyncio.Event()

    @property
    def draining(self) -> bool:
        """Whether it was asked to stop."""
        return self._draining.is_set()

    def cut_off(self) -> None:
        """Wait no longer for the nodes under way."""
        for task in self._driving:
            task.cancel()

    def drain(self) -> None:
        """Claim no more; let the nodes under way end, for as long as the grace lasts, and give every run back."""
        if not self._draining.is_set():
            _log.info("draining", extra={"runs": len(self._driving)})
        self._draining.set()
        self._changed.set()

    async def run(self) -> None:
        """Claim and drive."""
        heartbeat = asyncio.create_task(self._leases.keep())
        try:
            await self._claim_until_done()
            await self._let_end()
        finally:
            self.cut_off()
            await self._settle()
            heartbeat.cancel()
            await asyncio.wait([heartbeat])

    async def _claim_until_done(self) -> None:
        while not self._draining.is_set():
            self._changed.clear()
            free = min(self._settings.max_runs - len(self._driving), CLAIM_MAX)
            claim = await self._claim(free) if free else None
            if self._settings.until == "once" and claim is not None:
                await self._settle()
                return
            if claim is not None and not claim.leases and self._is_idle(claim):
                return
            if claim is None or not claim.leases:
                await self._pause(claim)

    async def _claim(self, free: int) -> Claim | None:
        """Claim and begin; None when no server answered, which it may do again soon."""
        asked_at = time.monotonic()
        try:
            claim = await self._execution.claim(
                self._workflow_ids,
                owner=self._settings.owner,
                region=self._settings.region,
                max_runs=free,
                lease_ttl_ms=self._settings.lease_ttl_ms,
            )
        except Busy as error:
            _log.warning("no server answers; trying on", extra={"error": str(error)})
            return None
        for lease in claim.leases:
            self._begin(self._leases.take(lease, asked_at))
        return claim

    def _is_idle(self, claim: Claim) -> bool:
        return self._settings.until == "idle" and not self._driving and claim.next_wake_at is None

    async def _pause(self, claim: Claim | None) -> None:
        """Until the next claim may bring something: a slot is free, a run's time has come, or a while has passed."""
        pause_s = self._settings.poll_ms / 1000 * random.uniform(0.75, 1.25)  # noqa: S311 - spreads executors, hides nothing
        until_s = claim.next_wake_at.timestamp() - time.time() if claim and claim.next_wake_at else 0.0
        if until_s > 0:  # what is due already is in other hands
            pause_s = min(pause_s, until_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._changed.wait()

    def _begin(self, held: Held) -> None:
        _log.info("claimed", extra={"run": held.run_id, "workflow": held.workflow_id, "epoch": held.epoch})
        task = asyncio.create_task(self._attend(held), name=f"drive {held.run_id}")
        self._driving[task] = held
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._driving[task]
        self._changed.set()

    async def _attend(self, held: Held) -> None:
        """Drive a run for as long as its lease is ours, then give it back."""
        driving = asyncio.ensure_future(self._drive(held, self._draining, self._failures.get(held.run_id, Failures())))
        losing = asyncio.create_task(held.lost.wait())
        cut_off = False
        try:
            await asyncio.wait((driving, losing), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            cut_off = True
        losing.cancel()
        driving.cancel()
        await asyncio.wait((driving, losing))
        rest = Rest(why="cut off", seen_head_seq=-1, wake_in_ms=0) if cut_off else self._rest_of(held, driving)
        await self._give_back(held, rest)

    def _rest_of(self, held: Held, driving: "asyncio.Future[Rest]") -> Rest | None:
        """How it went; None when the run is to be left to its lease's end."""
        if driving.cancelled():
            return None
        error = driving.exception()
        if error is None:
            self._failures.pop(held.run_id, None)
            return driving.result()
        if isinstance(error, LeaseLost):
            _log.warning("lease lost", extra={"run": held.run_id, "epoch": held.epoch, "error": str(error)})
            return None
        if isinstance(error, IsolineError) and not isinstance(error, Damaged):
            _log.warning("left", extra={"run": held.run_id, "error": str(error)})
            return None
        times = self._failures.get(held.run_id, Failures()).times + 1
        self._failures[held.run_id] = Failures(times, f"{type(error).__name__}: {error}")
        _log.error("driving failed", extra={"run": held.run_id, "times": times}, exc_info=error)
        return Rest(why="failed", seen_head_seq=-1, wake_in_ms=FAILURE_PAUSE_MS * 2 ** (times - 1))

    async def _give_back(self, held: Held, rest: Rest | None) -> None:
        if rest is None:
            self._leases.forget(held)
            return
        head = rest.seen_head_seq if rest.seen_head_seq >= 0 else _ANY_HEAD
        _log.info(rest.why, extra={"run": held.run_id, "head": rest.seen_head_seq, "wake_in_ms": rest.wake_in_ms})
        try:
            await self._leases.give_back(held, seen_head_seq=head, wake_in_ms=rest.wake_in_ms)
        except IsolineError as error:
            _log.warning("not given back", extra={"run": held.run_id, "error": str(error)})

    async def _let_end(self) -> None:
        """Wait for what is driven, at most for the grace, then cut it off."""
        if self._driving:
            await asyncio.wait(tuple(self._driving), timeout=self._settings.grace_s)
        for task, held in tuple(self._driving.items()):
            _log.warning("cut off", extra={"run": held.run_id})
            task.cancel()
        await self._settle()

    async def _settle(self) -> None:
        while self._driving:
            await asyncio.wait(tuple(self._driving))


_ANY_HEAD: Final = 2**53 - 1
"""A head that no log has: the run is woken by its time alone."""
