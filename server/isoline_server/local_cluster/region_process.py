"""One region's server as a child process: started, waited for until it serves, started again when it dies, ended in order."""

import asyncio
import signal
import subprocess
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from isoline_server.domain.ids import Region
from isoline_server.local_cluster import leash
from isoline_server.local_cluster.errors import ClusterError

READY_S: Final = 90.0
"""From launch to serving. A second on an idle machine; the rest is for loaded ones."""
STOP_S: Final = 15.0
"""The servers' grace for calls under way is 10 s."""
BACKOFF_FIRST_S: Final = 0.1
BACKOFF_MAX_S: Final = 5.0
STEADY_S: Final = 30.0
"""Who has served this long and then dies is started again at once."""

_LOG_TAIL_LINES: Final = 15
_CHANNEL: Final = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 200),
)
_CHECK_S: Final = 1.0
_PAUSE_S: Final = 0.05


class RegionProcess:
    """The server of one region. Its address stays the same over restarts; its pid does not."""

    def __init__(
        self,
        *,
        region: Region,
        address: str,
        config: Path,
        workflows: str,
        log: Path,
        parent: int,
        environment: Mapping[str, str],
        on_launch: Callable[[], None],
        report: Callable[[str], None],
    ) -> None:
        self.region = region
        self.address = address
        serve = [sys.executable, "-P", "-m", "isoline_server", "serve", "--region", region, "--config", str(config)]
        serve += ["--with-executor", workflows] if workflows else []
        self._argv = [sys.executable, "-I", "-S", leash.__file__, str(parent), *serve]
        self._log = log
        self._environment = dict(environment)
        self._on_launch = on_launch
        self._report = report
        self._child: Process | None = None

    @property
    def pid(self) -> int:
        """Of the server that runs, or that ran last; 0 before the first."""
        return 0 if self._child is None else self._child.pid

    async def start(self) -> None:
        """Launch it and wait until it serves. Raises ``ClusterError`` with the end of its log when it does not come to that."""
        with self._log.open("ab") as output:
            self._child = child = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,  # Ctrl-C in the terminal is for the supervisor: it ends everything in the right order
            )
        self._on_launch()
        serving, ended = asyncio.create_task(serves(self.address)), asyncio.create_task(child.wait())
        try:
            await asyncio.wait({serving, ended}, timeout=READY_S, return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                raise ClusterError(f"{self.region}: {self._why(child)}\n{self._log_tail()}")
            serving.result()
        finally:
            serving.cancel()
            ended.cancel()

    async def keep(self) -> None:
        """Wait for its death and start it again, for ever."""
        backoff_s, since_s = BACKOFF_FIRST_S, time.monotonic()
        while True:
            assert self._child is not None
            code = await self._child.wait()
            if time.monotonic() - since_s > STEADY_S:
                backoff_s = BACKOFF_FIRST_S
            self._report(f"{self.region}: server {self.pid} {_how(code)}; starting it again in {backoff_s:g} s")
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)
            since_s = time.monotonic()
            try:
                await self.start()
            except (ClusterError, OSError) as error:
                self._report(str(error))
                await self.stop()
            else:
                self._report(f"{self.region}: server {self.pid} serves again ({time.monotonic() - since_s:.1f} s)")

    async def stop(self) -> None:
        """Let it drain, then end it. Harmless when it does not run."""
        if self._child is None or self._child.returncode is not None:
            return
        self._child.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_S):
                await self._child.wait()
        except TimeoutError:
            self._report(f"{self.region}: server {self.pid} did not stop within {STOP_S:.0f} s; killing it")
            self._child.kill()
            await self._child.wait()

    def _why(self, child: Process) -> str:
        if child.returncode is None:
            return f"its server does not serve {self.address} within {READY_S:.0f} s; the end of {self._log}:"
        return f"its server {_how(child.returncode)} before it served; the end of {self._log}:"

    def _log_tail(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_TAIL_LINES:]
        return "\n".join(f"  | {line}" for line in lines)


async def serves(address: str) -> None:
    """Return once the server at ``address`` says by gRPC's health protocol that it serves."""
    async with grpc.aio.insecure_channel(address, options=_CHANNEL) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        while True:
            try:
                answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=_CHECK_S, wait_for_ready=True)
            except grpc.aio.AioRpcError:
                answer = None
            if answer is not None and answer.status == health_pb2.HealthCheckResponse.SERVING:
                return
            await asyncio.sleep(_PAUSE_S)


def _how(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
