"""The program as its users meet it: run in this process (``cli``) or as a process of its own (``process``), against real servers."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from isoline_client.cli.program import make_app
from support.servers import ServerProcess

PROGRAM = [sys.executable, "-c", "from isoline_client.cli import main; main()"]


@pytest.fixture(scope="session")
def eu(databases) -> Iterator[ServerProcess]:
    """The server of ``eu``, which leads; ``us`` is a region of the service and has no server."""
    url = databases.cluster.primary.url(database=databases.create())
    server = ServerProcess(url, {"eu": url, "us": None}, "eu").start()
    yield server
    server.close()


@dataclass(frozen=True)
class Regions:
    """Three regions, each with a replica of its own; ``eu`` leads."""

    servers: dict[str, ServerProcess]
    cluster: Any
    database: str

    @property
    def listed(self) -> str:
        return ",".join(f"{region}={server.address}" for region, server in self.servers.items())


@pytest.fixture(scope="session")
def regions(topology) -> Iterator[Regions]:
    database = "cli_regions"
    topology.create_database(database, template="isoline_template")
    for standby in ("us", "ap"):
        topology.wait_caught_up(standby)
    urls = {"eu": topology.primary.url(database=database)}
    urls |= {standby: topology.standby(standby).url(database=database) for standby in ("us", "ap")}
    with ExitStack() as stack:
        servers = {}
        for region in urls:
            servers[region] = ServerProcess(urls["eu"], urls, region)
            stack.callback(servers[region].close)
            servers[region].start()
        yield Regions(servers, topology, database)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON object on stdout."""
        [line] = self.lines
        return line

    @property
    def lines(self) -> list[Any]:
        """The JSON objects on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> Any:
        """The error that was said on stderr as JSON."""
        return json.loads(self.err.splitlines()[-1])["error"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str | None]:
    """Nothing of the environment in which the tests run. Tests add to it."""
    ours = {name: None for name in os.environ if name.startswith("ISOLINE_")}
    return {**ours, "ISOLINE_DATA_DIR": str(tmp_path / "data"), "NO_COLOR": None, "FORCE_COLOR": None, "COLUMNS": "100"}


@pytest.fixture
def cli(environ) -> Callable[..., Ended]:
    """Run the program in this process."""
    app = make_app()

    def run(*arguments: object, stdin: str | bytes | None = None) -> Ended:
        result = CliRunner().invoke(
            app, [str(each) for each in arguments], input=stdin, env=environ, catch_exceptions=False
        )
        return Ended(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def isoline(cli, environ, eu) -> Callable[..., Ended]:
    """Run the program in this process against the server of ``eu``."""
    environ["ISOLINE_SERVERS"] = f"eu={eu.address}"
    return cli


@pytest.fixture
def process(environ) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Start the program as a process of its own."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object, **options: Any) -> "subprocess.Popen[str]":
        env = {name: value for name, value in {**os.environ, **environ}.items() if value is not None}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [*PROGRAM, *map(str, arguments)]
        started.append(subprocess.Popen(command, env=env, text=True, **{**pipes, **options}))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.wait()
        for stream in (each.stdin, each.stdout, each.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


@pytest.fixture
def run_id(isoline) -> str:
    """A new, empty run."""
    return isoline("run", "create", "test").out.strip()


def jsonl(*events: dict[str, Any]) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


def numbered(count: int, start: int = 0) -> str:
    """So many lines of events that differ."""
    return jsonl(*({"type": "test.event", "nodeId": "n", "payload": {"i": i}} for i in range(start, start + count)))
