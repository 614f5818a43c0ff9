"""The executed half of a drill's load, as a process of one region: begins runs with effects, and replays and branches of those that ended.

``python -m isoline_drill.orders --region R --server … --key-file F --out FILE --seed N --every-ms N``, until SIGTERM. A line of ``--out``
is one run that was made: ``{"run", "kind", "region", "at_us"}``. Executors run them, and the shops count their effects; nothing is judged here.
"""

import argparse
import asyncio
import json
import random
import signal
import time
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from isoline_client import Client, IsolineError
from isoline_client.ids import new_request_id
from isoline_client.values import RunInfo
from isoline_drill.workflows import ORDERS_ID

CALL_S: Final = 60.0
"""A call is tried again for this long, over any failover."""
AT_ONCE_MAX: Final = 8
FROM_SEQ: Final = 3
"""Forks begin behind the first node, before every effect."""

Kind = Literal["run", "replay", "branch"]
KINDS: Final[tuple[Kind, ...]] = ("run", "replay", "branch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One run that was asked for."""

    run: str
    kind: Kind
    region: str
    at_us: int


class Orders:
    """Asks for runs at an even pace, and notes each."""

    def __init__(self, client: Client, region: str, out: Path, seed: int) -> None:
        self._client = client
        self._region = region
        self._out = out
        self._dice = random.Random(f"{seed} {region}")  # noqa: S311 - a drill that can be repeated, not a secret
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self, every_ms: int, stopping: asyncio.Event) -> None:
        """Until told to stop; then what is under way is ended."""
        while not stopping.is_set():
            if len(self._under_way) < AT_ONCE_MAX:
                task = asyncio.create_task(self._one())
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)
            try:
                async with asyncio.timeout(every_ms / 1000):
                    await stopping.wait()
            except TimeoutError:
                pass
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=5)

    async def _one(self) -> None:
        kind = self._dice.choices(KINDS, (3, 2, 1))[0]
        at_us = time.monotonic_ns() // 1000
        try:
            source = None if kind == "run" else await self._ended_run()
            if source is None or kind == "run":
                kind, run = "run", await self._start()
            else:
                run = await self._fork(source, kind)
        except IsolineError:
            return  # nobody learnt its id; if it was made, it is executed, and its effects count all the same
        self._note(Asked(run=run, kind=kind, region=self._region, at_us=at_us))

    async def _start(self) -> str:
        run = await self._client.start_run(
            ORDERS_ID, {}, home_region=self._region, request_id=new_request_id(), timeout_s=CALL_S
        )
        return run.run_id

    async def _fork(self, source: RunInfo, kind: Literal["replay", "branch"]) -> str:
        fork = await self._client.run(source.run_id).fork(
            FROM_SEQ, mode=kind, home_region=self._region, request_id=new_request_id(), timeout_s=CALL_S
        )
        return fork.run_id

    async def _ended_run(self) -> RunInfo | None:
        """Any run that ended and is no fork, whichever region it is of; None when there is none yet."""
        newest = [info async for info in _first(self._client, 30)]
        ended = [info for info in newest if info.terminal_seq is not None and info.fork is None]
        return self._dice.choice(ended) if ended else None

    def _note(self, asked: Asked) -> None:
        with self._out.open("a", encoding="utf-8") as out:
            out.write(json.dumps(asdict(asked)) + "\n")


async def _first(client: Client, many: int) -> AsyncGenerator[RunInfo, None]:
    """The newest runs."""
    left = many
    async for info in client.list_runs(ORDERS_ID, page_size=many):
        yield info
        left -= 1
        if not left:
            return


def asked_in(path: Path) -> list[Asked]:
    """What a process noted."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [Asked(**json.loads(line)) for line in lines if line.endswith("\n")]


async def _main(options: argparse.Namespace) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    addresses = [each.partition("=")[2] for each in options.server]
    key = options.key_file.read_text(encoding="utf-8").strip()
    async with Client(addresses, api_key=key) as client:
        await Orders(client, options.region, options.out, options.seed).run(options.every_ms, stopping)


def options_of(description: str) -> argparse.ArgumentParser:
    """What all processes of a drill that are clients are told."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--region", required=True)
    parser.add_argument("--server", action="append", required=True, metavar="REGION=HOST:PORT")
    parser.add_argument("--key-file", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    return parser


if __name__ == "__main__":
    parsing = options_of("Runs with effects, replays and branches, at an even pace.")
    parsing.add_argument("--seed", type=int, default=1)
    parsing.add_argument("--every-ms", type=int, default=1500)
    asyncio.run(_main(parsing.parse_args()))
