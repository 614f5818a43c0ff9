"""One drill from its beginning to its report: the world, the load on it, the marks, the judgement. What is done to the world is the scenario's.

Time passes here (``let_pass``): a drill is made of waiting. Everything that can be waited for as a condition is.
"""

import random
import time
from collections.abc import Callable, Sequence
from typing import Final

from isoline_drill import traffic
from isoline_drill.checker import check
from isoline_drill.errors import DrillError
from isoline_drill.history import Append, Look, Operation
from isoline_drill.promotion import Moment
from isoline_drill.report import Executed, Failover, Report, Staleness, failover_of
from isoline_drill.timeline import Mark, make_timeline
from isoline_drill.world import World

FIRST_ACKNOWLEDGED_S: Final = 30.0


class Stage:
    """What a scenario is given."""

    def __init__(self, world: World, *, seed: int, rate: float, detection_s: float) -> None:
        self.world = world
        self.seed = seed
        self.rate = rate
        self.detection_s = detection_s
        self.dice = random.Random(seed)  # noqa: S311 - a drill that can be repeated, not a secret
        self.marks: list[Mark] = []
        self.wrong: list[str] = []
        self.failover: Failover | None = None
        self._since_s = time.monotonic()
        self._traffic = traffic.Traffic(world, seed=seed, rate=rate)
        self._fault_us = 0

    # --- for scenarios ---

    def mark(self, what: str) -> int:
        """Note that something was just done; the moment, in microseconds of the history's clock."""
        at_us = time.monotonic_ns() // 1000
        self.marks.append(Mark(at_us, what))
        self.world.report(what)
        return at_us

    def let_pass(self, seconds: float) -> None:
        """Let the load go on."""
        time.sleep(seconds)

    def start_traffic(self) -> None:
        """Begin the load of all regions, and return when each has had an append acknowledged."""
        self._traffic.start()
        self.mark("load begins")

    def fault(self, what: str, do: Callable[[], None]) -> int:
        """Do what the drill is about."""
        self._fault_us = self.mark(what)
        do()
        return self._fault_us

    def fail_over(self) -> None:
        """Have another region lead, in the way of this world's databases."""
        self._taken = self.world.databases.fail_over(self.detection_s)
        for step in self._taken.steps:
            self._mark_at(step.at, step.what)

    def wait_acknowledged(self, since_us: int, region: str | None = None) -> int:
        """Wait for an append that was acknowledged after a moment; when that was."""
        return self._traffic.wait_acknowledged(since_us, region, FIRST_ACKNOWLEDGED_S)

    def measure_failover(self) -> None:
        """From the fault and the promotion to the first append after it."""
        taken, databases = self._taken, self.world.databases
        first_us = self.wait_acknowledged(_us(taken.promoted))
        self.marks.append(Mark(first_us, "first append acknowledged"))
        if (following := taken.follower_streaming) is None:
            raise DrillError(f"no standby follows {taken.new}")
        self.failover = failover_of(
            way=databases.way,
            ttl_s=databases.ttl_s,
            detection_ms=round(taken.detection_s * 1000),
            acting_ms=(_us(taken.acting) - self._fault_us) // 1000,
            outage_ms=(first_us - self._fault_us) // 1000,
            # The first append may be answered before the operator's own look has seen the standby: then nothing is left for our part.
            own_rto_ms=max(0, (first_us - _us(following)) // 1000),
        )

    def check(self, holds: bool, otherwise: str) -> None:
        """Note what must hold and does not."""
        if not holds:
            self.wrong.append(otherwise)

    def operations(self, region: str) -> Sequence[Operation]:
        """What the clients of a region have done so far."""
        return self._traffic.operations(region)

    def head_told(self, region: str) -> Staleness:
        """What a region tells a client that knows nothing yet of the newest event of a run, when it asks for the latest."""
        told = self._traffic.head_told(region)
        stale = told["source"] == "stale"
        return Staleness(
            region=region,
            stale_reads=int(stale),
            oldest_ms=told["stalenessMs"],
            untold=int(stale and told["stalenessMs"] is None),
        )

    # --- the end ---

    def report(self, drill: str) -> Report:
        """End the load, read every log from everywhere, and judge."""
        self.mark("load ends")
        self._traffic.stop()
        executed = self._traffic.executed(self._fault_us)
        operations = self._traffic.all_operations()
        verdict = check(operations, self._traffic.final_logs(), self.world.effects())
        self.check(verdict.acknowledged > 0, "no append was acknowledged: the drill says nothing")
        if executed is not None:
            self.check(not executed.unfinished, f"executed runs did not end: {', '.join(executed.unfinished)}")
        return Report(
            drill=drill,
            seed=self.seed,
            wan=self.world.wan.kind,
            took_s=time.monotonic() - self._since_s,
            verdict=verdict,
            timeline=make_timeline(self.world.regions, operations, self.marks),
            executed=executed,
            failover=self.failover,
            staleness=self.staleness,
            wrong=self.wrong,
        )

    staleness: Sequence[Staleness] = ()

    def _mark_at(self, moment: Moment, what: str) -> None:
        self.marks.append(Mark(_us(moment), what))
        self.world.report(what)


def acknowledged_between(operations: Sequence[Operation], from_us: int, until_us: int) -> list[Append]:
    """Appends that were begun and acknowledged within a stretch of time."""
    return [
        each
        for each in operations
        if isinstance(each, Append)
        and each.outcome == "ok"
        and each.completed_us is not None
        and from_us <= each.invoked_us
        and each.completed_us <= until_us
    ]


def staleness_of(region: str, operations: Sequence[Operation], from_us: int, until_us: int) -> Staleness:
    """What the reads of a region that were begun within a stretch of time said of their age."""
    stale = [
        each
        for each in operations
        if isinstance(each, Look) and each.source == "stale" and from_us <= each.invoked_us <= until_us
    ]
    ages_ms = [each.staleness_ms for each in stale if each.staleness_ms is not None]
    return Staleness(
        region=region, stale_reads=len(stale), oldest_ms=max(ages_ms, default=None), untold=len(stale) - len(ages_ms)
    )


def _us(moment: Moment) -> int:
    return int(moment.monotonic_s * 1e6)


__all__ = ["Executed", "Stage", "acknowledged_between", "staleness_of"]
