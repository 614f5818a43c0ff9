"""The world a history happens in: a primary and two standbys, a server in each of three regions, and the ways to disturb them.

``eu`` and ``us`` are served in this process, on an event loop in a thread of its own, so that they live on between the steps of a history.
``ap`` is served by a real process, which can be killed. ``us`` and ``ap`` read from their standbys. No assertions about histories here.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import TimeoutError as NeverDone
from contextlib import ExitStack
from typing import Any, Final, Self, TypeVar

from isoline_client import Client
from isoline_server.bootstrap import RegionServer
from isoline_server.config import Settings
from isoline_server.embedded import EmbeddedCluster
from support.databases import TEMPLATE
from support.servers import ServerProcess, free_port, start_region

T = TypeVar("T")

REGIONS: Final = ("eu", "us", "ap")
STANDBYS: Final = ("us", "ap")
PATIENCE_S: Final = 20.0
"""What one call may take where nothing forces it to be hasty."""
STEP_S: Final = 150.0
"""What one step of a history may take, outages included."""


class LoopThread:
    """An event loop that runs in a thread until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="property-loop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = STEP_S) -> T:
        """Do ``work`` on the loop and wait for it."""
        under_way = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return under_way.result(timeout_s)
        except NeverDone:
            under_way.cancel()
            raise

    def close(self) -> None:
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()


class World:
    """Three regions over one database of ``cluster``. Made once; every history makes runs of its own."""

    def __init__(self, cluster: EmbeddedCluster, database: str) -> None:
        self.cluster = cluster
        self.database = database
        self.lagging: set[str] = set()
        """Standbys whose replay is paused."""
        cluster.create_database(database, template=TEMPLATE)
        for name in STANDBYS:
            cluster.wait_caught_up(name)
        url = cluster.primary.url(database=database)
        local_urls: dict[str, str | None] = {name: cluster.standby(name).url(database=database) for name in STANDBYS}
        local_urls["eu"] = url
        self._settings = _settings(url, local_urls)
        self._servers: dict[str, RegionServer] = {}
        self._process = ServerProcess(url, local_urls, "ap", extra='drain_grace_s = 1.0\nleader_region = "eu"')
        self._loop = LoopThread()
        self._clients: dict[str, Client] = {}

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self.close)
            self._loop.run(self._open())
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out one step of a history."""
        return self._loop.run(work)

    def client(self, region: str) -> Client:
        """A client of this region's server only. It believes what it is told: the model is the judge, and nothing shall spare it a lie."""
        return self._clients[region]

    async def _open(self) -> None:
        starting = asyncio.create_task(asyncio.to_thread(self._process.start))
        for region in ("eu", "us"):
            self._servers[region] = await start_region(self._settings, region)
        await starting
        for region in REGIONS:
            address = self._process.address if region == "ap" else self._settings.regions[region].listen
            self._clients[region] = Client(address, timeout_s=PATIENCE_S, verify=False)

    def close(self) -> None:
        """Stop what runs and drop the database."""
        with ExitStack() as steps:
            steps.callback(self._process.close)
            steps.callback(self._loop.close)
            steps.callback(lambda: self._loop.run(self._close()))
        self.heal_databases()
        self.cluster.drop_database(self.database)

    async def _close(self) -> None:
        for client in self._clients.values():
            await client.close()
        for region in list(self._servers):
            await self._servers.pop(region).stop()

    # -- disturbances: each begins with everything up and ends so ----------------------------------------------------------------------

    async def restart_server(self, region: str, meanwhile: Callable[[], Awaitable[None]]) -> None:
        """Drain a region's server, and start it again at the same address."""
        if region == "ap":
            await self._restart_process(self._process.terminate, meanwhile)
            return
        await self._servers.pop(region).stop()
        await meanwhile()
        self._servers[region] = await start_region(self._settings, region)

    async def kill_server(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        """SIGKILL the server of ``ap``, and start it again."""
        await self._restart_process(self._process.kill, meanwhile)

    async def _restart_process(self, end: Callable[[], Any], meanwhile: Callable[[], Awaitable[None]]) -> None:
        try:
            code = await asyncio.to_thread(end)
            assert code in (None, 0), f"the drained server ended with {code}"
            await meanwhile()
        finally:
            await asyncio.to_thread(self._process.start)

    async def restart_database(self, name: str, kill: bool, meanwhile: Callable[[], Awaitable[None]]) -> None:
        """End the primary or a standby, by SIGKILL or in order, and start it again.

        A standby that starts again does not lag. One whose replay is paused does not connect to a new primary before it goes on; were all
        of them paused, commits would wait for ever.
        """
        if kill:
            await asyncio.to_thread(self.cluster.kill, name)
        try:
            await meanwhile()
        finally:
            await asyncio.to_thread(self.cluster.restart, name)
            self.lagging.discard(name)
        if name == "primary":
            for lagging in sorted(self.lagging):
                await self.resume_replay(lagging)

    async def pause_replay(self, name: str) -> None:
        await asyncio.to_thread(self.cluster.pause_replay, name)
        self.lagging.add(name)

    async def resume_replay(self, name: str) -> None:
        await asyncio.to_thread(self.cluster.resume_replay, name)
        self.lagging.discard(name)

    async def catch_up(self) -> None:
        """Until every standby shows all that is committed."""
        for name in sorted(self.lagging):
            await self.resume_replay(name)
        for name in STANDBYS:
            await asyncio.to_thread(self.cluster.wait_caught_up, name)

    async def rows(self, sql: str) -> list[list[str]]:
        """Ask the primary itself, past every server."""
        text = await asyncio.to_thread(self.cluster.execute, "primary", sql, self.database)
        return [line.split("|") for line in text.splitlines()]

    # -- after a history that failed ---------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Start again whatever a failed history left down."""
        self.heal_databases()
        self._loop.run(self._heal_servers())

    def heal_databases(self) -> None:
        for name in ("primary", *STANDBYS):
            if not self.cluster.is_running(name):
                self.cluster.restart(name)
                self.lagging.discard(name)
        for name in sorted(self.lagging):
            self.cluster.resume_replay(name)
        self.lagging.clear()

    async def _heal_servers(self) -> None:
        for region in ("eu", "us"):
            if region not in self._servers:
                self._servers[region] = await start_region(self._settings, region)
        if self._process.process is None or self._process.process.poll() is not None:
            await asyncio.to_thread(self._process.start)


def _settings(leader_url: str, local_urls: dict[str, str | None]) -> Settings:
    """Servers in this process listen on ports that stay the same over restarts."""
    regions = {code: {"listen": f"127.0.0.1:{free_port()}", "local_url": local_urls[code]} for code in REGIONS}
    return Settings(leader_url=leader_url, leader_region="eu", regions=regions, log_level="error", drain_grace_s=1.0)
