"""One node: a PostgreSQL data folder with its settings, its port and its server. It knows nothing of other nodes."""

import contextlib
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from isoline_server.embedded.endpoint import Endpoint
from isoline_server.embedded.errors import EmbeddedPostgresError, MemoryStillHeld, PortTaken
from isoline_server.embedded.folder import replace_folder, write_private
from isoline_server.embedded.installation import Installation
from isoline_server.embedded.leftovers import clear_leftovers
from isoline_server.embedded.placement import HERE, Address, Placement
from isoline_server.embedded.ports import choose_port
from isoline_server.embedded.process import READY_S, PostgresProcess, run_tool
from isoline_server.embedded.psql import MAINTENANCE_DATABASE
from isoline_server.embedded.settings import CONF_NAME, SUPERUSER, port_in, render, replication_conninfo

PRIMARY: Final = "primary"
SCRAM_ITERATIONS_SINCE: Final = 16

_RETRY_S: Final = 0.1
_PATIENCE_S: Final = 10.0
"""How long a port that must stay the same, or the memory of a killed server, is waited for."""


class Node:
    """One node by name. Its port is chosen at its first start and then stays, over kills and restarts."""

    def __init__(self, name: str, installation: Installation, placement: Placement = HERE) -> None:
        self.name = name
        self.dir = installation.folder.node(name)
        self._placement = placement
        self._installation = installation
        self._port: int | None = None
        self._preferred: int | None = None
        self._log = installation.folder.log(name)
        self.process = PostgresProcess(
            identity=installation.identity,
            postgres=installation.binaries.tool("postgres"),
            node_dir=self.dir,
            log=self._log,
            network=placement.network,
        )

    @property
    def endpoint(self) -> Endpoint:
        if self._port is None:
            raise EmbeddedPostgresError(f"{self.name} has not been started")
        shared = self._installation
        return Endpoint(
            name=self.name,
            host=self._placement.host,
            network=self._placement.network,
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
        with (new / "pg_hba.conf").open("a", encoding="utf-8") as rules:
            for network in self._placement.admits:
                rules.write(f"host all,replication all {network} scram-sha-256\n")
        write_private(new / CONF_NAME, "", self._installation.identity)
        replace_folder(new, self.dir)

    def copy_from(self, upstream: Address, *, slot: str) -> None:
        """Become a copy of the primary at ``upstream``; what was here is given up once the copy is complete.

        Without ``--write-recovery-conf``: it would write the primary's port of today where it overrules our settings file.
        """
        self._preferred = self._port_of_last_time()
        new = self._new_folder()
        source = self._conninfo(upstream, name=f"copy.of.{self.name}")
        way = ["--wal-method=stream", "--checkpoint=fast", f"--slot={slot}", "--no-password"]
        self._run_tool("pg_basebackup", f"--pgdata={new}", f"--dbname={source}", *way)
        self._make_follower(new)
        replace_folder(new, self.dir)

    def rewind(self, upstream: Address) -> None:
        """Give up what the primary at ``upstream`` does not have, and become its standby. Not while the server runs.

        The primary must have written a checkpoint since it was promoted, or pg_rewind sees nothing to do. Raises when PostgreSQL refuses;
        the data is then fit for nothing but being copied anew.
        """
        self._preferred = self._port_of_last_time()
        clear_leftovers(self.dir)
        # pg_rewind wants a clean stop. It would see to it itself, but not past the lock file that a killed server leaves: only a direct
        # child of ours takes that for stale. Without network, and with no input the single user ends at once.
        postgres = self._installation.binaries.tool("postgres")
        self._run([postgres, "--single", "-D", str(self.dir), "template1"], log="recovery")
        source = f"{self._conninfo(upstream, name=f'rewind.of.{self.name}')} dbname={MAINTENANCE_DATABASE}"
        self._run_tool("pg_rewind", f"--target-pgdata={self.dir}", f"--source-server={source}", "--no-ensure-shutdown")
        self._make_follower(self.dir)

    def _make_follower(self, folder: Path) -> None:
        """Of data that came from a primary, with the primary's settings."""
        write_private(folder / CONF_NAME, "", self._installation.identity)
        write_private(folder / "standby.signal", "", self._installation.identity)

    def _conninfo(self, upstream: Address, *, name: str) -> str:
        return replication_conninfo(upstream, passfile=self._installation.folder.passfile, name=name)

    def start(
        self, settings: Mapping[str, str], *, within_s: float = READY_S, check: Callable[[], None] = lambda: None
    ) -> None:
        """Start and wait until it accepts connections. ``check`` is called meanwhile and raises to give up early."""
        clear_leftovers(self.dir)
        host = self._placement.host if self._placement.network is None else None
        keep, preferred = self._port, self._port_of_last_time() or self._preferred
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            port = keep or choose_port(preferred, host=host)
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

    def reconfigure(self, settings: Mapping[str, str]) -> None:
        """Have a running server read other settings, those that it can change without a restart."""
        self._configure(settings, self.endpoint.port)
        self.process.reload()

    def log_text(self) -> str:
        """What the server has written since its latest start."""
        with contextlib.suppress(OSError):
            return self._log.read_text(encoding="utf-8", errors="replace")
        return ""

    def _configure(self, settings: Mapping[str, str], port: int) -> None:
        place = {"listen_addresses": self._placement.host, "port": str(port)}
        write_private(self.dir / CONF_NAME, render({**settings, **place}), self._installation.identity)

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
        self._run(self._installation.tool(*command), log=command[0])

    def _run(self, argv: list[str], *, log: str) -> None:
        run_tool(
            self._installation.identity,
            argv,
            folder=self.dir.parent,
            log=self._log.with_name(f"{self.name}-{log}.log"),
            network=self._placement.network,
        )
