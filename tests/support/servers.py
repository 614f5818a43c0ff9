"""Servers for tests: in this process (to look inside and to break things), or as real processes (to kill)."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from isoline_server.bootstrap import RegionServer
from isoline_server.config import Settings
from isoline_server.domain.ids import check_region
from support.waiting import wait_until


def settings_for(leader_url: str, local_urls: Mapping[str, str | None], **overrides: Any) -> Settings:
    """Settings of a service with one region for each entry; every server listens on a free port."""
    regions = {code: {"listen": "127.0.0.1:0", "local_url": url} for code, url in local_urls.items()}
    return Settings(
        leader_url=leader_url,
        regions=regions,
        **{"leader_region": next(iter(regions)), "log_level": "error", **overrides},
    )


async def start_region(settings: Settings, region: str) -> RegionServer:
    """A server in this process."""
    server = RegionServer(settings, check_region(region))
    await server.start()
    return server


class ServerProcess:
    """``isoline serve`` as a process of its own, on a fixed free port so that it can come back at the same address."""

    def __init__(
        self,
        leader_url: str,
        local_urls: Mapping[str, str | None],
        region: str,
        *,
        extra: str = "",
        options: tuple[str, ...] = (),
    ) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._folder = tempfile.TemporaryDirectory(prefix="isoline-server-")
        self.config = Path(self._folder.name) / "isoline.toml"
        lines = [f'leader_url = "{leader_url}"', 'log_level = "info"', extra]
        for code, url in local_urls.items():
            lines += [f"[regions.{code}]", f'listen = "{self.address if code == region else "127.0.0.1:0"}"']
            lines += [f'local_url = "{url}"'] if url else []
        self.config.write_text("\n".join(lines) + "\n")
        self._region = region
        self._options = options
        self.log = Path(self._folder.name) / "server.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "ServerProcess":
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "isoline_server",
                    "serve",
                    "--region",
                    self._region,
                    "--config",
                    str(self.config),
                    *self._options,
                ],
                stdout=log,
                stderr=log,
                env={**os.environ, "GRPC_VERBOSITY": "NONE"},
            )
        wait_until(self._serving, timeout_s=60, every_s=0.05, what=f"the server at {self.address}")
        return self

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        """SIGTERM: drain; return the exit code."""
        return self._end(signal.SIGTERM)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        self._folder.cleanup()

    def _end(self, name: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(name)
        return self.process.wait(timeout=30)

    def _serving(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log.read_text()[-4000:]}")
        with grpc.insecure_channel(self.address) as channel:
            try:
                answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=1)
            except grpc.RpcError:
                return False
            return answer.status == health_pb2.HealthCheckResponse.SERVING


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
