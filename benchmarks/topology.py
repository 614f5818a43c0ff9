"""What runs while a benchmark is measured: one embedded PostgreSQL with fsync on, and in front of it our server and the floor's.

Both sides use the same PostgreSQL, each a database of its own, and commit to it alone: no standbys wait, on either side. Only the
benchmark about regions has standbys, and it has no floor.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from subprocess import DEVNULL, run
from sys import executable
from tempfile import TemporaryDirectory

import psycopg

from benchmarks.processes import ROOT, Child
from isoline_server.embedded import EmbeddedCluster

HOME = "eu"
STANDBYS = ("us", "ap")
FLOOR_LOOPS = ("asyncio", "uvloop")


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    address: str
    child: Child


class Topology:
    """One PostgreSQL, and the means to put servers in front of it. Made by ``topology()``."""

    def __init__(self, cluster: EmbeddedCluster, folder: Path, standbys: Sequence[str]) -> None:
        self.folder = folder
        self._cluster = cluster
        self._standbys = standbys
        self._numbers = count(1)

    def new_database(self) -> str:
        """A fresh database."""
        name = f"bench{next(self._numbers)}"
        self._cluster.create_database(name)
        return name

    def url(self, database: str) -> str:
        """How libpq reaches a database of the primary."""
        return self._cluster.primary.url("postgresql", database)

    def migrated_database(self) -> str:
        """A fresh database with our schema."""
        database = self.new_database()
        command = [executable, "-m", "isoline_server", "migrate", "--config", str(self._config(database))]
        run(command, cwd=ROOT, check=True, stdin=DEVNULL, capture_output=True)
        return database

    @contextmanager
    def isoline(self, database: str, region: str = HOME) -> Iterator[Server]:
        """Our server, as ``isoline serve`` starts it."""
        arguments = ["serve", "--region", region, "--config", str(self._config(database))]
        with self._child(f"isoline-{region}", "isoline_server", arguments) as server:
            yield server

    @contextmanager
    def floor(self, database: str, loop: str) -> Iterator[Server]:
        """The floor's server on a loop."""
        arguments = [self.url(database), str(self.generated), loop]
        with self._child(f"floor-{loop}", "benchmarks.floor.server", arguments) as server:
            yield server

    @property
    def generated(self) -> Path:
        """Where the floor's generated code is."""
        folder = self.folder / "generated"
        folder.mkdir(exist_ok=True)
        return folder

    def execute(self, database: str, sql: str) -> list[tuple[object, ...]]:
        """Ask a database of the primary something."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def checkpoint(self) -> None:
        """Let PostgreSQL write out what it owes, so that no benchmark pays for the one before."""
        self.execute("postgres", "CHECKPOINT")

    def wait_replicated(self) -> None:
        """Until every standby shows what is committed."""
        for name in self._standbys:
            self._cluster.wait_caught_up(name)

    @contextmanager
    def _child(self, name: str, module: str, arguments: list[str]) -> Iterator[Server]:
        log = self.folder / f"{name}-{next(self._numbers)}.log"
        with Child(name, module, arguments, log) as child:
            yield Server(child.wait_serving(), child)

    def _config(self, database: str) -> Path:
        lines = [
            'topology = "embedded"',
            f'leader_url = "{self._cluster.primary.url(database=database)}"',
            f'leader_region = "{HOME}"',
            f'[regions.{HOME}]\nlisten = "127.0.0.1:0"',
        ]
        for name in self._standbys:
            local = self._cluster.standby(name).url(database=database)
            lines.append(f'[regions.{name}]\nlisten = "127.0.0.1:0"\nlocal_url = "{local}"')
        path = self.folder / f"{database}.toml"
        path.touch(mode=0o600)
        path.write_text("\n".join(lines) + "\n")
        return path


@contextmanager
def topology(
    data_dir: Path | None, standbys: Sequence[str] = (), say: Callable[[str], None] = print
) -> Iterator[Topology]:
    """A PostgreSQL over a temporary folder (inside ``data_dir``, if given), ended and removed at the end."""
    cluster = EmbeddedCluster(data_dir, standbys=standbys, durable=True, on_progress=say, ephemeral=True)
    with TemporaryDirectory(prefix="isoline-bench-") as folder, cluster:
        yield Topology(cluster, Path(folder), standbys)
