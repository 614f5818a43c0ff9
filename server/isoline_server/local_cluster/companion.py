"""An executor as a child of the server, for set-ups that are too small for processes of their own: started once the server answers, started
again when it dies, drained before the server stops. The program is the command line's; nothing of it is imported here."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

import structlog

from isoline_server.local_cluster import leash

GRACE_S: Final = 20
"""What the executor's nodes under way may take to end: its own default."""
AGAIN_AFTER_S: Final = 1.0
"""Pause before an executor that died is started again."""

log: Final = structlog.get_logger()


def executor_beside(region: str, workflows: str) -> Callable[[str], AbstractAsyncContextManager[None]]:
    """What runs an executor of these workflows beside a server, given the server's address."""

    @asynccontextmanager
    async def beside(address: str) -> AsyncIterator[None]:
        keeping = asyncio.create_task(_keep(_command(address, region, workflows)))
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])

    return beside


def _command(address: str, region: str, workflows: str) -> list[str]:
    program = [sys.executable, "-m", "isoline_client.cli", "executor"]
    options = [
        "--server",
        f"{region}={address}",
        "--region",
        region,
        "--workflows",
        workflows,
        "--grace",
        f"{GRACE_S}s",
    ]
    return [sys.executable, "-I", "-S", str(Path(leash.__file__)), str(os.getpid()), *program, *options]


async def _keep(command: list[str]) -> None:
    """Have it running until cancelled, then drain it."""
    while True:
        # A session of its own: Ctrl-C in a terminal is for the server, which drains it.
        child = await asyncio.create_subprocess_exec(*command, start_new_session=True)
        try:
            code = await child.wait()
        except asyncio.CancelledError:
            await _drain(child)
            raise
        log.error("the executor ended; it is started again", code=code)
        await asyncio.sleep(AGAIN_AFTER_S)


async def _drain(child: asyncio.subprocess.Process) -> None:
    child.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(GRACE_S + 5):
            await child.wait()
    except TimeoutError:
        child.kill()
        await child.wait()
