"""Three regions 30, 80 and 120 ms apart (the drills' world: a PostgreSQL node and a server a region, clients inside the regions): what a call
costs from home and from far, with a replica that has caught up, one that lags, and one that is cut off. The floor is a bare ``SELECT 1`` at the
leader over a warm connection from the same region, in turns with the calls: one round trip."""

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import Row, Target, row, value_under
from benchmarks.stage import Stage
from benchmarks.topology import STANDBYS as REGIONS
from isoline_drill.world import Order, World

NAME = "regions"
STANDBYS = REGIONS
"""Not used: it has its own. The same as of the benchmark before it, so that no topology is made for it."""

HOME, NEAR, FAR = "eu", "us", "ap"
LOCAL_BOUND_MS = 20
ROUND_TRIPS = 1.3
ROUNDS, QUICK_ROUNDS = 40, 5
WITHIN_S = 300.0


async def measure(stage: Stage) -> list[Row]:
    rounds = stage.effort.of(ROUNDS, QUICK_ROUNDS)
    with tempfile.TemporaryDirectory(prefix="isoline-regions-") as folder:
        (Path(folder) / "logs").mkdir()
        order = Order(folder=Path(folder), executors=False)
        with World(order, lambda line: stage.say(f"  {line}")) as world:
            return _Regions(world, rounds).rows()


class _Regions:
    """The measurements, one after the other: a region that is measured has the machine to itself."""

    def __init__(self, world: World, rounds: int) -> None:
        self._world = world
        self._rounds = rounds
        self._clients = 0
        self._source = self._filled()

    def rows(self) -> list[Row]:
        return [*self._appends(), *self._fresh(), *self._lagging(), *self._cut_off()]

    def _appends(self) -> list[Row]:
        made = []
        for region in (HOME, NEAR, FAR):
            found = self._from(region, "statement", "append")["ms"]
            target = None if region == HOME else Target(f"<= {ROUND_TRIPS} round trips", _round_trips)
            made.append(row(f"append from {region}", "ms", found["append"], found["statement"], target))
        return made

    def _fresh(self) -> list[Row]:
        self._world.databases.wait_caught_up(FAR)
        local = value_under(LOCAL_BOUND_MS, "ms")
        found = self._from(FAR, "statement", "read", "state", local_only=True)["ms"]
        made = [
            row(f"read of 1,000 events from {FAR}, replica caught up", "ms", found["read"], found["statement"], local),
            row(f"state at 1,000 from {FAR}, replica caught up", "ms", found["state"], found["statement"], local),
        ]
        for region in (HOME, FAR):
            found = self._from(region, "statement", "fork_and_state")["ms"]
            made.append(row(f"fork and state from {region}", "ms", found["fork_and_state"], found["statement"]))
        return made

    def _lagging(self) -> list[Row]:
        databases = self._world.databases
        databases.pause_replay(FAR)
        try:
            self._source, before = self._filled(), self._source
            found = self._from(FAR, "statement", "read", "fork_and_state")["ms"]
            self._source = before
        finally:
            databases.resume_replay(FAR)
            databases.wait_caught_up(FAR)
        return [
            row(f"read of 1,000 events from {FAR}, replica lagging", "ms", found["read"], found["statement"]),
            row(f"fork and state from {FAR}, replica lagging", "ms", found["fork_and_state"], found["statement"]),
        ]

    def _cut_off(self) -> list[Row]:
        self._world.wan.isolate(FAR)
        try:
            found = self._from(FAR, "read", "state", local_only=True)["ms"]
        finally:
            self._world.wan.heal()
        local = value_under(LOCAL_BOUND_MS, "ms")
        return [
            row(f"read of 1,000 events from {FAR}, cut off from all others", "ms", found["read"], target=local),
            row(f"state at 1,000 from {FAR}, cut off from all others", "ms", found["state"], target=local),
        ]

    def _filled(self) -> str:
        """A run of 1,000 events, made at home."""
        made = self._run(HOME, "benchmarks.fill", {"server": self._server(HOME), "key": self._world.key})
        run: str = made["run"]
        return run

    def _from(self, region: str, *what: str, local_only: bool = False):
        """Time some calls from a region. A bare statement is made where there is a leader to be reached."""
        leader = self._world.databases.url(region, self._world.databases.leader) if "statement" in what else ""
        asked = {"server": self._server(region), "key": self._world.key, "leader": leader, "run": self._source}
        found = self._run(region, "benchmarks.far", {**asked, "rounds": self._rounds, "what": list(what)})
        if local_only and found["sources"] != ["local"]:
            raise RuntimeError(f"{region} did not read its own replica alone: {found['sources']}")
        return found

    def _run(self, region: str, module: str, asked):
        self._clients += 1
        client = self._world.program(
            f"client-{self._clients}", region, [sys.executable, "-m", module, json.dumps(asked)]
        )
        client.launch()
        if client.wait(WITHIN_S) != 0:
            raise RuntimeError(f"{module} failed in {region}:\n{client.log_tail()}")
        return json.loads(client.log.read_text(encoding="utf-8").splitlines()[-1])

    def _server(self, region: str) -> str:
        return self._world.server_options(region, others=False)[-1].partition("=")[2]


def _round_trips(_: float, ratio: float | None) -> bool:
    return ratio is not None and ratio <= ROUND_TRIPS
