"""``isoline up``: one process that runs everything else, from the database to the last server, until it is told to stop.

Lives. Servers and databases end with this process even when it is killed: each has asked the kernel for it (``leash``, ``embedded``). All
server processes are forked by the main thread, because the kernel means the thread that forked when it says parent. A server or database
that dies by itself is started again where it was. SIGTERM, SIGINT, SIGHUP: the servers drain, then PostgreSQL stops, then the folder is free.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from isoline_server.domain.ids import Region
from isoline_server.embedded import EmbeddedCluster, EmbeddedPostgresError
from isoline_server.local_cluster import plan
from isoline_server.local_cluster.record import ClusterRecord, ServerRecord, remove_record, write_record
from isoline_server.local_cluster.region_process import RegionProcess

_DATABASE_POLL_S: Final = 1.0
_DATABASE_BACKOFF_MAX_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What was asked for. ``data_dir`` None: the system's folder for temporary files. ``regions`` None: as last time."""

    data_dir: Path | None
    regions: str | None = None
    ephemeral: bool = False
    workflows: str = ""
    """Modules whose workflows an executor beside each server runs; empty: no executors."""


def run_cluster(order: Order, *, on_ready: Callable[[ClusterRecord], None]) -> None:
    """Run a cluster until SIGTERM or SIGINT, then stop it. Progress is said on stderr."""
    report = Report()
    stored = {} if order.ephemeral or order.data_dir is None else plan.stored_config(order.data_dir)
    regions = plan.choose_regions(order.regions, stored)
    database = EmbeddedCluster(
        order.data_dir,
        standbys=regions[1:],
        durable=not order.ephemeral,  # nobody wants a temporary folder back after a power cut
        ephemeral=order.ephemeral,
        on_progress=report,
    )
    with _stop_request() as stop, contextlib.suppress(_Stopped), database:
        data_dir = _folder_of(database)
        report.also_to(data_dir / "logs" / "up.log")
        remove_record(data_dir)
        addresses = plan.choose_addresses(regions, stored)
        config = plan.write_config(data_dir, database, addresses)
        _migrate(database, regions[1:], report)
        supervisor = Supervisor(
            database, addresses, config=config, data_dir=data_dir, report=report, workflows=order.workflows
        )
        try:
            asyncio.run(supervisor.run(stop, on_ready))
        finally:
            remove_record(data_dir)
            report("stopping PostgreSQL")


class Supervisor:
    """Keeps the servers and the databases running."""

    def __init__(
        self,
        database: EmbeddedCluster,
        addresses: Mapping[Region, str],
        *,
        config: Path,
        data_dir: Path,
        report: Callable[[str], None],
        workflows: str = "",
    ) -> None:
        self._database = database
        self._config = config
        self._data_dir = data_dir
        self._report = report
        self._ready = False
        environment, parent = {**plan.server_environment(), "TMPDIR": str(_temporary(data_dir))}, os.getpid()
        self._servers = [
            RegionProcess(
                region=region,
                address=address,
                config=config,
                workflows=workflows,
                log=data_dir / "logs" / f"server-{region}.log",
                parent=parent,
                environment=environment,
                on_launch=self._pid_changed,
                report=report,
            )
            for region, address in addresses.items()
        ]

    async def run(self, stop: "_StopRequest", on_ready: Callable[[ClusterRecord], None]) -> None:
        """Start the servers, keep everything running, and stop the servers when asked to."""
        loop, work = asyncio.get_running_loop(), asyncio.create_task(self._work(on_ready))
        stop.call(lambda: loop.call_soon_threadsafe(work.cancel))
        try:
            await work
        except asyncio.CancelledError:
            self._report("draining the servers")
        finally:
            stop.call(_nothing_more)
            await asyncio.gather(*(server.stop() for server in self._servers))

    async def _work(self, on_ready: Callable[[ClusterRecord], None]) -> None:
        self._report(f"starting the servers of {', '.join(server.region for server in self._servers)}")
        async with _unwrapped(), asyncio.TaskGroup() as starting:
            for server in self._servers:
                starting.create_task(server.start())
        self._ready = True
        self._pid_changed()
        on_ready(self._record())
        async with _unwrapped(), asyncio.TaskGroup() as keeping:
            for server in self._servers:
                keeping.create_task(server.keep())
            keeping.create_task(self._keep_database())

    async def _keep_database(self) -> None:
        backoff_s = _DATABASE_POLL_S
        while True:
            await asyncio.sleep(backoff_s)
            try:
                for name in (endpoint.name for endpoint in self._database.endpoints):
                    if not self._database.is_running(name):
                        self._report(f"{name}: PostgreSQL ended; starting it again")
                        await asyncio.to_thread(self._database.restart, name)
                        self._report(f"{name}: PostgreSQL is back")
            except EmbeddedPostgresError as error:
                backoff_s = min(2 * backoff_s, _DATABASE_BACKOFF_MAX_S)
                self._report(str(error))
            else:
                backoff_s = _DATABASE_POLL_S

    def _pid_changed(self) -> None:
        if self._ready:
            write_record(self._record())

    def _record(self) -> ClusterRecord:
        return ClusterRecord(
            pid=os.getpid(),
            regions={each.region: ServerRecord(address=each.address, pid=each.pid) for each in self._servers},
            config=self._config,
            data_dir=self._data_dir,
        )


def _temporary(data_dir: Path) -> Path:
    """A folder for what servers and executors put aside: inside ours, so that what a killed one leaves goes with it or at the next start."""
    folder = data_dir / "tmp"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def _folder_of(database: EmbeddedCluster) -> Path:
    """The data folder; PostgreSQL is asked, because only it knows the name of a temporary one."""
    return Path(database.execute("primary", "show data_directory")).parent.parent


def _migrate(database: EmbeddedCluster, standbys: tuple[Region, ...], report: Callable[[str], None]) -> None:
    """Bring the schema up to date, and wait until the standbys show it: a server must not find a replica without tables."""
    from isoline_server.store.migrate import migrate

    done = migrate(database.primary.url(), holder=f"{socket.gethostname()}:{os.getpid()}")
    if done.steps:
        report(f"schema {done.from_revision or 'none'} -> {done.to_revision}")
    for name in standbys:
        database.wait_caught_up(name)


class Report:
    """Says lines on stderr and, once it is known, in a log. Whoever read our stderr may be gone: that is no reason to stop."""

    def __init__(self) -> None:
        self._log: Path | None = None

    def also_to(self, log: Path) -> None:
        self._log = log

    def __call__(self, text: str) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"isoline up: {text}\n")
            sys.stderr.flush()
        if self._log is not None:
            with contextlib.suppress(OSError), self._log.open("a", encoding="utf-8") as log:
                log.write(f"{text}\n")


def _nothing_more() -> None:
    """What a second request to stop does."""


class _Stopped(BaseException):
    """Told to stop before the servers ran."""


class _StopRequest:
    """The first signal calls back if there is somebody to call, else breaks off whatever is under way. Later ones change nothing."""

    def __init__(self) -> None:
        self._asked = False
        self._callback: Callable[[], object] | None = None

    def call(self, callback: Callable[[], object]) -> None:
        self._callback = callback

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked:
            return
        self._asked = True
        if self._callback is None:
            raise _Stopped
        self._callback()


@contextlib.contextmanager
def _stop_request() -> Iterator[_StopRequest]:
    request = _StopRequest()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # else we were started by nohup, or in the background
            signal.signal(number, request)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.asynccontextmanager
async def _unwrapped() -> AsyncIterator[None]:
    """The first of a group's errors alone: the others only follow from it, and our callers know no groups."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
