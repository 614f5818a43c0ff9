"""The clients of a drill: a load and, where there are executors, orders in every region; their histories, and the logs they are held against.

Processes of their own, in their regions. Here they are started, ended and read; what they do is in ``load`` and ``orders``.
"""

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from isoline_drill import collect, orders
from isoline_drill.checker_findings import FinalLogs, Log
from isoline_drill.errors import DrillError
from isoline_drill.history import Append, Create, Entry, Fork, HistoryReader, Operation
from isoline_drill.processes import Program
from isoline_drill.report import Executed
from isoline_drill.world import World

BEGIN_S: Final = 60.0
STOP_S: Final = 30.0
COLLECT_S: Final = 120.0
END_S: Final = 40.0
"""How long executed runs may take to end after the load has: leases of dead executors end within it, several times."""
_POLL_S: Final = 0.02


class Traffic:
    """The load on one world. One thread at a time."""

    def __init__(self, world: World, *, seed: int, rate: float) -> None:
        self._world = world
        self._loads = {region: self._load(region, seed, rate) for region in world.regions}
        self._orders = {region: self._order(region, seed) for region in world.regions} if world.order.executors else {}
        self._read = {region: _Reading(self._history(region)) for region in world.regions}

    def start(self) -> None:
        """Begin, and return when every region has had an append acknowledged."""
        since_us = time.monotonic_ns() // 1000
        for program in (*self._loads.values(), *self._orders.values()):
            program.launch()
        for region in self._world.regions:
            self.wait_acknowledged(since_us, region, BEGIN_S)

    def stop(self) -> None:
        """End every client in order: what is open is recorded as unknown."""
        programs = [*self._loads.values(), *self._orders.values()]
        for program in programs:
            program.request_stop()
        for program in programs:
            program.stop(STOP_S)

    def wait_acknowledged(self, since_us: int, region: str | None, within_s: float) -> int:
        """Wait for an append that was acknowledged after a moment, in a region or anywhere; when it was. Raises ``DrillError``."""
        regions = self._world.regions if region is None else (region,)
        deadline = time.monotonic() + within_s
        news = [operation for each in regions for operation in self.operations(each)]
        while time.monotonic() < deadline:
            found = [at_us for at_us in _acknowledged(news) if at_us >= since_us]
            if found:
                return min(found)
            self._check_alive()
            time.sleep(_POLL_S)
            news = [operation for each in regions for operation in self._read[each].go_on()]
        raise DrillError(f"no append was acknowledged in {' or '.join(regions)} within {within_s:.0f} s")

    def operations(self, region: str) -> Sequence[Operation]:
        """What a region's clients have recorded so far, in order of invocation."""
        self._read[region].go_on()
        return self._read[region].operations

    def all_operations(self) -> list[Operation]:
        """Everything that every region's clients recorded."""
        return [operation for region in self._world.regions for operation in self.operations(region)]

    def head_told(self, region: str) -> Mapping[str, Any]:
        """What a client in a region, which has seen nothing yet and asks no other, is told of the newest event of a run that all write."""
        run = self._shared.read_text(encoding="utf-8").split()[0]
        asking = self._client(f"ask-{region}", region, "run", "show", run, "--json", "--timeout", "15", others=False)
        asking.launch()
        if asking.wait(COLLECT_S) != 0:
            raise DrillError(f"{region} tells nothing of {run}:\n{asking.log_tail()}")
        told: dict[str, Any] = json.loads(asking.log.read_text(encoding="utf-8").splitlines()[-1])
        return told

    # --- what it came to ---

    def final_logs(self) -> FinalLogs:
        """Every run of the history, whole: as the leader has it, and as each region's replica shows it."""
        databases = self._world.databases
        for region in self._world.regions:
            if region != databases.leader:
                databases.wait_caught_up(region)
        runs = sorted(set(_runs_of(self.all_operations())))
        leader = _logs(self._collected("leader", databases.leader, runs, "latest"))
        regions = {
            region: _logs(self._collected(f"final-{region}", region, runs, "local")) for region in self._world.regions
        }
        return FinalLogs(leader=leader, regions=regions)

    def executed(self, fault_us: int) -> Executed | None:
        """What became of the runs that executors ran: waited for, and read. None where there are no executors."""
        if not self._orders:
            return None
        asked = [each for region in self._world.regions for each in orders.asked_in(self._asked(region))]
        ended = self._collected(
            "executed",
            self._world.databases.leader,
            [each.run for each in asked],
            "latest",
            "--until-ended",
            str(END_S),
        )
        kinds = {run: found["ended"] for run, found in ended.items()}
        doubtful = self._in_doubt()
        effects = self._world.effects()
        return Executed(
            runs=len(asked),
            completed=sum(kind == "run.completed" for kind in kinds.values()),
            in_doubt=len(doubtful & kinds.keys()),
            unfinished=[run for run, kind in kinds.items() if kind not in collect.TERMINAL and run not in doubtful],
            forks_continued=sum(
                each.kind != "run" and each.at_us >= fault_us and kinds[each.run] == "run.completed" for each in asked
            ),
            effects=len(effects),
            effects_twice=len(effects) - len(set(effects)),
        )

    def _in_doubt(self) -> set[str]:
        """Runs that wait for a person, because an effect of theirs was under way when its executor died."""
        listed = self._client("effects", self._world.databases.leader, "effects", "list", "--in-doubt", "--json")
        listed.launch()
        if listed.wait(COLLECT_S) != 0:
            raise DrillError(f"effects could not be listed:\n{listed.log_tail()}")
        lines = [line for line in listed.log.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
        return {json.loads(line)["runId"] for line in lines}

    def _collected(
        self, name: str, region: str, runs: Sequence[str], freshness: collect.Freshness, *more: str
    ) -> dict[str, Any]:
        wanted, out = self._world.folder / f"{name}-runs.txt", self._world.folder / f"{name}.json"
        wanted.write_text("".join(f"{run}\n" for run in runs), encoding="utf-8")
        argv = ["--runs", str(wanted), "--out", str(out), "--freshness", freshness, *more]
        reading = self._process(f"collect-{name}", region, collect.__name__, argv)
        reading.launch()
        if reading.wait(COLLECT_S) != 0:
            raise DrillError(f"logs could not be read in {region}:\n{reading.log_tail()}")
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found

    # --- how it is put together ---

    def _load(self, region: str, seed: int, rate: float) -> Program:
        argv = ["--client", region, "--history", str(self._history(region)), "--shared", str(self._shared)]
        argv += ["--seed", str(seed), "--rate", str(rate)]
        return self._process(f"load-{region}", region, "isoline_drill.load", argv)

    def _order(self, region: str, seed: int) -> Program:
        argv = ["--out", str(self._asked(region)), "--seed", str(seed)]
        return self._process(f"orders-{region}", region, orders.__name__, argv)

    def _process(self, name: str, region: str, module: str, argv: Sequence[str]) -> Program:
        reach = ["--region", region, *self._world.server_options(region), "--key-file", str(self._world.key_file)]
        return self._world.program(name, region, [sys.executable, "-m", module, *reach, *argv])

    def _client(self, name: str, region: str, *command: str, others: bool = True) -> Program:
        reach = [*self._world.server_options(region, others=others), "--api-key-file", str(self._world.key_file)]
        return self._world.program(name, region, [sys.executable, "-m", "isoline_client.cli", *command, *reach])

    @property
    def _shared(self) -> Path:
        return self._world.folder / "shared-runs.txt"

    def _history(self, region: str) -> Path:
        return self._world.folder / f"history-{region}.jsonl"

    def _asked(self, region: str) -> Path:
        return self._world.folder / f"orders-{region}.jsonl"

    def _check_alive(self) -> None:
        for load in self._loads.values():
            if not load.running:
                raise DrillError(f"{load.name} has ended:\n{load.log_tail()}")


class _Reading:
    """A history that is being written, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reader = HistoryReader()
        self._read_bytes = 0

    @property
    def operations(self) -> list[Operation]:
        return self._reader.operations

    def go_on(self) -> list[Operation]:
        """What was written since the last time."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as lines:
            lines.seek(self._read_bytes)
            new = lines.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        return self._reader.feed(whole.decode())


def _acknowledged(operations: Iterable[Operation]) -> Iterable[int]:
    return (
        each.completed_us
        for each in operations
        if isinstance(each, Append) and each.outcome == "ok" and each.completed_us is not None
    )


def _runs_of(operations: Iterable[Operation]) -> Iterable[str]:
    return (each.run for each in operations if isinstance(each, Create | Fork) and each.run)


def _logs(found: Mapping[str, Any]) -> dict[str, Log]:
    return {run: [Entry(*entry) for entry in each["log"]] for run, each in found.items()}
