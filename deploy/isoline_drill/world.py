"""What a drill acts on: three regions over an emulated WAN, each with a PostgreSQL node, a server, an executor, and the world outside.

Everything is real and a process of its own; only the distances are made. The drill stands outside: it starts, kills, cuts and promotes. Clients
and their load are in ``traffic``, what is done to this world is in ``scenarios``.
"""

import hashlib
import json
import secrets
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from isoline_drill import shop, workflows
from isoline_drill.databases import RegionDatabases
from isoline_drill.failover import Databases
from isoline_drill.patroni import PatroniDatabases, Programs
from isoline_drill.processes import Program, environment
from isoline_drill.wan import open_wan
from isoline_drill.wan.base import Kind, Wan
from isoline_server.embedded.ports import choose_port

REGIONS: Final = ("eu", "us", "ap")
ROUND_TRIPS_MS: Final[Mapping[tuple[str, str], float]] = MappingProxyType(
    {("eu", "us"): 30, ("eu", "ap"): 80, ("us", "ap"): 120}
)
"""Between Frankfurt and a near neighbour, and to the other side of the world from each."""
TENANT: Final = "drill"
LEASE_TTL: Final = "3s"
"""Short, so that a drill sees the take-over of a dead executor's runs within its own time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What kind of world. ``folder`` keeps logs, histories and databases; ``wan`` None: the best that works here; ``patroni`` None: an
    operator promotes."""

    folder: Path
    wan: Kind | None = None
    patroni: Programs | None = None
    round_trips_ms: Mapping[tuple[str, str], float] = field(default_factory=lambda: ROUND_TRIPS_MS)
    durable: bool = True
    executors: bool = True


class World:
    """A context manager: on entering everything serves, on leaving nothing is left. Verbs are synchronous, one thread at a time."""

    def __init__(self, order: Order, report: Callable[[str], None]) -> None:
        self.order = order
        self.folder = order.folder
        self.regions = REGIONS
        self.report = report
        self.key = f"drill-{secrets.token_hex(16)}"
        self.key_file = order.folder / "api-key"
        self._stack = ExitStack()
        self._ports = {region: choose_port() for region in REGIONS}
        self._shops = {region: choose_port() for region in REGIONS}
        self._programs: list[Program] = []
        self.servers: dict[str, Program] = {}
        self.executors: dict[str, Program] = {}
        self.wan: Wan
        self.databases: Databases

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._end_programs)
            self.wan = stack.enter_context(open_wan(self.regions, self.order.wan))
            for (a, b), round_trip_ms in self.order.round_trips_ms.items():
                self.wan.delay(a, b, round_trip_ms)
            self.report(
                f"WAN of {self.wan.kind}: {', '.join(f'{a}-{b} {ms:g} ms' for (a, b), ms in self.order.round_trips_ms.items())}"
            )
            self.databases = stack.enter_context(self._make_databases())
            self._migrate()
            self._start_regions()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # --- for programs in the regions ---

    def server_options(self, region: str, *, others: bool = True) -> list[str]:
        """The options by which a client in a region reaches the servers: its own first."""
        order = [region, *(other for other in self.regions if other != region and others)]
        addresses = ((owner, *self.wan.address(region, owner, self._ports[owner])) for owner in order)
        return [option for owner, host, port in addresses for option in ("--server", f"{owner}={host}:{port}")]

    def program(self, name: str, region: str, argv: list[str], *, ready: str = "", **env: str) -> Program:
        """A program of a region, not yet started; it is ended with the world."""
        made = Program(
            name,
            argv,
            namespace=self.wan.namespace(region),
            log=self.folder / "logs" / f"{name}.log",
            environment=environment(**env),
            ready=ready,
        )
        self._programs.append(made)
        return made

    def effects(self) -> list[str]:
        """Every effect that the world outside has seen, each as often as it was seen."""
        ledgers = [self._ledger(region) for region in self.regions]
        return [
            line for ledger in ledgers if ledger.exists() for line in ledger.read_text(encoding="utf-8").splitlines()
        ]

    # --- faults and repairs ---

    def kill_region(self, region: str) -> None:
        """Kill a region's executor, server and database, as a power cut would."""
        for program in (self.executors.get(region), self.servers[region]):
            if program is not None:
                program.kill()
        self.databases.kill(region)
        self.report(f"{region}: executor, server and database killed")

    def start_servers(self, region: str) -> None:
        """Start a region's server and executor again."""
        started = [program for program in (self.servers[region], self.executors.get(region)) if program is not None]
        for program in started:
            program.launch()
        for program in started:
            program.wait_ready()
        self.report(f"{region}: server and executor serve again")

    # --- how it is put together ---

    def _make_databases(self) -> Databases:
        folder, durable, report = self.folder / "databases", self.order.durable, self.report
        if (programs := self.order.patroni) is not None:
            return PatroniDatabases(self.wan, folder, programs, durable=durable, on_progress=report)
        return RegionDatabases(self.wan, folder, durable=durable, on_progress=report)

    def _migrate(self) -> None:
        config = self._write_config(self.databases.leader, "migrate")
        migrating = self.program(
            "migrate",
            self.databases.leader,
            [sys.executable, "-m", "isoline_server", "migrate", "--config", str(config)],
        )
        migrating.launch()
        if migrating.wait(60) != 0:
            migrating.wait_ready(0)
        for region in self.regions:
            if region != self.databases.leader:
                self.databases.wait_caught_up(region)

    def _start_regions(self) -> None:
        self.key_file.write_text(self.key + "\n", encoding="utf-8")
        self.key_file.chmod(0o600)
        for region in self.regions:
            config = self._write_config(region, region)
            serve = [sys.executable, "-m", "isoline_server", "serve", "--region", region, "--config", str(config)]
            self.servers[region] = self.program(f"server-{region}", region, serve, ready='"event": "serving"')
            if self.order.executors:
                self.executors[region] = self._executor(region)
        everything = [*self._outside(), *self.servers.values(), *self.executors.values()]
        for program in everything:
            program.launch()
        with ThreadPoolExecutor(len(everything)) as pool:
            list(pool.map(Program.wait_ready, everything))
        self.report(f"serving in {', '.join(self.regions)}")

    def _executor(self, region: str) -> Program:
        argv = [sys.executable, "-m", "isoline_client.cli", "executor", "--region", region]
        argv += [
            *self.server_options(region, others=False),
            "--api-key-file",
            str(self.key_file),
            "--workflows",
            workflows.__name__,
            "--lease-ttl",
            LEASE_TTL,
            "--json",
        ]
        return self.program(
            f"executor-{region}", region, argv, ready="executing", **{workflows.SHOP_ENV: self._shop_url(region)}
        )

    def _outside(self) -> list[Program]:
        return [
            self.program(
                f"shop-{region}",
                region,
                [
                    sys.executable,
                    "-m",
                    shop.__name__,
                    self.wan.host(region),
                    str(self._shops[region]),
                    str(self._ledger(region)),
                ],
                ready=shop.READY,
            )
            for region in (self.regions if self.order.executors else ())
        ]

    def _shop_url(self, region: str) -> str:
        return f"http://{self.wan.host(region)}:{self._shops[region]}"

    def _ledger(self, region: str) -> Path:
        return self.folder / f"effects-{region}.txt"

    def _write_config(self, viewer: str, name: str) -> Path:
        """The configuration of a region's server: the nodes as they are reached from there."""
        leader = self.databases.leader
        standbys = [self.databases.url(viewer, region) for region in self.regions if region != leader]
        lines = [
            'topology = "postgres"',
            f"leader_url = {json.dumps(self.databases.url(viewer, leader))}",
            f"leader_region = {json.dumps(leader)}",
            f"standby_urls = {json.dumps(standbys)}",
            "drain_grace_s = 3.0",
        ]
        for region in self.regions:
            lines += [f"[regions.{region}]", f'listen = "{self.wan.host(region)}:{self._ports[region]}"']
            if region == viewer:
                lines += [f"local_url = {json.dumps(self.databases.url(viewer, viewer))}", "replica_counts = true"]
        lines += ["[[api_keys]]", f'sha256 = "{hashlib.sha256(self.key.encode()).hexdigest()}"', f'tenant = "{TENANT}"']
        path = self.folder / f"isoline-{name}.toml"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        path.chmod(0o600)
        return path

    def _end_programs(self) -> None:
        for program in reversed(self._programs):
            program.kill()
