"""One node: a PostgreSQL data folder with its settings, its port and its server. It knows nothing of other nodes."""

import contextlib
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from isoline_server.embedded.binaries import Binaries
from isoline_server.embedded.endpoint import Endpoint
from isoline_server.embedded.errors import EmbeddedPostgresError, MemoryStillHeld, PortTaken
from isoline_server.embedded.folder import DataFolder, replace_folder, write_private
from isoline_server.embedded.identity import Identity
from isoline_server.embedded.leftovers import clear_leftovers
from isoline_server.embedded.ports import LOOPBACK, choose_port
from isoline_server.embedded.process import READY_S, PostgresProcess, run_tool
from isoline_server.embedded.settings import CONF_NAME, SUPERUSER, port_in, render, replication_conninfo

PRIMARY: Final = "primary"
SCRAM_ITERATIONS_SINCE: Final = 16

_RETRY_S: Final = 0.1
_PATIENCE_S: Final = 10.0
"""How long a port that must stay the same, or the memory of a killed server, is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What every node of a cluster shares."""

    folder: DataFolder
    binaries: Binaries
    identity: Identity
    password: str
    database: str
    durable: bool

    def tool(self, *command: str) -> list[str]:
        """A command of the tools that write data folders."""
        return [self.binaries.tool(command[0]), *command[1:], *([] if self.durable else ["--no-sync"])]


class Node:
    """One node by name. Its port is chosen at its first start and then stays, over kills and restarts."""

    def __init__(self, name: str, installation: Installation) -> None:
        self.name = name
        self.dir = installation.folder.node(name)
        self._installation = installation
        self._port: int | None = None
        self._preferred: int | None = None
        self._log = installation.folder.log(name)
        self.process = PostgresProcess(
            identity=installation.identity,
            postgres=installation.binaries.tool("postgres"),
            node_dir=self.dir,
            log=self._log,
        )

    @property
    def endpoint(self) -> Endpoint:
        if self._port is None:
            raise EmbeddedPostgresError(f"{self.name} has not been started")
        shared = self._installation
        return Endpoint(
            name=self.name,
            host=LOOPBACK,
            port=self._port,
            user=SUPERUSER,
            database=shared.database,
            password=shared.password,
        )

    @property
    def exists(self) -> bool:
        """Is there data? Folders appear whole or not at all."""
        return (self.dir / "PG_VERSION").exists()

    @property
    def is_standby(self) -> bool:
        """Does the data follow a primary? No longer so after a promotion."""
        return (self.dir / "standby.signal").exists()

    def check_version(self) -> None:
        """Raise if another major version of PostgreSQL wrote the data."""
        written = (self.dir / "PG_VERSION").read_text(encoding="ascii").strip()
        binaries = self._installation.binaries
        if written != str(binaries.major):
            raise EmbeddedPostgresError(
                f"{self.dir} was written by PostgreSQL {written}, and {binaries.bin_dir} is PostgreSQL {binaries.major}; "
                f"point ISOLINE_PG_BIN at programs of version {written}, or use a new data folder"
            )

    def create(self) -> None:
        """Make an empty database cluster: checksums, UTF-8, byte order of strings, and a password even from this machine."""
        new = self._new_folder()
        secret = self.dir.with_name(f"{self.name}.password")
        write_private(secret, f"{self._installation.password}\n", self._installation.identity)
        try:
            auth = ["--auth=scram-sha-256", f"--pwfile={secret}", f"--username={SUPERUSER}"]
            shape = ["--data-checksums", "--encoding=UTF8", "--no-locale"]
            if self._installation.binaries.major >= SCRAM_ITERATIONS_SINCE:
                # Stretching protects weak passwords. Ours is random, and every connection would pay for it.
                shape.append("--set=scram_iterations=1")
            self._run_tool("initdb", f"--pgdata={new}", *auth, *shape)
        finally:
            secret.unlink()
        with (new / "postgresql.conf").open("a", encoding="utf-8") as conf:
            conf.write(f"include '{CONF_NAME}'\n")
        write_private(new / CONF_NAME, "", self._installation.identity)
        replace_folder(new, self.dir)

    def copy_from(self, primary: Endpoint, *, slot: str) -> None:
        """Become a copy of the primary; what was here is given up once the copy is complete.

        Without ``--write-recovery-conf``: it would write the primary's port of today where it overrules our settings file.
        """
        self._preferred = self._port_of_last_time()
        new = self._new_folder()
        source = replication_conninfo(primary_port=primary.port, passfile=self._installation.folder.passfile)
        way = ["--wal-method=stream", "--checkpoint=fast", f"--slot={slot}", "--no-password"]
        self._run_tool(
            "pg_basebackup", f"--pgdata={new}", f"--dbname={source} application_name=copy.of.{self.name}", *way
        )
        write_private(new / CONF_NAME, "", self._installation.identity)  # it was the primary's
        write_private(new / "standby.signal", "", self._installation.identity)
        replace_folder(new, self.dir)

    def start(
        self, settings: Mapping[str, str], *, within_s: float = READY_S, check: Callable[[], None] = lambda: None
    ) -> None:
        """Start and wait until it accepts connections. ``check`` is called meanwhile and raises to give up early."""
        clear_leftovers(self.dir)
        keep, preferred = self._port, self._port_of_last_time() or self._preferred
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            port = keep or choose_port(preferred)
            self._configure(settings, port)
            try:
                self.process.spawn()
                self.process.wait_ready(within_s=within_s, check=check)
            except (PortTaken, MemoryStillHeld) as error:
                if time.monotonic() > deadline:
                    raise
                if isinstance(error, PortTaken):
                    preferred = None
                time.sleep(_RETRY_S)
            else:
                self._port = port
                return

    def log_text(self) -> str:
        """What the server has written since its latest start."""
        with contextlib.suppress(OSError):
            return self._log.read_text(encoding="utf-8", errors="replace")
        return ""

    def _configure(self, settings: Mapping[str, str], port: int) -> None:
        write_private(self.dir / CONF_NAME, render({**settings, "port": str(port)}), self._installation.identity)

    def _port_of_last_time(self) -> int | None:
        """An address that people have written down stays good when it can."""
        conf = self.dir / CONF_NAME
        return port_in(conf.read_text(encoding="utf-8")) if conf.exists() else None

    def _new_folder(self) -> Path:
        new = self.dir.with_name(f"{self.name}.new")
        if new.exists():  # from a start that was cut short
            shutil.rmtree(new)
        new.mkdir(mode=0o700)
        self._installation.identity.give(new)
        return new

    def _run_tool(self, *command: str) -> None:
        log = self._log.with_name(f"{self.name}-{command[0]}.log")
        run_tool(self._installation.identity, self._installation.tool(*command), folder=self.dir.parent, log=log)
