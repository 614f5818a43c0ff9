"""What a drill came to: values, their JSON, and tables for people. Pure but for printing to the console that is handed in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from isoline_drill.checker import Verdict
from isoline_drill.failover import Way
from isoline_drill.timeline import BUCKET_MS, SHOWN, Timeline

FINDINGS_SHOWN: Final = 20
_ROW_S: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """How long appends stood still, and who promoted. ``detection_ms`` is a setting: how long the operator waited before acting, or Patroni's
    ``ttl_s``, of which up to a second is over when the fault comes: then it is what was left.

    ``rto_ms``: from the fault to the first append acknowledged by the new leader, without the detection. ``promotion_ms``: the promoter's part
    of it, until the promotion is acknowledged: the new leader leads and a standby follows it, before which no commit has a quorum.
    ``own_rto_ms``: Isoline's part, from there to that append: servers find the new leader, and a client that waited is answered.
    """

    way: Way
    ttl_s: int | None
    detection_ms: int
    rto_ms: int
    promotion_ms: int
    own_rto_ms: int


def failover_of(
    *, way: Way, ttl_s: int | None, detection_ms: int, acting_ms: int, outage_ms: int, own_rto_ms: int
) -> Failover:
    """Apart what was waited for by setting and what was not: all counted from the fault, ``acting_ms`` until somebody acted, ``outage_ms``
    until an append was acknowledged."""
    waited_ms = min(detection_ms, acting_ms)
    rto_ms = outage_ms - waited_ms
    return Failover(
        way=way,
        ttl_s=ttl_s,
        detection_ms=waited_ms,
        rto_ms=rto_ms,
        promotion_ms=rto_ms - own_rto_ms,
        own_rto_ms=own_rto_ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """Runs that executors ran. ``unfinished`` had not ended in time; ``in_doubt`` wait for a person, as they must: it is unknown what left."""

    runs: int
    completed: int
    in_doubt: int
    unfinished: Sequence[str]
    forks_continued: int
    effects: int
    effects_twice: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Staleness:
    """What reads of a cut-off region said of themselves: how many were tagged stale, and the oldest of them, in milliseconds."""

    region: str
    stale_reads: int
    oldest_ms: int | None
    untold: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One drill. ``wrong`` says in words what did not hold beside the checker's findings; nothing means that it passed."""

    drill: str
    seed: int
    wan: str
    took_s: float
    verdict: Verdict
    timeline: Timeline
    executed: Executed | None = None
    failover: Failover | None = None
    staleness: Sequence[Staleness] = ()
    wrong: Sequence[str] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return self.verdict.ok and not self.wrong

    def document(self) -> dict[str, Any]:
        """The JSON object of ``--json``."""
        verdict, failover, executed = self.verdict, self.failover, self.executed
        return {
            "drill": self.drill,
            "seed": self.seed,
            "wan": self.wan,
            "took_s": round(self.took_s, 1),
            "acknowledged": verdict.acknowledged,
            "acknowledged_events": verdict.acknowledged_events,
            "unknown": verdict.unknown,
            "unknown_landed": verdict.unknown_landed,
            "failed": verdict.failed,
            "reads": verdict.reads,
            "lost": verdict.lost,
            "duplicates": verdict.duplicates,
            "gaps": verdict.gaps,
            "failover": None if failover is None else failover.way,
            "ttl_s": None if failover is None else failover.ttl_s,
            "detection_ms": None if failover is None else failover.detection_ms,
            "rto_ms": None if failover is None else failover.rto_ms,
            "own_rto_ms": None if failover is None else failover.own_rto_ms,
            "promotion_ms": None if failover is None else failover.promotion_ms,
            "executed_runs": None if executed is None else executed.runs,
            "completed_runs": None if executed is None else executed.completed,
            "in_doubt_runs": None if executed is None else executed.in_doubt,
            "forks_continued": None if executed is None else executed.forks_continued,
            "effects": None if executed is None else executed.effects,
            "effects_twice": None if executed is None else executed.effects_twice,
            "staleness": [
                {
                    "region": each.region,
                    "stale_reads": each.stale_reads,
                    "oldest_ms": each.oldest_ms,
                    "untold": each.untold,
                }
                for each in self.staleness
            ],
            **self.notes,
            "findings": [str(finding) for finding in verdict.findings],
            "wrong": list(self.wrong),
            "verdict": "passed" if self.passed else "failed",
        }


def show(report: Report, console: Console) -> None:
    """The timeline, the figures, and the verdict."""
    console.print(_timeline_table(report.timeline))
    console.print(_figures(report))
    for finding in report.verdict.findings[:FINDINGS_SHOWN]:
        console.print(f"[red]{finding}[/red]", highlight=False)
    if len(report.verdict.findings) > FINDINGS_SHOWN:
        console.print(f"… and {len(report.verdict.findings) - FINDINGS_SHOWN} findings more (--json has them all)")
    for each in report.wrong:
        console.print(f"[red]{each}[/red]", highlight=False)
    style = "green" if report.passed else "red"
    console.print(
        f"[bold {style}]{report.drill} {'passed' if report.passed else 'FAILED'}[/] in {report.took_s:.0f} s, seed {report.seed}"
    )


def _timeline_table(timeline: Timeline) -> Table:
    """A row a second; a cell is appends/errors/reads (local+leader+stale)."""
    table = Table(
        title="each second: appends acknowledged · errors and unknown · reads local/leader/stale", title_justify="left"
    )
    table.add_column("s", justify="right")
    for region in timeline.counts:
        table.add_column(region, justify="right")
    table.add_column("what the drill did")
    per_row = _ROW_S * 1000 // BUCKET_MS
    for first in range(0, timeline.buckets, per_row):
        row = slice(first, first + per_row)
        marks = [
            mark.what
            for mark in timeline.marks
            if first <= timeline.seconds(mark.at_us) * 1000 / BUCKET_MS < first + per_row
        ]
        cells = [_cell([sum(timeline.counts[region][what][row]) for what in SHOWN]) for region in timeline.counts]
        table.add_row(str(first // per_row * _ROW_S), *cells, "; ".join(marks))
    return table


def _cell(counts: Sequence[int]) -> str:
    acknowledged, errors, local, leader, stale = counts
    shown = f"[red]{errors}[/red]" if errors else "0"
    return f"{acknowledged} · {shown} · {local}/{leader}/{stale}"


def _figures(report: Report) -> Table:
    table = Table(show_header=False, box=None)
    for name, value in report.document().items():
        if value is not None and name not in ("findings", "wrong", "verdict", "staleness", "drill", "seed"):
            table.add_row(name.replace("_", " "), str(value))
    for each in report.staleness:
        oldest = "age unknown" if each.oldest_ms is None else f"at most {each.oldest_ms / 1000:.1f} s old"
        table.add_row(f"stale reads in {each.region}", f"{each.stale_reads}, {oldest}")
    return table
