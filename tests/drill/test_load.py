"""The load against real servers that are killed under it: the checker is content; and it is not, once somebody loses what was acknowledged."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from drill.final_logs import read_logs, runs_of
from isoline_client import Client, Position
from isoline_drill.checker import check
from isoline_drill.checker_findings import FinalLogs
from isoline_drill.history import Append, Fork, Operation, Read, State, TailPage, read_history
from isoline_drill.load.carrying import Caller
from isoline_drill.load.plan import Ground, KnownRun, Repeat, See, Split, Sum, Write, next_deed
from isoline_drill.load.recorder import Recorder, now_us
from isoline_drill.load.settings import parse
from isoline_drill.load.shared import shared_runs
from isoline_server.bootstrap import RegionServer
from isoline_server.embedded import EmbeddedCluster
from support.databases import TEMPLATE
from support.proxy import Proxy
from support.servers import ServerProcess
from support.waiting import eventually, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.postgres]


class LoadProcess:
    """``python -m isoline_drill.load``, and what it says."""

    def __init__(self, region: str, servers: Sequence[ServerProcess], folder: Path, *options: str) -> None:
        self.history = folder / f"{region}.history"
        self._said = folder / f"{region}.progress"
        addresses = [
            f"--server={code}={server.address}" for code, server in zip((region, "other"), servers, strict=False)
        ]
        command = [sys.executable, "-m", "isoline_drill.load", f"--region={region}", *addresses]
        command += [f"--history={self.history}", f"--shared={folder / 'shared'}", "--seed=1", *options]
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(command, stderr=said, stdin=subprocess.DEVNULL)

    @property
    def said(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._said.read_text().splitlines()]

    def count(self, name: str) -> int:
        return next((line[name] for line in reversed(self.said) if name in line), 0)

    def goes_on(self, name: str = "acknowledged", more: int = 40) -> None:
        """Wait until this many more of them are counted."""
        before = self.count(name)
        wait_until(lambda: self.count(name) >= before + more, timeout_s=60, every_s=0.1, what=f"{more} more {name}")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def operations(self) -> list[Operation]:
        with self.history.open(encoding="utf-8", newline="\n") as lines:
            return read_history(lines)[1]


@pytest.fixture
def servers(pg_url: str) -> Iterator[list[ServerProcess]]:
    """Two regions over one database, each its own process."""
    made = [ServerProcess(pg_url, {"eu": pg_url, "us": pg_url}, region).start() for region in ("eu", "us")]
    yield made
    for server in made:
        server.close()


@pytest.fixture
def load(tmp_path: Path) -> Any:
    """Start a load process; it does not outlive the test."""
    started: list[LoadProcess] = []

    def start(region: str, servers: Sequence[ServerProcess], *options: str) -> LoadProcess:
        started.append(LoadProcess(region, servers, tmp_path, *options))
        return started[-1]

    yield start
    for process in started:
        process.close()


async def final_logs(servers: Sequence[ServerProcess], operations: Sequence[Operation]) -> FinalLogs:
    regions = {}
    for region, server in zip(("eu", "us"), servers, strict=False):
        async with Client(server.address) as client:
            regions[region] = await read_logs(client, runs_of(operations), "local")
            leader = await read_logs(client, runs_of(operations))
    return FinalLogs(leader=leader, regions=regions)


async def test_a_server_killed_under_load_loses_nothing(servers: list[ServerProcess], load: Any) -> None:
    eu, us = servers
    near, far = load("eu", [eu, us]), load("us", [us])
    near.goes_on()
    far.goes_on()
    eu.kill()  # the client of its region goes to the other
    near.goes_on()
    us.kill()  # the other region's has nowhere to go, and waits
    eu.start()
    near.goes_on()
    us.start()
    far.goes_on()
    assert (near.stop(), far.stop()) == (0, 0)

    operations = [*near.operations, *far.operations]
    verdict = check(operations, await final_logs(servers, operations))
    assert verdict.ok, list(map(str, verdict.findings))
    assert verdict.acknowledged > 150
    assert verdict.reads > 50
    kinds = {type(operation) for operation in operations if operation.outcome == "ok"}
    assert {Append, Read, State, TailPage} <= kinds
    shared = near.said[0]["runs"][0]
    writers = {each.client for each in operations if isinstance(each, Append) and each.run == shared}
    assert len(writers) == 2


async def test_what_is_open_when_it_ends_is_unknown_and_an_event_that_is_lost_later_is_missed(
    servers: list[ServerProcess], load: Any, pg_url: str
) -> None:
    eu = servers[0]
    process = load("eu", [eu], "--grace-ms=100", "--deadline-ms=1000", "--rate=80")
    process.goes_on()
    eu.kill()
    wait_until(lambda: process.count("open") >= 4, what="appends that wait for the server")
    assert process.stop() == 0
    eu.start()

    operations = process.operations
    verdict = check(operations, await final_logs([eu], operations))
    assert verdict.ok, list(map(str, verdict.findings))
    assert verdict.unknown >= 1

    lost = _lose_the_end_of_an_acknowledged_append(pg_url, operations)
    eu.kill()
    eu.start()  # what it remembers is not what stands in the database
    verdict = check(operations, await final_logs([eu], operations))
    assert not verdict.ok
    assert verdict.lost == lost


def _lose_the_end_of_an_acknowledged_append(url: str, operations: Sequence[Operation]) -> int:
    """As a database does that acknowledges before it has the bytes: the newest events of a run are gone. How many of them were acknowledged."""
    acknowledged = [each for each in operations if isinstance(each, Append) and each.outcome == "ok"]
    last = max(acknowledged, key=lambda append: append.last_seq or 0)
    assert last.last_seq is not None
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute("DELETE FROM events WHERE run_id = %s AND seq >= %s", (last.run, last.last_seq))
        connection.execute(
            "UPDATE runs SET head_seq = seq, head_digest = digest, head_bytes = end_byte FROM events"
            " WHERE runs.run_id = events.run_id AND runs.run_id = %s AND seq = %s",
            (last.run, last.last_seq - 1),
        )
    return 1


async def test_a_client_that_is_killed_leaves_no_event_that_nobody_appended(
    servers: list[ServerProcess], load: Any
) -> None:
    process = load("eu", servers, "--rate=150")
    process.goes_on()
    process.process.kill()
    process.process.wait()
    operations = process.operations
    verdict = check(operations, await final_logs(servers, operations))
    assert verdict.ok, list(map(str, verdict.findings))


@pytest.mark.topology
async def test_regions_that_read_their_standbys_while_the_primary_is_away(topology: EmbeddedCluster, load: Any) -> None:
    name = "load"
    topology.create_database(name, template=TEMPLATE)
    url = topology.primary.url(database=name)
    local = {"eu": url, **{code: topology.standby(code).url(database=name) for code in ("us", "ap")}}
    for code in ("us", "ap"):
        topology.wait_caught_up(code)
    servers = [ServerProcess(url, local, code).start() for code in ("us", "ap")]
    try:
        loads = [load("us", servers, "--deadline-ms=2000"), load("ap", servers[::-1], "--deadline-ms=2000")]
        for process in loads:
            process.goes_on()
        topology.kill("primary")
        for process in loads:
            process.goes_on("stale", more=3)
        topology.restart("primary")
        for process in loads:
            process.goes_on()
        assert [process.stop() for process in loads] == [0, 0]
        operations = [operation for process in loads for operation in process.operations]
        for code in ("us", "ap"):
            topology.wait_caught_up(code)
        verdict = check(operations, await final_logs(servers, operations))
    finally:
        for server in servers:
            server.close()
        topology.drop_database(name)
    assert verdict.ok, list(map(str, verdict.findings))
    assert any(isinstance(each, Read) and each.source == "stale" for each in operations)


async def test_it_ends_when_its_stop_file_appears(servers: list[ServerProcess], load: Any, tmp_path: Path) -> None:
    process = load("eu", servers, f"--stop-file={tmp_path / 'stop'}")
    process.goes_on(more=1)
    (tmp_path / "stop").touch()
    assert process.process.wait(timeout=20) == 0
    assert process.said[-1]["load"] == "ended"
    assert process.said[-1]["open"] == 0


async def test_it_fails_when_its_history_is_there_already(
    servers: list[ServerProcess], load: Any, tmp_path: Path
) -> None:
    (tmp_path / "eu.history").touch()
    process = load("eu", servers)
    assert process.process.wait(timeout=20) == 1
    assert process.said[-1]["why"].startswith("FileExistsError")


# -- one client, and a server in this process ----------------------------------------------------------------------------------------------


@dataclass
class Alone:
    """A caller, and what it recorded."""

    caller: Caller
    known: KnownRun
    history: Path
    ground: Ground

    @property
    def last(self) -> Any:
        """The newest operation."""
        return read_history(self.history.read_text().splitlines(keepends=True))[1][-1]


@asynccontextmanager
async def alone(address: str, tmp_path: Path, deadline_s: float = 5.0) -> AsyncIterator[Alone]:
    path = tmp_path / "history"
    with Recorder(path, client="c", region="eu") as recorder:
        async with Client(address, timeout_s=deadline_s) as client:
            ground = Ground()
            caller = Caller(client, recorder, ground, deadline_s=deadline_s)
            yield Alone(caller, await caller.create(), path, ground)


async def test_a_change_whose_answer_is_lost_is_asked_for_again_and_is_one_operation(
    server: RegionServer, tmp_path: Path
) -> None:
    async with Proxy(server.address) as proxy, alone(proxy.address, tmp_path, deadline_s=0.5) as client:
        proxy.deaf = True
        writing = asyncio.create_task(client.caller.carry_out(Write(client.known, 3, None)))
        async with Client(server.address) as watcher:
            run = watcher.run(client.known.run_id)

            one_call_is_over_us = now_us() + 600_000

            async def landed() -> bool:
                return (await run.info()).head.seq >= 2 and now_us() > one_call_is_over_us

            await eventually(landed, what="the append whose answer is lost, and a second call for it")
            proxy.deaf = False
            proxy.cut()
            await writing
            logs = await read_logs(watcher, [run.run_id])
    told = client.last
    assert (told.outcome, told.first_seq, told.last_seq, told.repeated) == ("ok", 0, 2, True)
    assert tuple(entry.marker for entry in logs[run.run_id]) == told.markers


async def test_what_is_given_up_is_unknown(server: RegionServer, tmp_path: Path) -> None:
    async with Proxy(server.address) as proxy, alone(proxy.address, tmp_path) as client:
        proxy.deaf = True
        writing = asyncio.create_task(client.caller.carry_out(Write(client.known, 1, None)))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.wait([writing])
    assert (client.last.outcome, client.last.error_name) == ("unknown", "CancelledError")


async def test_what_is_refused_failed(server: RegionServer, tmp_path: Path) -> None:
    async with alone(server.address, tmp_path) as client:
        await client.caller.carry_out(Write(client.known, 1, 7))
    assert (client.last.outcome, client.last.error_name) == ("failed", "SeqConflict")


async def test_answers_that_deny_something_say_what(server: RegionServer, tmp_path: Path) -> None:
    nowhere = KnownRun("local/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa")
    async with alone(server.address, tmp_path) as client:
        await client.caller.carry_out(Write(client.known, 2, None))
        await client.caller.carry_out(See(client.known, "local", 0, 9, None))
        assert (client.last.outcome, client.last.absent, client.last.absent_from) == ("ok", "seq", 2)
        await client.caller.carry_out(Sum(nowhere, "state", "latest", None))
        assert (client.last.outcome, client.last.absent, client.last.absent_from) == ("ok", "run", 0)


async def test_a_repeat_on_purpose_gets_the_first_answer(server: RegionServer, tmp_path: Path) -> None:
    async with alone(server.address, tmp_path) as client:
        await client.caller.carry_out(Write(client.known, 2, 0))
        first = client.last
        await client.caller.carry_out(Repeat(client.ground.repeatable[-1]))
    again = client.last
    assert again.op != first.op
    assert (again.first_seq, again.last_seq, again.digest, again.repeated) == (0, 1, first.digest, True)


async def test_a_fork_is_recorded_with_what_it_pins(server: RegionServer, tmp_path: Path) -> None:
    async with alone(server.address, tmp_path) as client:
        await client.caller.carry_out(Write(client.known, 1, None))
        digest = client.last.digest
        await client.caller.carry_out(Write(client.known, 1, None))
        await client.caller.carry_out(Split(client.known, 1))
        fork = client.last
        assert (fork.source, fork.from_seq, fork.prefix_digest) == (client.known.run_id, 1, digest)
        await client.caller.carry_out(Sum(client.ground.forks[-1], "prefix", "latest", None))
        assert (client.last.seq, client.last.digest) == (0, digest)


# -- the parts -----------------------------------------------------------------------------------------------------------------------------


def _drawn(many: int, seed: int = 0) -> list[Any]:
    run = KnownRun("run")
    run.learn(Position(9, b""))
    repeatable = Append(
        client="c", op=1, region="eu", invoked_us=0, completed_us=1, outcome="ok", run="run", request_id="q",
        expected_seq=None, markers=("m",),
    )  # fmt: skip
    ground = Ground(runs=[run])
    ground.repeatable.append(repeatable)
    dice = Random(seed)
    return [next_deed(dice, ground) for _ in range(many)]


def test_every_deed_is_drawn_and_within_what_is_known() -> None:
    deeds = _drawn(2_000)
    assert {type(deed) for deed in deeds} == {Write, Repeat, See, Sum, Split}
    assert {deed.freshness for deed in deeds if isinstance(deed, See | Sum)} == {"latest", "local"}
    assert all(1 <= deed.many <= 10 for deed in deeds if isinstance(deed, Write))
    assert {deed.expected_seq for deed in deeds if isinstance(deed, Write)} == {None, 10}
    assert all(0 <= deed.from_seq <= 10 for deed in deeds if isinstance(deed, See))
    assert all(0 <= deed.from_seq < 10 for deed in deeds if isinstance(deed, Split))


def test_one_seed_draws_one_sequence() -> None:
    assert [type(deed) for deed in _drawn(50, 7)] == [type(deed) for deed in _drawn(50, 7)]
    assert [type(deed) for deed in _drawn(50, 7)] != [type(deed) for deed in _drawn(50, 8)]


def test_what_is_known_of_a_run_never_goes_back() -> None:
    run = KnownRun("run")
    assert run.next_seq == 0
    run.learn(Position(5, b"five"))
    run.learn(Position(3, b"three"))
    assert run.last == Position(5, b"five")


def test_a_change_is_recorded_before_it_is_sent_and_a_read_when_it_is_over(tmp_path: Path) -> None:
    path = tmp_path / "history"
    times = iter(range(100, 200))
    with Recorder(path, client="c", region="eu", clock_us=lambda: next(times)) as recorder:
        fork = recorder.begin(Fork, request_id="q", source="run", from_seq=1)
        recorder.begin(Read, run="run", freshness="local", from_seq=0, until_seq=None)
        _, (open_fork,) = read_history(path.read_text().splitlines(keepends=True))
        assert (open_fork.outcome, open_fork.completed_us) == ("unknown", None)
        recorder.end(fork, "failed", ValueError("no such run"))
        _, (ended,) = read_history(path.read_text().splitlines(keepends=True))
    assert (ended.outcome, ended.error, ended.error_name) == ("failed", "ValueError: no such run", "ValueError")
    assert (ended.invoked_us, ended.completed_us) == (101, 103)
    assert recorder.counts == {"failed": 1}


async def test_the_first_process_makes_the_shared_runs(tmp_path: Path) -> None:
    made: list[str] = []

    async def make() -> str:
        await asyncio.sleep(0)
        made.append(f"run-{len(made)}")
        return made[-1]

    path = tmp_path / "shared"
    answers = await asyncio.gather(*(shared_runs(path, 2, make) for _ in range(3)))
    assert answers == [["run-0", "run-1"]] * 3
    assert made == ["run-0", "run-1"]


def test_the_own_region_is_asked_first() -> None:
    given = ["--region=us", "--server=eu=a:1", "--server=us=b:2", "--server=ap=c:3", "--history=h"]
    settings = parse(given)
    assert settings.addresses == ("b:2", "a:1", "c:3")
    assert settings.client.startswith("us-")


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (["--server=eu=a:1"], "none of region us"),
        (["--server=a:1"], "is not REGION=HOST:PORT"),
        (["--server=us=a:1", "--rate=0"], "is not above 0"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(
    wrong: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(["--region=us", "--history=h", *wrong])
    assert what in capsys.readouterr().err
