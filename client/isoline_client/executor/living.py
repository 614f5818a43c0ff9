"""Nodes of a live run, or of a branch: run here, under the guard, with effects that leave once.

While a node takes its time a tail of the run goes along, so that somebody's word (cancel, or an immediate pause) cuts it off. A request of its
that is outbound is always waited for, for cutting it off would leave nobody knowing what became of it.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from isoline_client.client import Client
from isoline_client.errors import IsolineError
from isoline_client.execution import ExecutionClient
from isoline_client.executor.effects import draws_of
from isoline_client.executor.host import LiveHost, Standing, remaining_ms
from isoline_client.executor.leases import Held
from isoline_client.executor.overlay import OverlayInvalid, first_events, is_recorded, read_overlay
from isoline_client.executor.rest import Overtaken, Rest
from isoline_client.executor.settings import WATCH_AFTER_S
from isoline_client.executor.story import Story
from isoline_client.guard.guarded import live_policy, run_guarded
from isoline_client.values import RunInfo
from isoline_client.workflow.actions import Fail, StartNode
from isoline_client.workflow.definition import Workflow
from isoline_client.workflow.events import CANCEL_REQUESTED, TIMED_OUT, action_events, start_events, terminal_events
from isoline_client.workflow.results import Draw, DrawAt, Failure, InDoubt, NodeResult, Parked

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Living:
    """Executes the nodes of the run ``info``, which is ``held``."""

    client: Client
    ledger: ExecutionClient
    workflow: Workflow
    info: RunInfo
    held: Held

    async def begin(self, story: Story) -> Rest | None:
        """Record a branch's overlay at the start of its own part of the log."""
        fork = self.info.fork
        if fork is None or is_recorded(story.own):
            return None
        try:
            overlay = read_overlay(fork.overlay)
        except OverlayInvalid as error:
            failure = Failure(code="validation_error", message=str(error), retryable=False)
            await story.put(action_events(Fail(error=failure)))
            return None
        started = await self._started_of(fork.source_run_id) if fork.from_seq == 0 else None
        await story.put(first_events(overlay, started))
        return None

    async def execute(self, story: Story, start: StartNode, *, resumed: bool) -> Rest | None:
        """Run a node and record what it came to."""
        left_ms = self._left_ms(story)
        if left_ms == 0:
            await story.put(action_events(TIMED_OUT))
            return None
        begun_before = story.diary.visits.get(start.node_id) == start.visit
        if not resumed:
            wait_ms = self._backoff_ms(story, start)
            if wait_ms:
                return Rest(why="backing off", wake_in_ms=_sooner(wait_ms, left_ms))
            await story.put(start_events(start))
        host = await self._host(story, start, begun_before=begun_before)
        result = await self._run(story, start, host, left_ms)
        await host.effects.settle()
        if host.broken is not None:
            raise host.broken
        if host.effects.in_doubt or isinstance(result.outcome, InDoubt):
            return Rest(why="an effect is in doubt")
        if isinstance(result.outcome, Parked):
            return Rest(why="parked", wake_in_ms=_sooner(result.outcome.wake_in_ms, left_ms))
        await story.put(terminal_events(start, result))
        return None

    async def await_interrupt(self, story: Story, node_id: str) -> Rest | None:
        """Whoever answers wakes the run."""
        left_ms = self._left_ms(story)
        if left_ms == 0:
            await story.put(action_events(TIMED_OUT))
            return None
        return Rest(why=f"waiting for an answer to {node_id}", wake_in_ms=left_ms)

    def _left_ms(self, story: Story) -> int | None:
        """What is left of the run's time; None: it has no bound."""
        timeout_ms, since = self.workflow.settings.timeout_ms, story.diary.run_started_at
        return None if not timeout_ms or since is None else remaining_ms(since, timeout_ms)

    def _backoff_ms(self, story: Story, start: StartNode) -> int:
        retried_at = story.diary.retried_at.get(start.node_id)
        return 0 if retried_at is None or not start.attempt else remaining_ms(retried_at, start.delay_ms)

    async def _host(self, story: Story, start: StartNode, *, begun_before: bool) -> LiveHost:
        standing = Standing(
            started_at=story.diary.started_at.get(start.node_id),
            begun_before=begun_before,
            resolution=partial(story.progress.resolution, start.node_id, start.visit),
            is_requested=partial(story.progress.is_requested, start.node_id, start.visit),
            drawn=await self._drawn(story, start) if begun_before else {},
        )
        return LiveHost(
            client=self.client,
            ledger=self.ledger,
            held=self.held,
            home_region=self.info.home_region,
            start=start,
            sources=self.workflow.settings.sources,
            standing=standing,
            durable=story.journal.flush,
        )

    async def _drawn(self, story: Story, start: StartNode) -> Mapping[DrawAt, Draw]:
        """What this visit drew before it was suspended, and before it claimed its effects."""
        execution = story.progress.open.get(start.node_id)
        suspended = {at: Draw(at=at, value=value) for at, value in execution.draws.items()} if execution else {}
        found = self.ledger.list_effects(self.info.run_id, node_id=start.node_id, page_size=1000)
        async with aclosing(found) as effects:
            return suspended | draws_of([effect async for effect in effects if effect.visit == start.visit])

    async def _run(self, story: Story, start: StartNode, host: LiveHost, left_ms: int | None) -> NodeResult:
        policy = live_policy(self.workflow.node_type(start.node_id).role)
        running = asyncio.create_task(run_guarded(policy, self.workflow, start, story.parts(), host))
        watching: asyncio.Task[None] | None = None
        try:
            await asyncio.wait({running}, timeout=WATCH_AFTER_S)
            if running.done():
                return running.result()
            watching = asyncio.create_task(self._struck(story))
            await asyncio.wait(
                {running, watching},
                timeout=None if left_ms is None else left_ms / 1000,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if running.done():
                return running.result()
            _log.info("cut off", extra={"run": self.info.run_id, "node": start.node_id})
            raise Overtaken
        finally:
            await _end(running, watching)
            if not running.cancelled():
                running.exception()  # it ended while it was cut off
            if asyncio.current_task().cancelling() == 0:  # type: ignore[union-attr]  # a coroutine runs in a task
                await host.effects.settle()

    async def _struck(self, story: Story) -> None:
        """Return when somebody wants the node cut off."""
        while True:
            try:
                await story.journal.flush()
            except IsolineError:
                return  # what it was begun on did not come to be
            try:
                async with aclosing(self.client.run(self.info.run_id).tail(story.journal.next_seq)) as events:
                    async for event in events:
                        immediate = event.type == "run.paused" and event.payload.get("drainPolicy") == "immediate"
                        if immediate or event.type == CANCEL_REQUESTED:
                            return
            except IsolineError as error:
                _log.warning("the run cannot be watched", extra={"run": self.info.run_id, "error": str(error)})
                await asyncio.sleep(1)

    async def _started_of(self, source_run_id: str) -> dict[str, Any]:
        events = [event async for event in self.client.run(source_run_id).read(0, 1)]
        return events[0].payload


def _sooner(wait_ms: int, left_ms: int | None) -> int:
    return wait_ms if left_ms is None else min(wait_ms, left_ms)


async def _end(*tasks: "asyncio.Task[Any] | None") -> None:
    ending = [task for task in tasks if task is not None]
    for task in ending:
        task.cancel()
    await asyncio.wait(ending)
