"""Reads whole logs when all is over, as a process of one region: what the history is held against.

``python -m isoline_drill.collect --region R --server … --key-file F --out FILE --runs FILE --freshness latest|local [--until-ended S]``.
``--runs`` holds ids, one a line. ``--out`` becomes one JSON object, by run: ``{"log": [[seq, marker, digest], …], "ended": TYPE}``, the type
of the last event.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal

from isoline_client import Client, IsolineError
from isoline_client.errors import RunNotFound
from isoline_drill.load.carrying import entries
from isoline_drill.orders import options_of

AT_ONCE = 4
AGAIN_S = 0.2
PATIENCE_S = 30.0
"""A region may need this long to show what the leader has; then the read fails, and the drill with it."""

Freshness = Literal["latest", "local"]


async def _collect(options: argparse.Namespace) -> dict[str, Any]:
    runs: Sequence[str] = options.runs.read_text(encoding="utf-8").split()
    key = options.key_file.read_text(encoding="utf-8").strip()
    slots = asyncio.Semaphore(AT_ONCE)
    until_s = time.monotonic() + options.until_ended
    # One server only: a region's log is what that region answers.
    async with Client([options.server[0].partition("=")[2]], api_key=key) as client:

        async def one(run: str) -> tuple[str, Any]:
            async with slots:
                return run, await _read(client, run, options.freshness, until_s)

        found = await asyncio.gather(*(one(run) for run in runs))
        return {run: each for run, each in found if each is not None}


async def _read(client: Client, run: str, freshness: Freshness, until_s: float) -> Any:
    """The whole log; read again until its run has ended, or until the time is up."""
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            async with aclosing(client.run(run).read_pages(freshness=freshness)) as reading:
                pages = [page async for page in reading]
        except RunNotFound:
            return None  # said by the leader: it is lost, and the checker says so of a run that is not among the logs
        except IsolineError:
            if time.monotonic() > give_up_s:
                raise
            await asyncio.sleep(AGAIN_S)
            continue
        last = [event for page in pages for event in page][-1:]
        ended = last[0].type if last else ""
        if ended in TERMINAL or time.monotonic() > until_s:
            return {"log": entries(pages), "ended": ended}
        await asyncio.sleep(AGAIN_S)


TERMINAL = frozenset({"run.completed", "run.failed", "run.cancelled"})


def _main() -> None:
    parser = options_of("Whole logs of runs, as one region reads them.")
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--freshness", choices=("latest", "local"), default="latest")
    parser.add_argument("--until-ended", type=float, default=0.0, metavar="SECONDS")
    options = parser.parse_args()
    options.out.write_text(json.dumps(asyncio.run(_collect(options))), encoding="utf-8")


if __name__ == "__main__":
    _main()
