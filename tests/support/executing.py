"""Executors in this process, for tests that look at what a run came to; those that are to be killed are in ``executors``."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from isoline_client import Client, Event, NewEvent, Run
from isoline_client.execution import Effect
from isoline_client.executor import serving
from isoline_client.executor.service import Executor
from isoline_client.executor.settings import Settings
from support.waiting import eventually

SHOP = "flows.shop"


class Floor:
    """Runs workflows against one server. Executors are made once for each set of modules, with their replay worker."""

    def __init__(self, client: Client, region: str, stack: AsyncExitStack) -> None:
        self.client = client
        self.region = region
        self._stack = stack
        self._executors: dict[tuple[str, frozenset[str]], Executor] = {}

    async def work(self, modules: str = SHOP, *, also_side_effects: frozenset[str] = frozenset()) -> None:
        """Execute until nothing is runnable."""
        at = (modules, also_side_effects)
        if at not in self._executors:
            settings = Settings(
                owner="tests", region=self.region, until="idle", poll_ms=20, also_side_effects=also_side_effects
            )
            made = serving.executor(self.client, modules, settings)
            self._executors[at] = await self._stack.enter_async_context(made)
        async with asyncio.timeout(60):
            await self._executors[at].run()

    async def run(self, workflow_id: str, inputs: Mapping[str, Any] | None = None, modules: str = SHOP) -> Run:
        """A run, executed as far as it goes."""
        run = await self.client.start_run(workflow_id, inputs or {}, home_region=self.region)
        await self.work(modules)
        return run

    async def fork(
        self, run: Run, mode: Any = "replay", from_seq: int | None = None, modules: str = SHOP, **options: Any
    ) -> Run:
        """A fork, executed as far as it goes."""
        fork = await run.fork(from_seq, mode=mode, home_region=self.region, **options)
        await self.work(modules)
        return fork

    async def effects(self, run: Run) -> list[Effect]:
        return [effect async for effect in self.client.execution().list_effects(run.run_id)]


@asynccontextmanager
async def floor(address: str, region: str = "eu") -> AsyncIterator[Floor]:
    """A floor at a server."""
    async with AsyncExitStack() as stack, Client(address) as client:
        yield Floor(client, region, stack)


@asynccontextmanager
async def executing(eu: Floor, modules: str = SHOP) -> AsyncIterator[None]:
    """An executor in this process for as long as the block."""
    settings = Settings(owner="tests", region=eu.region, poll_ms=20)
    async with serving.executor(eu.client, modules, settings) as running:
        task = asyncio.create_task(running.run())
        try:
            yield
        finally:
            running.drain()
            await task


async def until(run: Run, kind: str, node_id: str = "") -> None:
    """Wait until the log holds such an event."""

    async def found() -> bool:
        return bool(await find(run, kind, node_id))

    await eventually(found, what=f"{kind} {node_id}")


async def log(run: Run) -> list[Event]:
    """Every event of a run."""
    return [event async for event in run.read()]


async def types(run: Run, *, without: tuple[str, ...] = ()) -> list[str]:
    """The types of a run's events, those about a node with its id."""
    said = [f"{event.type} {event.node_id}".strip() for event in await log(run)]
    return [each for each in said if each.split()[0] not in without]


async def find(run: Run, kind: str, node_id: str = "") -> list[Event]:
    """Events of a type, of a node if one is named."""
    return [event for event in await log(run) if event.type == kind and (not node_id or event.node_id == node_id)]


async def seq_of(run: Run, kind: str, node_id: str = "") -> int:
    """Where the first such event stands."""
    return (await find(run, kind, node_id))[0].seq


async def say(run: Run, kind: str, payload: Mapping[str, Any] | None = None, *, node_id: str = "") -> None:
    """Append an event from outside."""
    await run.append(NewEvent(kind, payload or {}, node_id=node_id))


async def answer(run: Run, node_id: str, value: Any, **members: Any) -> None:
    """Resolve the interrupt that a node waits for."""
    asked = (await find(run, "interrupt.requested", node_id))[-1].payload
    payload = {"nodeId": node_id, "interruptId": asked["interruptId"], "resumeValue": value, **members}
    await say(run, "interrupt.resolved", payload, node_id=node_id)
