"""One run of one command: its servers, its key, its output, and how it ended. No command and no rendering here."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from isoline_client.cli.failures import CommandError, Exit, describe, exit_code
from isoline_client.cli.output import Output
from isoline_client.cli.servers import REGION_VARIABLE, Server, Servers, ServersError, resolve
from isoline_client.client import Client
from isoline_client.errors import IsolineError

TIMEOUT_S: Final = 10.0
"""How long one call may take, tries at other servers included. A person waits; a script that rides out a failover asks for more."""

KNOCK_S: Final = 1.0
KEY_VARIABLE: Final = "ISOLINE_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the options say that every command has; None or empty where they say nothing."""

    servers: tuple[str, ...] = ()
    region: str = ""
    timeout_s: float | None = None
    api_key_file: Path | None = None
    json: bool = False

    def over(self, outer: "Given") -> "Given":
        """These options where they say something, else those of ``outer``."""
        values = {each.name: getattr(self, each.name) or getattr(outer, each.name) for each in fields(self)}
        return Given(**values)


class Session:
    """What a command works with."""

    def __init__(self, given: Given, environ: Mapping[str, str] = os.environ) -> None:
        self.out = Output(json=given.json)
        self.region = given.region or environ.get(REGION_VARIABLE, "")
        """The region to prefer; empty when nobody said."""
        self.timeout_s = given.timeout_s or TIMEOUT_S
        self._given = given
        self._environ = environ

    @cached_property
    def servers(self) -> Servers:
        """The servers, the preferred region's first."""
        return resolve(self._given.servers, self._environ, self.region)

    @cached_property
    def api_key(self) -> str | None:
        path = self._given.api_key_file
        try:
            key = (path.read_text() if path else self._environ.get(KEY_VARIABLE, "")).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"--api-key-file: {error}") from error
        if not (key.isascii() and key.isprintable()):
            raise CommandError(f"{path or KEY_VARIABLE}: a key is one line of printable ASCII")
        return key or None

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A client of all the servers, in order of preference."""
        await self._knock()
        async with Client(self.servers.addresses, api_key=self.api_key, timeout_s=self.timeout_s) as client:
            yield client

    def client_of(self, server: Server, *, timeout_s: float | None = None) -> Client:
        """A client of one server alone."""
        return Client(server.address, api_key=self.api_key, timeout_s=timeout_s or self.timeout_s)

    def origin_hint(self) -> str:
        """Which servers were asked, and why these."""
        return f"asked: {', '.join(self.servers.addresses)} (from {self.servers.origin})"

    async def _knock(self) -> None:
        """Fail at once when a cluster of this machine is not there: waiting would not bring it up."""
        if not self.servers.is_local:
            return
        answers = await asyncio.gather(*(_listens(address) for address in self.servers.addresses))
        if not any(answers):
            where = ", ".join(self.servers.addresses)
            raise CommandError(
                f"no server answers at {where} ({self.servers.origin}); start one with `isoline up`, or say where it is with --server",
                Exit.UNAVAILABLE,
            )


async def _listens(address: str) -> bool:
    if address.startswith("unix:"):
        return True
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(KNOCK_S):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def run(given: Given, work: Callable[[Session], Coroutine[Any, Any, int | None]]) -> int:
    """Run a command to its end and return its exit code. Every expected way to fail ends here, in words."""
    session = Session(given)
    try:
        code = asyncio.run(work(session)) or Exit.OK
        session.out.flush()
    except (CommandError, ServersError, IsolineError) as error:
        code = _say(session, error)
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    except BrokenPipeError:
        _let_go_of_stdout()
        code = Exit.BROKEN_PIPE
    except OSError as error:
        _let_go_of_stdout()
        code = _say(session, CommandError(f"the output cannot be written: {error.strerror or error}"))
    return int(code)


def _say(session: Session, error: CommandError | ServersError | IsolineError) -> int:
    known = CommandError(str(error)) if isinstance(error, ServersError) else error
    if isinstance(known, IsolineError) and exit_code(known) is Exit.UNAVAILABLE:
        known.add_note(session.origin_hint())
    failure = describe(known)
    try:
        session.out.flush()
    except BrokenPipeError:
        _let_go_of_stdout()
    session.out.failure(failure)
    return failure.exit_code


def _let_go_of_stdout() -> None:
    """Whoever read the output has gone: what is still buffered goes nowhere, and Python does not complain at its end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:
        return
