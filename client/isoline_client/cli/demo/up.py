"""``isoline up`` as a child process: started, asked where its servers are, stopped or left running. Nothing about what is done with it.

The server's package is run, never imported. Its own progress goes on to our stderr.
"""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final

from isoline_client.cli.failures import CommandError, Exit

START_S: Final = 300.0
"""Some seconds on an idle machine. The bound is for one that is not."""
STOP_S: Final = 90.0
_KEPT_VARIABLES: Final = frozenset({"ISOLINE_PG_BIN"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where a cluster is. The regions stand in their order, the leading one first."""

    addresses: dict[str, str]
    data_dir: Path

    @property
    def regions(self) -> tuple[str, ...]:
        return tuple(self.addresses)

    def pid_of(self, region: str) -> int:
        """The process that serves the region now: it changes when it is started again."""
        record = json.loads((self.data_dir / "cluster.json").read_text(encoding="utf-8"))
        return int(record["regions"][region]["pid"])


@asynccontextmanager
async def running_cluster(*, data_dir: Path | None, keep: bool, workflows: str) -> AsyncIterator[Cluster]:
    """A cluster, with executors of ``workflows`` (a module) in every region, that lives as long as the block.

    With ``keep`` it goes on behind it, unless the block was left by an error or Ctrl-C.
    """
    child = _launch(data_dir, detached=keep, workflows=workflows)
    try:
        yield await _ready(child)
    except BaseException:
        await _stop(child)
        raise
    if not keep:
        await _stop(child)


def _launch(data_dir: Path | None, *, detached: bool, workflows: str) -> "subprocess.Popen[bytes]":
    if find_spec("isoline_server") is None:
        raise CommandError("the demo starts servers, which are not installed: pip install 'isoline[embedded]'")
    place = ["--ephemeral"] if data_dir is None else ["--data-dir", str(data_dir)]
    tied = [] if detached else ["--exit-with-parent"]
    # Popen rather than asyncio's: the latter kills the child when the event loop goes. In the main thread: see --exit-with-parent.
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "isoline_server", "up", "--json", "--with-executor", workflows, *place, *tied],
        stdin=subprocess.DEVNULL if detached else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if _is_harmless(name)},
        start_new_session=True,  # Ctrl-C in the terminal is for us: we stop it when we are done with it
    )
    assert child.stderr is not None
    threading.Thread(target=_pass_on, args=(child.stderr,), name="up-progress", daemon=True).start()
    return child


def _is_harmless(name: str) -> bool:
    """A developer's shell may point servers at another database, or ask them for keys: this cluster is to be what the demo expects."""
    return not name.upper().startswith("ISOLINE_") or name in _KEPT_VARIABLES


def _pass_on(stream: IO[bytes]) -> None:
    for line in stream:
        sys.stderr.write(line.decode(errors="replace"))
        sys.stderr.flush()


async def _ready(child: "subprocess.Popen[bytes]") -> Cluster:
    assert child.stdout is not None
    try:
        async with asyncio.timeout(START_S):
            line = await asyncio.to_thread(child.stdout.readline)
    except TimeoutError:
        raise CommandError(f"the cluster was not ready within {START_S:.0f} s", Exit.UNAVAILABLE) from None
    if not line:
        raise CommandError("the cluster did not start; isoline up says above why", Exit.UNAVAILABLE)
    said: dict[str, Any] = json.loads(line)
    addresses = {region: str(each["address"]) for region, each in said["regions"].items()}
    return Cluster(addresses=addresses, data_dir=Path(said["data_dir"]))


async def _stop(child: "subprocess.Popen[bytes]") -> None:
    """Have it stop everything in order, and wait for it."""
    child.terminate()
    try:
        await asyncio.to_thread(child.wait, STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()  # which ends what it runs, too
        child.wait()
