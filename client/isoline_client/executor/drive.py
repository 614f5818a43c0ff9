"""One run: read its log, ask the plan what comes next, do it, write it down, until the run ends, waits, or the executor wants to stop.

What others append meanwhile shows as a refused append: the log is read again and the plan is made anew. How a node is executed differs in a
live run (``living``) and in a replay (``replaying``); nothing else does.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from isoline_client.client import Client
from isoline_client.errors import ReplayDivergedAtRefusal, RequestIdReused, RunTerminal, SeqConflict
from isoline_client.events import NewEvent
from isoline_client.execution import ExecutionClient
from isoline_client.executor.leases import Held
from isoline_client.executor.living import Living
from isoline_client.executor.replaying import Replaying
from isoline_client.executor.rest import Overtaken, Rest
from isoline_client.executor.service import Failures
from isoline_client.executor.settings import FAILURES_MAX
from isoline_client.executor.story import Story, read_story
from isoline_client.guard.worker import WorkerPool
from isoline_client.run import Run
from isoline_client.values import Appended, RunInfo
from isoline_client.workflow.actions import Ended, NotStarted, Paused, ResumeNode, StartNode, WaitForInterrupt
from isoline_client.workflow.definition import Workflow
from isoline_client.workflow.events import action_events
from isoline_client.workflow.running import MESSAGE_CHARS_MAX

_log: Final = logging.getLogger(__name__)


class Executing(Protocol):
    """How a run's nodes are executed."""

    async def begin(self, story: Story) -> Rest | None:
        """What comes before the plan's first step, if it is not in the log yet."""
        ...

    async def execute(self, story: Story, start: StartNode, *, resumed: bool) -> Rest | None:
        """One execution, with all that it writes. A rest, when it cannot end now."""
        ...

    async def await_interrupt(self, story: Story, node_id: str) -> Rest | None:
        """The node waits for an answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Drives the runs of an executor, one call a run."""

    client: Client
    ledger: ExecutionClient
    workflows: Mapping[str, Workflow]
    workers: WorkerPool
    also_side_effects: frozenset[str] = frozenset()

    async def drive(self, held: Held, draining: asyncio.Event, failures: Failures) -> Rest:
        """Drive one run for as long as something is to be done in it."""
        run = self.client.run(held.run_id)
        info = await run.info()
        if failures.times >= FAILURES_MAX:
            return await _give_up(run, held, info, failures.last)
        executing = await self._executing(held, info)
        while True:
            try:
                return await self._drive(run, held, info, executing, draining)
            except (SeqConflict, RequestIdReused, Overtaken):
                _log.info("the log went on", extra={"run": held.run_id})

    async def _executing(self, held: Held, info: RunInfo) -> Executing:
        workflow = self.workflows[held.workflow_id]
        if info.fork is not None and info.fork.mode == "replay":
            return await Replaying.of(
                self.client, self.ledger, self.workers, workflow, info, also_side_effects=self.also_side_effects
            )
        return Living(client=self.client, ledger=self.ledger, workflow=workflow, info=info, held=held)

    async def _drive(self, run: Run, held: Held, info: RunInfo, executing: Executing, draining: asyncio.Event) -> Rest:
        async def send(events: Sequence[NewEvent], seq: int, request_id: str) -> Appended:
            return await run.append(events, expected_seq=seq, request_id=request_id, lease_epoch=held.epoch)

        story = await read_story(self.workflows[held.workflow_id], run, info, send)
        try:
            rest = await executing.begin(story) or await _walk(story, executing, draining)
            await story.journal.flush()
        except RunTerminal:
            rest = Rest(why="ended")
        except ReplayDivergedAtRefusal:
            rest = Rest(why="ended where only one of replay and source has a refusal")
        finally:
            await story.journal.close()
        return replace(rest, seen_head_seq=story.journal.next_seq - 1)


async def _walk(story: Story, executing: Executing, draining: asyncio.Event) -> Rest:
    """Go on, step by step."""
    while not draining.is_set():
        rest: Rest | None = None
        match story.next():
            case StartNode() as start:
                rest = await executing.execute(story, start, resumed=False)
            case ResumeNode(start=start):
                rest = await executing.execute(story, start, resumed=True)
            case WaitForInterrupt(node_ids=node_ids):
                rest = await executing.await_interrupt(story, node_ids[0])
            case Paused():
                rest = Rest(why="paused")
            case NotStarted():
                rest = Rest(why="not started")
            case Ended():
                rest = Rest(why="ended")
            case action:
                await story.put(action_events(action))
        if rest is not None:
            return rest
    return Rest(why="drained", wake_in_ms=0)


async def _give_up(run: Run, held: Held, info: RunInfo, why: str) -> Rest:
    """End a run that cannot be driven, so that somebody sees it."""
    error = {
        "code": "isoline.executor_failed",
        "message": f"the run could not be driven, {FAILURES_MAX} times in a row: {why}"[:MESSAGE_CHARS_MAX],
        "retryable": False,
    }
    if info.terminal_seq is None:
        event = NewEvent("run.failed", {"error": error})
        appended = await run.append(event, expected_seq=info.head.seq + 1, lease_epoch=held.epoch)
        return Rest(why="given up", seen_head_seq=appended.last.seq)
    return Rest(why="ended", seen_head_seq=info.head.seq)
