"""``python -m benchmarks``: measure everything and write ``benchmarks/results.json`` and ``benchmarks/README.md``.

With ``--quick`` or ``--only`` the results are not whole, so they go to ``build/benchmarks`` instead.
"""

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from types import ModuleType

from benchmarks import (
    append_batch,
    append_many,
    append_one,
    disk,
    fork,
    machine,
    memory,
    read,
    regions,
    replay,
    report,
    verify,
)
from benchmarks.harness import Effort, Row
from benchmarks.machine import Machine
from benchmarks.processes import ROOT
from benchmarks.stage import Stage
from benchmarks.topology import Topology, topology

# Benchmarks with the same standbys stand together: they share one PostgreSQL. The one that fills gigabytes is its last.
BENCHMARKS: tuple[ModuleType, ...] = (
    append_one,
    append_many,
    append_batch,
    read,
    fork,
    replay,
    disk,
    memory,
    verify,
    regions,
)
ROUNDS = 7
QUICK_ROUNDS = 2
ROUNDS_MIN = 5


def main() -> int:
    asked = _arguments()
    effort = Effort(rounds=asked.rounds or (QUICK_ROUNDS if asked.quick else ROUNDS), quick=asked.quick)
    chosen = [each for each in BENCHMARKS if not asked.only or each.NAME in asked.only]
    whole = not asked.quick and len(chosen) == len(BENCHMARKS) and effort.rounds >= ROUNDS_MIN
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as at Ctrl-C: everything that was started, in order
    started = time.monotonic()
    try:
        rows, found = _measure(chosen, effort, asked.data_dir)
    except KeyboardInterrupt:
        _say("interrupted; everything was ended, nothing was written")
        return 130
    folder = ROOT / "benchmarks" if whole else ROOT / "build" / "benchmarks"
    report.write(folder, rows, found, " ".join(["python -m benchmarks", *sys.argv[1:]]))
    _say(f"\n{report.table(rows)}\n{time.monotonic() - started:.0f} s; written to {folder}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [each.NAME for each in BENCHMARKS]
    parser.add_argument("--quick", action="store_true", help="little work and few rounds: to try the programs")
    parser.add_argument(
        "--only", action="append", choices=names, metavar="NAME", help=f"one of {', '.join(names)}; again for more"
    )
    parser.add_argument(
        "--rounds", type=int, help=f"rounds of every benchmark ({ROUNDS}; at least {ROUNDS_MIN} for a whole result)"
    )
    parser.add_argument(
        "--data-dir", type=Path, help="where the database files go meanwhile (a folder of temporary files)"
    )
    return parser.parse_args()


def _measure(chosen: Iterable[ModuleType], effort: Effort, data_dir: Path | None) -> tuple[list[Row], Machine]:
    rows: list[Row] = []
    found: Machine | None = None
    for standbys, group in groupby(chosen, key=lambda each: each.STANDBYS):
        with topology(data_dir, standbys, _say) as place:
            found = found or machine.describe(place, data_dir)
            for benchmark in group:
                rows += _run(benchmark, place, effort)
    assert found is not None
    return rows, found


def _run(benchmark: ModuleType, place: Topology, effort: Effort) -> list[Row]:
    _say(f"{benchmark.NAME} …")
    started = time.monotonic()
    rows: list[Row] = asyncio.run(benchmark.measure(Stage(place, effort, _say)))
    _say(f"{benchmark.NAME}: {time.monotonic() - started:.0f} s")
    for each in rows:
        _say(f"  {' | '.join(report.cells(each)[:6])}")
    return rows


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
