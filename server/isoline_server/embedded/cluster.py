"""The cluster as a whole: a primary, the hot standbys that play further regions, and the drills on them. What one server needs lies elsewhere.

**Durability.** With standbys, a commit is acknowledged once it is on the disk of the primary and of one standby, whichever
(``synchronous_standby_names = ANY 1``). With one standby of several dead, all goes on. With all of them dead, commits hang until one is
back, and reads go on: that is the survival rule, not a fault. An acknowledged commit is visible on the primary at once and on a
given standby a little later: ``wait_caught_up`` waits for that.

**Who may connect.** Servers listen on 127.0.0.1 only and ask for a random password, kept in the data folder for its owner alone. Trusting
whoever comes from the loopback address would be simpler, but every local user may connect there, and a superuser of a database may
run programs. The password costs half a millisecond a connection (four before PostgreSQL 16). Connections are not encrypted and the role
is a superuser: good for one machine and for tests, not for a network.

**Lives.** Servers end with the supervisor, even if it is killed (see ``process.py``). A kept folder starts again after any crash.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

from isoline_server.embedded.endpoint import Endpoint
from isoline_server.embedded.errors import EmbeddedPostgresError
from isoline_server.embedded.folder import DataFolder
from isoline_server.embedded.installation import prepare
from isoline_server.embedded.node import PRIMARY, Node
from isoline_server.embedded.psql import MAINTENANCE_DATABASE, QUERY_S, Psql, identifier, literal
from isoline_server.embedded.replay import CATCH_UP_S, pause_replay, resume_replay, wait_caught_up
from isoline_server.embedded.settings import (
    check_settings,
    check_standby_names,
    primary_settings,
    slot_name,
    standby_settings,
)
from isoline_server.embedded.standby import Standby


class EmbeddedCluster:
    """A private PostgreSQL with hot standbys. One thread at a time may start, stop, kill and restart; queries may come from any.

    ``data_dir`` is kept between runs and locked meanwhile; ``None`` means a temporary folder, removed by ``stop``. With ``ephemeral=True``
    the temporary folder is made inside ``data_dir``. ``durable=False`` gives up surviving a power cut for speed (for tests);
    a killed process loses nothing either way. ``settings`` are further PostgreSQL settings for every node.
    """

    def __init__(
        self,
        data_dir: Path | None,
        *,
        standbys: Sequence[str] = (),
        durable: bool = True,
        database: str = "isoline",
        settings: Mapping[str, str] | None = None,
        on_progress: Callable[[str], None] | None = None,
        ephemeral: bool = False,
    ) -> None:
        check_standby_names(standbys)
        check_settings(settings or {})
        self._data_dir = data_dir
        self._ephemeral = ephemeral or data_dir is None
        self._standby_names = tuple(standbys)
        self._durable = durable
        self._database = database
        self._extra = dict(settings or {})
        self._on_progress = on_progress
        self._progress_lock = Lock()
        self._folder: DataFolder | None = None
        self._psql: Psql | None = None
        self._nodes: dict[str, Node] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- life ---

    def start(self) -> None:
        """Start everything, making what does not exist yet. On return every standby streams. On failure nothing is left running."""
        if self._folder is not None:
            raise EmbeddedPostgresError("the cluster has been started already")
        try:
            self._prepare()
            self._start_primary()
            self._start_standbys()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything cleanly; the primary first, so that the standbys receive its last words. Harmless when nothing runs."""
        nodes, self._nodes = self._nodes, {}
        folder, self._folder = self._folder, None
        with ExitStack() as steps:  # run in reverse order, and a step that fails does not keep the next from running
            if folder is not None:
                steps.callback(folder.close)
            for node in nodes.values():
                steps.callback(node.process.stop)
            for node in nodes.values():
                steps.callback(node.process.request_stop)
            if PRIMARY in nodes:
                steps.callback(nodes[PRIMARY].process.stop)

    @property
    def primary(self) -> Endpoint:
        return self._node(PRIMARY).endpoint

    def standby(self, name: str) -> Endpoint:
        self._check_standby(name)
        return self._node(name).endpoint

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The primary, then the standbys in the order in which they were named."""
        return tuple(self._node(name).endpoint for name in (PRIMARY, *self._standby_names))

    def is_running(self, name: str) -> bool:
        return self._node(name).process.running

    # --- drills ---

    def kill(self, name: str) -> None:
        """SIGKILL a whole server, as a power cut would end it. It is gone on return."""
        self._node(name).process.kill()

    def restart(self, name: str) -> None:
        """Start a server again, on the same port and with its data; one that still runs is stopped first."""
        node = self._node(name)
        node.process.stop()
        if name == PRIMARY:
            node.start(self._primary_settings())
        elif self.is_running(PRIMARY):
            self._bring_up(name)
        else:
            self._make_standby(name).start_alone(self._standby_settings(name))

    def pause_replay(self, name: str) -> None:
        """Let a standby receive but not show: from now on it answers with the past. On return it really does."""
        self._check_standby(name)
        pause_replay(name, partial(self._ask, name))

    def resume_replay(self, name: str) -> None:
        """Let a paused standby catch up; it does so in its own time."""
        self._check_standby(name)
        resume_replay(partial(self._ask, name))

    def wait_caught_up(self, name: str, *, timeout_s: float = CATCH_UP_S) -> None:
        """Until a standby shows everything that is committed on the primary at the time of the call."""
        self._check_standby(name)
        primary, standby = partial(self._ask, PRIMARY), partial(self._ask, name)
        wait_caught_up(name, primary=primary, standby=standby, timeout_s=timeout_s)

    def execute(self, name: str, sql: str, database: str | None = None, *, timeout_s: float = QUERY_S) -> str:
        """Run SQL on a node by ``psql`` and give its output: a row a line, columns separated by ``|``.

        Several statements are one transaction. Not for secrets: other users see command lines.
        """
        endpoint = self._node(name).endpoint
        return self._client().run(endpoint, sql, database=database, timeout_s=timeout_s)

    def create_database(self, name: str, template: str | None = None) -> None:
        """On the primary, and so everywhere. Nobody may be connected to the template."""
        source = f" template {identifier(template)}" if template is not None else ""
        self.execute(PRIMARY, f"create database {identifier(name)}{source}", MAINTENANCE_DATABASE)

    def drop_database(self, name: str) -> None:
        """Drop it even if somebody is connected to it."""
        self.execute(PRIMARY, f"drop database {identifier(name)} with (force)", MAINTENANCE_DATABASE)

    # --- how it is put together ---

    def _prepare(self) -> None:
        self._folder = folder = self._open_folder()
        shared = prepare(folder, owner_of=PRIMARY, database=self._database, durable=self._durable)
        self._psql = shared.psql
        self._nodes = {name: Node(name, shared) for name in (PRIMARY, *self._standby_names)}

    def _open_folder(self) -> DataFolder:
        if self._data_dir is None or self._ephemeral:
            return DataFolder.open_temporary(self._data_dir)
        return DataFolder.open(self._data_dir)

    def _start_primary(self) -> None:
        primary = self._nodes[PRIMARY]
        started = time.monotonic()
        if primary.exists:
            primary.check_version()
        else:
            self._refuse_to_forget()
            self._report("primary: creating the database files")
            primary.create()
        primary.start(self._primary_settings())
        self._ensure_database()
        self._report(f"primary: ready on port {primary.endpoint.port} ({time.monotonic() - started:.1f} s)")

    def _refuse_to_forget(self) -> None:
        """A standby whose primary has vanished may hold the only copy of the data; starting anew would overwrite it."""
        orphans = [str(node.dir) for node in self._nodes.values() if node.exists]
        if orphans:
            raise EmbeddedPostgresError(
                f"the primary's data is missing from {self._nodes[PRIMARY].dir}, and standbys still have theirs ({', '.join(orphans)}); "
                "restore the primary, or remove the standbys if their data may go"
            )

    def _ensure_database(self) -> None:
        exists = f"select 1 from pg_database where datname = {literal(self._database)}"
        if not self._ask(PRIMARY, exists):
            self._ask(PRIMARY, f"create database {identifier(self._database)}")

    def _start_standbys(self) -> None:
        self._drop_unused_slots()
        if self._standby_names:
            with ThreadPoolExecutor(len(self._standby_names)) as pool:
                list(pool.map(self._bring_up, self._standby_names))

    def _drop_unused_slots(self) -> None:
        """Of standbys that are no longer asked for: WAL would be kept for them in vain."""
        used = ", ".join(literal(slot_name(name)) for name in self._standby_names) or "''"
        ours = rf"slot_name like 'isoline\_%' and slot_name not in ({used}) and not active"
        self._ask(PRIMARY, f"select pg_drop_replication_slot(slot_name) from pg_replication_slots where {ours}")

    def _bring_up(self, name: str) -> None:
        self._make_standby(name).bring_up(self._standby_settings(name))

    def _make_standby(self, name: str) -> Standby:
        return Standby(node=self._node(name), primary=self._node(PRIMARY), psql=self._client(), report=self._report)

    def _primary_settings(self) -> dict[str, str]:
        return primary_settings(standbys=self._standby_names, durable=self._durable, extra=self._extra)

    def _standby_settings(self, name: str) -> dict[str, str]:
        assert self._folder is not None
        return standby_settings(
            name=name,
            upstream=self.primary.address,
            passfile=self._folder.passfile,
            durable=self._durable,
            extra=self._extra,
        )

    def _ask(self, name: str, sql: str) -> str:
        endpoint = self._node(name).endpoint
        return self._client().run(endpoint, sql, database=MAINTENANCE_DATABASE, wait_for_standbys=False)

    def _client(self) -> Psql:
        if self._psql is None:
            raise EmbeddedPostgresError("the cluster has not been started")
        return self._psql

    def _node(self, name: str) -> Node:
        if not self._nodes:
            raise EmbeddedPostgresError("the cluster has not been started")
        if name not in self._nodes:
            raise EmbeddedPostgresError(f"no node is called {name!r}; there are: {', '.join(self._nodes)}")
        return self._nodes[name]

    def _check_standby(self, name: str) -> None:
        if name == PRIMARY:
            raise EmbeddedPostgresError("the primary is not a standby")
        self._node(name)

    def _report(self, text: str) -> None:
        if self._on_progress is not None:
            with self._progress_lock:  # standbys are brought up side by side
                self._on_progress(text)
