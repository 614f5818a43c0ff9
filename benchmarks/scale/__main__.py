"""``python -m benchmarks.scale``: load runs, measure sizes and times at every point, write what was found as JSON."""

import argparse
import asyncio
import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from benchmarks import machine, sides
from benchmarks.scale import load, sizes, times
from benchmarks.topology import Server, Topology, topology

SEEDS = 1_000
POINTS = (1_000, 10_000, 100_000, 1_000_000)
LONG_EVENTS = 100_000
ROUNDS = 60
CLAIMS = 30
WAITING = (100, 10_000)
WAL_APPENDS = 200
COPIES_AT_ONCE = 30


def main() -> int:
    asked = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as at Ctrl-C: everything that was started, in order
    points = [each for each in POINTS if asked.runs_from <= each <= asked.runs]
    with topology(asked.data_dir, (), _say) as place:
        facts = machine.describe(place, asked.data_dir).facts
        found: list[dict[str, object]] = []
        for one in _measure(place, points, asked.quick):
            found.append(one)
            if asked.json:  # after every point: the largest takes long, and what came before it is worth keeping
                asked.json.write_text(_text(facts, found))
    if not asked.json:
        sys.stdout.write(_text(facts, found))
    return 0


def _text(facts: dict[str, str], points: Sequence[dict[str, object]]) -> str:
    return json.dumps({"machine": facts, "points": points}, indent=1, ensure_ascii=False) + "\n"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--runs", type=int, default=POINTS[-1], help="the most runs that are loaded (1,000,000: 9 GB)")
    parser.add_argument("--runs-from", type=int, default=SEEDS, help="the fewest runs that are measured (1,000)")
    parser.add_argument("--quick", action="store_true", help="few calls and a short long run: to try the program")
    parser.add_argument("--json", type=Path, metavar="OUT", help="where the result goes (standard output)")
    parser.add_argument("--data-dir", type=Path, help="where the database files go meanwhile")
    asked = parser.parse_args()
    if not any(asked.runs_from <= each <= asked.runs for each in POINTS):
        parser.error(f"--runs, --runs-from: none of {', '.join(map(str, POINTS))} is between them")
    return asked


def _measure(place: Topology, points: Sequence[int], quick: bool) -> Iterator[dict[str, object]]:
    database = place.migrated_database()
    place.execute("postgres", "ALTER SYSTEM SET max_wal_size = '4GB'")
    place.execute("postgres", "SELECT pg_reload_conf()")
    long_events = LONG_EVENTS // 20 if quick else LONG_EVENTS
    seeds: tuple[str, ...] = ()
    long_id, copies = "", 0
    for runs in points:
        started = time.monotonic()
        if not seeds:
            with place.isoline(database) as server:
                seeds = tuple(asyncio.run(_seed(server)))
            load.keep_seeds(place, database)
        _copy(place, database, copies + 1, runs // SEEDS)
        if not copies and runs > SEEDS:
            load.check_copies(place, database)
        copies = runs // SEEDS - 1
        place.execute(database, "VACUUM (ANALYZE)")
        place.checkpoint()
        size = sizes.measure(place, database)
        _say(f"{runs:,} runs: loaded in {time.monotonic() - started:.0f} s")
        if not long_id:
            with place.isoline(database) as server:
                long_id = asyncio.run(_long(server, long_events))
        loaded = times.Loaded(seeds, copies, long_id, long_events)
        with place.isoline(database) as server:
            one = asyncio.run(_point(place, database, server, loaded, quick))
        load_s = time.monotonic() - started
        _say(json.dumps(one["times"]))
        yield {"runs": runs, "seconds": load_s, "sizes": asdict(size), **one}


def _copy(place: Topology, database: str, first: int, end: int) -> None:
    """Two sessions, each with transactions of some hundred thousand rows: more at once would be gigabytes before the first checkpoint."""
    parts = [range(start, min(start + COPIES_AT_ONCE, end)) for start in range(first, end, COPIES_AT_ONCE)]
    with ThreadPoolExecutor(2) as pool:
        copied = [(part, pool.submit(load.copy_runs, place, database, part)) for part in parts]
        for part, future in copied:
            future.result()
            _say(f"  {(part[-1] + 1) * SEEDS:,} runs")


async def _seed(server: Server) -> list[str]:
    async with sides.ours(server.address) as log:
        return await load.seed_runs(log.client, SEEDS)


async def _long(server: Server, events: int) -> str:
    async with sides.ours(server.address) as log:
        run_id = await load.long_run(log.client, events)
        await log.client.run(run_id).state()
        return run_id


async def _point(
    place: Topology, database: str, server: Server, loaded: times.Loaded, quick: bool
) -> dict[str, object]:
    async with sides.ours(server.address) as log:
        timed = await times.measure(place, database, log.client, loaded, 20 if quick else ROUNDS)
        wal = await times.wal_per_append(place, database, log.client, loaded, 20 if quick else WAL_APPENDS)
        runs = len(loaded.seeds) * (loaded.copies + 1)
        for waiting in WAITING:
            if waiting <= runs // 10:
                timed |= await times.claims(place, database, log.client, waiting, 5 if quick else CLAIMS)
        return {
            "times": {name: asdict(each) for name, each in timed.items()},
            "wal_bytes_an_append": wal,
            "server_rss_bytes": server.child.rss_bytes(),
        }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
