"""Judge a history: hold what all clients were told against the logs as they are in the end.

Pure: values in, a verdict out; no server, no file, no clock. What is proven of appends, of reads and of forks is in the module of that name;
here it is put together. The cost grows with the operations and events, and with their logarithm where they are sorted.

Every run of the final logs is judged as one that only the history's clients wrote. Whether digests are the SHA-256 chain of the bytes is not
judged here: that is the client's work at every read.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from isoline_drill.checker_appends import Request, check_appends, requests_of
from isoline_drill.checker_findings import Fault, FinalLogs, Finding
from isoline_drill.checker_forks import check_fork, check_made
from isoline_drill.checker_reads import check_reads, check_region
from isoline_drill.history import Append, Create, Fork, Look, Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Findings, and what the history held. Appends count by request id, however often each was sent; ``acknowledged_events`` are those that
    must be in the final logs."""

    findings: tuple[Finding, ...]
    operations: int
    runs: int
    forks: int
    acknowledged: int
    acknowledged_events: int
    unknown: int
    unknown_landed: int
    failed: int
    reads: int

    @property
    def ok(self) -> bool:
        return not self.findings

    def count(self, fault: Fault) -> int:
        """How many this fault concerns: events, runs that are gone, or performances of an effect beyond its first."""
        return sum(finding.events for finding in self.findings if finding.fault is fault)

    @property
    def lost(self) -> int:
        return self.count(Fault.LOST)

    @property
    def duplicates(self) -> int:
        return self.count(Fault.DUPLICATE)

    @property
    def gaps(self) -> int:
        return self.count(Fault.GAP)

    @property
    def effects_twice(self) -> int:
        return self.count(Fault.EFFECT_TWICE)


def check(operations: Iterable[Operation], final_logs: FinalLogs, effects: Iterable[str] = ()) -> Verdict:
    """Judge a history of any number of clients. ``effects`` are the ids of effects as the other side counted them, one for each time."""
    history = _History.of(operations)
    findings = [*_findings(history, final_logs), *_effects_twice(effects)]
    return _verdict(history, final_logs, tuple(findings))


@dataclass(slots=True)
class _OfRun:
    """What the history says of one run."""

    appends: list[Append] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    made: list[Create | Fork] = field(default_factory=list)
    requests: Sequence[Request] = ()


@dataclass(slots=True)
class _History:
    """All operations, by run; those that made a run whose id nobody learnt have no place and prove nothing."""

    count: int
    runs: dict[str, _OfRun]

    @staticmethod
    def of(operations: Iterable[Operation]) -> "_History":
        found = _History(0, {})
        for operation in operations:
            found.count += 1
            match operation:
                case Append():
                    found.run(operation.run).appends.append(operation)
                case Look():
                    found.run(operation.run).looks.append(operation)
                case Create() | Fork() if operation.outcome == "ok":
                    found.run(operation.run).made.append(operation)
        for of_run in found.runs.values():
            of_run.requests = requests_of(of_run.appends)
        return found

    def run(self, run: str) -> _OfRun:
        return self.runs.setdefault(run, _OfRun())


def _findings(history: _History, final_logs: FinalLogs) -> Iterator[Finding]:
    logs = final_logs.leader
    for run in sorted(history.runs.keys() | logs.keys()):
        told, log = history.runs.get(run, _OfRun()), logs.get(run, ())
        own_from = max((made.from_seq for made in told.made if isinstance(made, Fork)), default=0)
        yield from check_appends(run, told.requests, log, own_from)
        yield from check_reads(run, told.looks, [*told.made, *told.appends], log)
        for made in told.made:
            yield from check_made(made, logs)
            if isinstance(made, Fork):
                yield from check_fork(made, logs)
        for region, copies in final_logs.regions.items():
            yield from check_region(region, run, copies.get(run, ()), log)


def _effects_twice(effects: Iterable[str]) -> Iterator[Finding]:
    for effect, times in Counter(effects).items():
        if times > 1:
            what = f"{effect} was performed {times} times"
            yield Finding(fault=Fault.EFFECT_TWICE, run="", seq=None, what=what, events=times - 1)


def _verdict(history: _History, final_logs: FinalLogs, findings: tuple[Finding, ...]) -> Verdict:
    told = history.runs.values()
    requests = [request for each in told for request in each.requests]
    outcomes = Counter(request.outcome for request in requests)
    return Verdict(
        findings=findings,
        operations=history.count,
        runs=len(final_logs.leader),
        forks=sum(isinstance(made, Fork) for each in told for made in each.made),
        acknowledged=outcomes["ok"],
        acknowledged_events=sum(len(request.markers) for request in requests if request.outcome == "ok"),
        unknown=outcomes["unknown"],
        unknown_landed=_landed(history.runs, final_logs),
        failed=outcomes["failed"],
        reads=sum(look.outcome == "ok" for each in told for look in each.looks),
    )


def _landed(runs: Mapping[str, _OfRun], final_logs: FinalLogs) -> int:
    """Appends whose outcome nobody learnt and that are in the final log."""
    landed = 0
    for run, told in runs.items():
        there = {entry.marker for entry in final_logs.leader.get(run, ())}
        landed += sum(request.outcome == "unknown" and request.markers[0] in there for request in told.requests)
    return landed
