"""``python -m benchmarks.scale.report FILE…``: what was measured, beside what the model says of as many rows, as Markdown tables."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.payloads import EVENT_BYTES
from benchmarks.scale import model


def load_of(rows: dict[str, int]) -> model.Load:
    """What is stored, told by the counts of rows. Every run and every fork has a receipt of its own; the others are of appends."""
    return model.Load(
        runs=rows["runs"] - rows["lineage"],
        forks=rows["lineage"],
        events=rows["events"],
        appends=rows["receipts"] - rows["runs"],
        snapshots=rows["snapshots"],
        state_bytes=STATE_BYTES,
        event_bytes=EVENT_BYTES,
    )


STATE_BYTES = 150
"""Of runs without variables and channels, as the benchmark's are."""


def sizes(points: Sequence[dict[str, Any]]) -> str:
    """Measured and predicted MB of every relation above a megabyte at the largest point, and of all tables together."""
    biggest = points[-1]["sizes"]["main_bytes"]
    predicted = [model.predict(load_of(each["sizes"]["rows"])) for each in points]
    names = [name for name in predicted[-1].relations if biggest[name] > 1_000_000]
    lines = [_line("MB", [f"{each['runs']:,} runs" for each in points]), "| --- |" + " ---: |" * len(points)]
    for name in sorted(names, key=lambda each: -biggest[each]):
        pairs = [
            (one.relations[name], each["sizes"]["main_bytes"][name])
            for one, each in zip(predicted, points, strict=True)
        ]
        lines.append(_line(f"`{name}`", [_beside(*pair) for pair in pairs]))
    whole = [(one.total_bytes, _total(each)) for one, each in zip(predicted, points, strict=True)]
    lines.append(_line("all, `pg_total_relation_size`", [_beside(*pair) for pair in whole]))
    lines.append(
        _line("bytes a run, measured", [f"{_total(each) / each['sizes']['rows']['runs']:,.0f}" for each in points])
    )
    return "\n".join(lines)


def times(points: Sequence[dict[str, Any]]) -> str:
    """Median and 99th percentile, in milliseconds."""
    names = list(dict.fromkeys(name for each in points for name in each["times"]))
    lines = [
        _line("ms, median (p99)", [f"{each['runs']:,} runs" for each in points]),
        "| --- |" + " ---: |" * len(points),
    ]
    lines += [_line(name, [_timed(each["times"].get(name)) for each in points]) for name in names]
    for kind in ("hot", "random"):
        cells = [f"{each['wal_bytes_an_append'][kind]:,.0f} B" for each in points]
        lines.append(_line(f"WAL of an append to {'one run' if kind == 'hot' else 'random runs'}", cells))
    lines.append(_line("memory of the server", [f"{each['server_rss_bytes'] / 1e6:.0f} MB" for each in points]))
    return "\n".join(lines)


def _total(point: dict[str, Any]) -> int:
    return sum(point["sizes"]["total_bytes"].values())


def _beside(predicted: int, measured: int) -> str:
    return f"{measured / 1e6:,.2f} ({predicted / measured - 1:+.1%})"


def _timed(one: dict[str, float] | None) -> str:
    return "–" if one is None else f"{one['median_ms']:.1f} ({one['p99_ms']:.0f})"


def _line(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def main() -> int:
    points = [point for name in sys.argv[1:] for point in json.loads(Path(name).read_text())["points"]]
    sys.stdout.write(f"{sizes(points)}\n\n{times(points)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
