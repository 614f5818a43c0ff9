"""What the demo does, in order: append, read everywhere while others append, fork everywhere, kill a server, execute and re-execute a
workflow (``reexecution``), read everything back.

A region is always asked through a client that knows that region's server alone, so that an answer is that region's. Nothing is judged
here: ``findings`` does that.
"""

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Final

from isoline_client.cli.demo.findings import Findings, Forked, Killed, Reading, StateReading
from isoline_client.cli.demo.history import History
from isoline_client.cli.demo.ledger import Ledger, Logs, key_of
from isoline_client.cli.demo.purchase import WORKFLOW_ID, buy_supplies
from isoline_client.cli.demo.reexecution import Reexecution
from isoline_client.cli.demo.shop import open_shop
from isoline_client.cli.demo.up import Cluster
from isoline_client.cli.failures import CommandError, Exit
from isoline_client.client import Client
from isoline_client.errors import IsolineError
from isoline_client.events import NewEvent
from isoline_client.run import Run
from isoline_client.values import ForkMode, Source
from isoline_client.verify import CHAIN_START, Position

Say = Callable[[str], None]

LOCAL_S: Final = 20.0
"""How long a standby is given to have a prefix before the leader's answer is taken."""
BACK_S: Final = 90.0
"""How long a killed server is given to be back. Two seconds on an idle machine."""
NOTES_EACH_SIDE: Final = 40
"""Acknowledgements to the writer before the kill, and at least as many behind it."""
NOTES_AT_THE_END: Final = 10

_NOTE_TYPE: Final = "example.demo-noted"
_MODES: Final[tuple[ForkMode, ...]] = ("branch", "replay")
_CHUNK_EVENTS: Final = 200
_CHUNK_BYTES: Final = 1024 * 1024
_PAUSE_S: Final = 0.01
_POLL_S: Final = 0.05
_KNOCK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class _Source:
    """A run whose history has been appended: the prefix that everything is about."""

    run_id: str
    last: Position


async def prove(cluster: Cluster, histories: Sequence[History], say: Say) -> Findings:
    """Do everything, over the given histories or over one that is made now."""
    async with AsyncExitStack() as stack:
        clients = {
            region: await stack.enter_async_context(Client(address)) for region, address in cluster.addresses.items()
        }
        for region, client in clients.items():
            answering = (await client.region_status()).region
            if answering != region:
                raise CommandError(f"the server of {region} says that it is {answering}'s", Exit.NEGATIVE)
        return await _Proof(cluster, clients, say).all(histories)


class _Proof:
    def __init__(self, cluster: Cluster, clients: dict[str, Client], say: Say) -> None:
        self._cluster = cluster
        self._clients = clients
        self._say = say
        self._ledger = Ledger()
        self._leading = cluster.regions[0]

    async def all(self, histories: Sequence[History]) -> Findings:
        sources = [await self._append(each) for each in histories] or [await self._make_history()]
        busy = sources[0].run_id
        async with self._noting(self._clients[self._leading].run(busy), self._leading, _PAUSE_S):
            self._say(f"reading {_counted(sources)} through {_listed(self._clients)} while {self._leading} appends")
            prefix = [reading for each in sources for reading in await self._read_everywhere(each)]
            states = [state for each in sources for state in await self._states(each)]
            forks = [fork for each in sources for fork in await self._fork_everywhere(each)]
            killed = await self._kill_and_go_on(busy)
        with open_shop() as open_:
            effects = await Reexecution(self._clients, self._leading, open_, self._say).all()
        self._say("reading everything back")
        log, logs = await self._read_back([each.run_id for each in sources])
        return Findings(
            regions=self._cluster.regions,
            runs=[each.run_id for each in sources],
            appended={each.run_id: each.last for each in sources},
            prefix=prefix,
            states=states,
            forks=forks,
            effects=effects,
            killed=killed,
            log=log,
            account=self._ledger.account(logs),
            repeated=self._ledger.repeated,
        )

    # -- a: histories ------------------------------------------------------------------------------------------------------------

    async def _append(self, history: History) -> _Source:
        run = await self._clients[self._leading].create_run(_workflow_id(history.name), tags=["demo"])
        self._say(f"appending {len(history.events)} events of {history.name} through {self._leading} to {run.run_id}")
        last = Position(-1, CHAIN_START)
        for chunk in _chunks(history.events):
            last = (await self._ledger.append(run, chunk)).last
        return _Source(run.run_id, last)

    async def _make_history(self) -> _Source:
        run = await self._clients[self._leading].create_run(WORKFLOW_ID, tags=["demo"])
        self._say(f"running a purchase with tool calls over HTTP, told to {run.run_id}")
        last = Position(-1, CHAIN_START)

        async def tell(event: NewEvent) -> None:
            nonlocal last
            last = (await self._ledger.append(run, [event])).last

        with open_shop() as open_:
            await buy_supplies(open_.url, tell)
        return _Source(run.run_id, last)

    @asynccontextmanager
    async def _noting(self, run: Run, writer: str, pause_s: float = 0.0) -> AsyncIterator[list[float]]:
        """Have a writer append notes, one after the other, as long as the block. The list holds when each was acknowledged."""
        told_at: list[float] = []
        stop = asyncio.Event()

        async def write() -> None:
            for number in count(1):
                if stop.is_set():
                    return
                await self._note(run, writer, number)
                told_at.append(time.monotonic())
                await asyncio.sleep(pause_s)

        task = asyncio.create_task(write())
        try:
            yield told_at
        finally:
            stop.set()
            await task

    async def _note(self, run: Run, writer: str, number: int) -> None:
        await self._ledger.append(run, [NewEvent(_NOTE_TYPE, {"writer": writer, "number": number})])

    # -- b: the same prefix everywhere -------------------------------------------------------------------------------------------

    async def _read_everywhere(self, source: _Source) -> list[Reading]:
        return [await self._read_locally(region, source.run_id, source.last.seq + 1) for region in self._clients]

    async def _read_locally(self, region: str, run_id: str, until_seq: int) -> Reading:
        """Read through a region, again until its own replica has it all or the time is up."""
        deadline = time.monotonic() + LOCAL_S
        while True:
            reading = await self._read(region, run_id, until_seq)
            if reading.source == "local" or time.monotonic() > deadline:
                return reading
            await asyncio.sleep(_POLL_S)

    async def _read(self, region: str, run_id: str, until_seq: int) -> Reading:
        started_s = time.monotonic()
        last, sources = Position(-1, CHAIN_START), set[Source]()
        async with aclosing(self._clients[region].run(run_id).read_pages(0, until_seq)) as pages:
            async for page in pages:
                last = page.last  # the client has recomputed the chain up to here, or raised
                sources.add(page.source)
        return Reading(
            run_id=run_id,
            region=region,
            last=last,
            source="local" if sources <= {"local"} else "leader" if "leader" in sources else "stale",
            took_s=time.monotonic() - started_s,
        )

    async def _states(self, source: _Source) -> list[StateReading]:
        states = []
        for region, client in self._clients.items():
            state = await client.run(source.run_id).state(source.last.seq + 1)
            states.append(
                StateReading(
                    run_id=source.run_id,
                    region=region,
                    at_seq=state.at_seq,
                    digest=state.digest,
                    source=state.source,
                )
            )
        return states

    # -- c: forks ----------------------------------------------------------------------------------------------------------------

    async def _fork_everywhere(self, source: _Source) -> list[Forked]:
        from_seq = max(1, (source.last.seq + 1) // 2)
        self._say(f"forking {source.run_id} at {from_seq} in {_listed(self._clients)}")
        boundary = await self._position(source.run_id, from_seq - 1)
        return [await self._fork(source.run_id, region, mode, boundary) for region in self._clients for mode in _MODES]

    async def _position(self, run_id: str, seq: int) -> Position:
        """The position of an event, recomputed from the run's first event on."""
        return (await self._read(self._leading, run_id, seq + 1)).last

    async def _fork(self, run_id: str, region: str, mode: ForkMode, boundary: Position) -> Forked:
        until_seq = boundary.seq + 1
        fork = await self._clients[region].run(run_id).fork(until_seq, mode=mode, home_region=region)
        assert fork.made is not None
        return Forked(
            run_id=fork.run_id,
            source_run_id=run_id,
            region=region,
            mode=mode,
            expected=boundary,
            promised=b"" if fork.made.fork is None else fork.made.fork.prefix_digest,
            readings=[await self._read(reader, fork.run_id, until_seq) for reader in self._clients],
        )

    # -- d: a killed server ------------------------------------------------------------------------------------------------------

    async def _kill_and_go_on(self, run_id: str) -> Killed:
        """Kill a region's server with a writer on it that knows the other regions too; wait until it is back; write through it again."""
        victim = self._cluster.regions[min(1, len(self._clients) - 1)]
        addresses = [self._cluster.addresses[victim], *(a for r, a in self._cluster.addresses.items() if r != victim)]
        async with Client(addresses) as client, self._noting(client.run(run_id), f"{victim}-writer") as told_at:
            await _until(lambda: len(told_at) >= NOTES_EACH_SIDE, "the writer did not get on", BACK_S)
            pid, killed_s, before = self._cluster.pid_of(victim), time.monotonic(), len(told_at)
            os.kill(pid, signal.SIGKILL)
            self._say(f"killed the server of {victim} (pid {pid}) with a writer on it; waiting until it is back")
            await self._until_back(victim, pid)
            back_s = time.monotonic()
            await _until(lambda: len(told_at) >= before + NOTES_EACH_SIDE, "the writer did not go on", BACK_S)
        for number in range(1, NOTES_AT_THE_END + 1):
            await self._note(self._clients[victim].run(run_id), f"{victim}-again", number)
        away = sum(killed_s < each <= back_s for each in told_at)
        return Killed(
            region=victim,
            pid=pid,
            pid_after=self._cluster.pid_of(victim),
            acknowledged_before=before,
            acknowledged_while_away=away,
            acknowledged_after=len(told_at) - before - away + NOTES_AT_THE_END,
            away_s=back_s - killed_s,
        )

    async def _until_back(self, region: str, pid_before: int) -> None:
        deadline = time.monotonic() + BACK_S
        async with Client(self._cluster.addresses[region]) as client:
            while self._cluster.pid_of(region) == pid_before or not await _answers(client):
                if time.monotonic() > deadline:
                    raise CommandError(f"the server of {region} did not come back within {BACK_S:.0f} s", Exit.NEGATIVE)
                await asyncio.sleep(_POLL_S)

    # -- the account -------------------------------------------------------------------------------------------------------------

    async def _read_back(self, run_ids: Sequence[str]) -> tuple[list[Reading], Logs]:
        """Every log as a whole: its events through the leading region, its digest through all."""
        readings: list[Reading] = []
        logs: dict[str, list[tuple[int, bytes]]] = {}
        for run_id in run_ids:
            run = self._clients[self._leading].run(run_id)
            async with aclosing(run.read()) as events:
                logs[run_id] = [(event.seq, key_of(event)) async for event in events]
            readings += [await self._read_locally(region, run_id, len(logs[run_id])) for region in self._clients]
        return readings, logs


async def _answers(client: Client) -> bool:
    try:
        async with asyncio.timeout(_KNOCK_S):
            await client.region_status()
    except (IsolineError, TimeoutError):
        return False
    return True


async def _until(condition: Callable[[], bool], otherwise: str, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise CommandError(f"{otherwise} within {within_s:.0f} s", Exit.NEGATIVE)
        await asyncio.sleep(_POLL_S)


def _chunks(events: Sequence[NewEvent]) -> list[list[NewEvent]]:
    """The events in appends of a bearable size."""
    chunks: list[list[NewEvent]] = []
    size = 0
    for event in events:
        size += len(event.payload_bytes)
        if not chunks or len(chunks[-1]) == _CHUNK_EVENTS or size > _CHUNK_BYTES:
            chunks.append([])
            size = len(event.payload_bytes)
        chunks[-1].append(event)
    return chunks


def _workflow_id(name: str) -> str:
    return "example." + re.sub(r"[^A-Za-z0-9._~:-]", "-", name)[:100]


def _listed(regions: dict[str, Client]) -> str:
    return ", ".join(regions)


def _counted(sources: Sequence[_Source]) -> str:
    return f"{sum(each.last.seq + 1 for each in sources)} events of {len(sources)} run{'s' * (len(sources) > 1)}"
