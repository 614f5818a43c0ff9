"""The replay worker as a process: started with nothing but one socket, heard until it ends, killed when it must.

What is said over the socket is not known here.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from isoline_client.guard.errors import WorkerDied
from isoline_client.guard.frames import Frames
from isoline_client.guard.isolation import IsolationReport
from isoline_client.guard.switches import SWITCHES
from isoline_client.limits import WORKER_LAST_WORDS_BYTES, WORKER_START_TIMEOUT_S, WORKER_STOP_TIMEOUT_S

_SECRETS: Final = ("ISOLINE_API_KEY",)
"""Variables of the environment that a worker has no use for: it talks to no server."""


@dataclass(slots=True, kw_only=True, eq=False)
class WorkerProcess:
    """One process that has said what holds it in."""

    frames: Frames
    isolation: IsolationReport
    pid: int
    _process: asyncio.subprocess.Process
    _scratch: tempfile.TemporaryDirectory[str]
    _last_words: bytearray = field(default_factory=bytearray)
    _listening: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls) -> "WorkerProcess":
        """Start one, and wait until it is shut in. It dies with the thread that calls this."""
        scratch = tempfile.TemporaryDirectory(prefix="isoline-replay-", ignore_cleanup_errors=True)
        inside = Path(scratch.name) / "scratch"
        inside.mkdir()
        ours, theirs = socket.socketpair()
        with contextlib.closing(theirs):
            process = await _spawn(theirs)
        frames = await Frames.over(ours)
        made = cls(frames=frames, isolation=IsolationReport(), pid=process.pid, _process=process, _scratch=scratch)
        made._listening = asyncio.create_task(made._listen())
        try:
            async with asyncio.timeout(WORKER_START_TIMEOUT_S):
                made.isolation = await made._greet(inside)
        except TimeoutError:
            await made.stop()
            raise WorkerDied(f"it was not ready within {WORKER_START_TIMEOUT_S:g} s") from None
        except BaseException:
            await made.stop()
            raise
        return made

    async def _greet(self, scratch: Path) -> IsolationReport:
        """Tell the process how to shut itself in. A port that answers is lent for the time: it must not be reachable from inside."""
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
            switches = [SWITCHES.seams, SWITCHES.hooks, SWITCHES.carrying]
            start = {"op": "start", "parent": os.getpid(), "scratch": str(scratch), "port": listener.getsockname()[1]}
            await self.frames.send({**start, "fences": asdict(SWITCHES.fences), "switches": switches})
            answer = await self.frames.receive()
        if answer is None:
            raise WorkerDied(await self.why())
        return IsolationReport.from_document(answer["isolation"])

    async def why(self) -> str:
        """How the process ended and what it last said."""
        code = await self._process.wait()
        if self._listening is not None:
            await self._listening
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        said = self._last_words.decode(errors="replace").strip()
        return f"{how}: {said}" if said else how

    def kill(self) -> None:
        """End it at once; whoever waits for its messages learns of it.

        Not through ``Process.kill``, which looks at the process first and so may take its exit status away from who waits for it.
        """
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    async def stop(self) -> None:
        """End it: it goes when its channel is closed, or is killed."""
        self.frames.close()
        try:
            async with asyncio.timeout(WORKER_STOP_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()
        if self._listening is not None:
            await self._listening
        self._scratch.cleanup()

    async def _listen(self) -> None:
        """Keep the end of what the process says on its standard error."""
        assert self._process.stderr is not None
        while part := await self._process.stderr.read(WORKER_LAST_WORDS_BYTES):
            self._last_words += part
            del self._last_words[:-WORKER_LAST_WORDS_BYTES]


async def _spawn(channel: socket.socket) -> asyncio.subprocess.Process:
    environment = {name: value for name, value in os.environ.items() if name not in _SECRETS}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "isoline_client.guard.worker_main",
        str(channel.fileno()),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        pass_fds=(channel.fileno(),),
        start_new_session=True,
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
