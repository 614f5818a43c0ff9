"""The results as ``results.json`` for programs and as ``README.md`` for people."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.harness import Row
from benchmarks.machine import Machine

RESULTS = "results.json"
README = "README.md"

_METHOD = """\
## What is compared

The **floor** is a program of our own that does the same over gRPC and PostgreSQL and has no features (`floor/`): `grpc.aio` and psycopg with
prepared statements and binary parameters, one table, the expected version in one statement; no digest, chain, receipt, validation, tenant or
retry. It is what a log service costs in Python before it does anything for its users. Isoline runs as it always does: the server as
`isoline serve` starts it, with digest, chain, receipt and snapshots on; the client as it comes, which verifies.

- **The same conditions.** One machine, one PostgreSQL with fsync on and no standby to wait for on either side, a database for each side, the
  same payloads of 256 B (JSON objects that compress badly), the same numbers of calls and callers. All callers of a side are tasks of the
  one process that measures, on plain asyncio, over one gRPC channel. Our client puts what they append in one turn of the loop into one call
  (`AppendMany`), as it does for everybody; the floor's stub makes a call each.
- **In turns.** In every round each side is measured once, one right after the other, and the order turns around from round to round; a first
  round warms up and does not count. A number is the median over the rounds; the spread is their lowest and highest.
- **Event loops.** Our server uses uvloop where it is installed, as it does for everybody. The floor is on plain asyncio, which is what a
  program without further thought gets. The rows "floor on uvloop" show the same comparison with that difference taken away.
- **Ratios** are ours divided by the floor, of the medians: for rates more is better, for times and sizes less.

## What the rows mean

- **append**: a call returns when its events are committed. Latencies (p50, p99) are over the calls of all rounds together.
- **read**: until every payload is in the client's hands; ours also recomputes the digest of every event. "Records left unparsed" is what a
  client pays that only verifies or stores. The floor sends pages of 1,000 events, ours pages of just under 1 MiB.
- **fork**: its "floor" is one append of ours, made in turns with the forks, for the floor's server has no forks. The source runs are known to
  the server, as they are while somebody works with them; a server that never saw the source reads it first, which is one more query.
- **replay**: from the call that forks to the terminal event in a tail of the fork; the executor and its shut-in worker run as `isoline executor`
  starts them. Half of the nodes send a datagram when the source runs; the listener counts what the replays send. The pure nodes are executed
  again. The events are the executor's own, not of 256 B. "Per pure node" is the time of a live run divided by its nodes.
- **verify**: three servers, one in front of the primary and two in front of hot standbys (a commit waits for one of them). The first way
  reads everything from all three regions into one client, the second lets every region recompute its chain and compares the digests.
- **memory**: of the server process (`VmRSS`, looked at every 20 ms), over what it takes when idle. Every stream has a fresh process. The
  highest of all rounds counts, not the median. MB are 10^6 bytes.
- **disk**: growth of `pg_total_relation_size` over all tables, in a database that holds nothing else. With one event a call every event has
  a receipt of its own, the price of answering a repeated request.

- **regions** (rows "from eu", "from us", "from ap"): the world of `isoline drill`, with the leader in eu, 30 ms from us and 80 ms from ap. The "floor" is
  a bare `SELECT 1` at the leader over a warm connection from the same region: one round trip. A commit waits for one of the two standbys, so an
  append at home takes the round trip to the nearer one. "Cut off" is measured after the region was isolated: no packet leaves it. A fork from far is
  two round trips and more (the boundary's digest is asked of the leader, then the fork is made there).

## What the numbers do not say

Client, servers and database share the cores of one machine, so a rate here is bound by all of them together; with the database elsewhere, both
sides wait for the network and come closer to each other. The disk decides single appends: with a flush of 2 ms every one-event call falls to
some 400 a second, on both sides. Differences under a tenth are noise. Nothing is said about several regions far apart: there, a commit takes
the round trip between them, whatever the program does. The rows "from eu", "from us" and "from ap" say something about that: there, distances of
30, 80 and 120 ms are made by a router between network namespaces, and everything still shares the cores.
"""


def write(folder: Path, rows: Sequence[Row], machine: Machine, command: str) -> None:
    """Write both files."""
    folder.mkdir(parents=True, exist_ok=True)
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    (folder / RESULTS).write_text(
        json.dumps(_document(rows, machine, command, date), indent=2, ensure_ascii=False) + "\n"
    )
    (folder / README).write_text(_readme(rows, machine, command, date))


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    head = "| what | ours | floor | ratio | target | met | spread ours | spread floor |\n"
    rule = "| --- | ---: | ---: | ---: | --- | --- | --- | --- |\n"
    return head + rule + "".join(f"| {' | '.join(cells(row))} |\n" for row in rows)


def _document(rows: Sequence[Row], machine: Machine, command: str, date: str) -> dict[str, object]:
    return {
        "date": date,
        "command": command,
        "machine": machine.facts,
        "rows": [
            {
                "name": row.name,
                "value": _rounded(row.value),
                "unit": row.unit,
                "floor": _rounded(row.floor),
                "ratio": _rounded(row.ratio),
                "target": None if row.target is None else row.target.text,
                "met": row.met,
            }
            for row in rows
        ],
        "samples": {
            row.name: {
                "ours": [_rounded(each) for each in row.samples],
                "floor": [_rounded(each) for each in row.floor_samples],
            }
            for row in rows
        },
    }


def _readme(rows: Sequence[Row], machine: Machine, command: str, date: str) -> str:
    facts = "".join(f"- {name}: {value}\n" for name, value in machine.facts.items())
    asked = [row for row in rows if row.met is not None]
    met = sum(1 for row in asked if row.met)
    return (
        "# Benchmarks\n\n"
        f"Written by `{command}` on {date}; do not edit. {met} of {len(asked)} targets are met. The same numbers, with every round, are in\n"
        f"`{RESULTS}`. To measure on your machine: `make bench` (some ten minutes, and nothing else should run meanwhile).\n\n"
        f"{table(rows)}\nMeasured on:\n\n{facts}\n{_METHOD}"
    )


def cells(row: Row) -> list[str]:
    return [
        row.name,
        _number(row.value, row.unit),
        "–" if row.floor is None else _number(row.floor, row.unit),
        "–" if row.ratio is None else f"{row.ratio:.2f}",
        "–" if row.target is None else row.target.text,
        {True: "yes", False: "**no**", None: "–"}[row.met],
        _spread(row.samples),
        _spread(row.floor_samples),
    ]


def _number(value: float, unit: str) -> str:
    return f"{_plain(value)} {unit}".strip()


def _spread(samples: Sequence[float]) -> str:
    return f"{_plain(min(samples))} … {_plain(max(samples))}" if len(samples) > 1 else "–"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
