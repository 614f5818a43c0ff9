"""The PostgreSQL nodes of the regions, one by one: where they run, what they are told, whom they follow. No decision about who leads.

Whoever works here stands outside the WAN, as one who reaches every region's consoles would: SQL is run inside the node's own region.
"""

import contextlib
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

from isoline_drill.promotion import wal_bytes
from isoline_drill.wan.base import Wan
from isoline_server.embedded import EmbeddedPostgresError, Endpoint
from isoline_server.embedded.installation import Installation
from isoline_server.embedded.node import Node
from isoline_server.embedded.placement import Address, Placement
from isoline_server.embedded.psql import MAINTENANCE_DATABASE, QUERY_S, identifier, literal
from isoline_server.embedded.settings import quorum_of, slot_name, standby_settings
from isoline_server.embedded.standby import Standby

ADMITTED: Final = ("127.0.0.0/8", "10.77.0.0/16")
"""The addresses that a WAN uses."""
EVERY_NODE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "shared_buffers": "64MB",
        "full_page_writes": "on",  # or pg_rewind refuses
        "wal_keep_size": "256MB",  # pg_rewind reads back to the checkpoint before the promotion, on the node that led
    }
)
"""Beside what a standby of the embedded PostgreSQL is told, whoever looks after the nodes."""
REACH_S: Final = 5.0
"""A node that does not answer for so long counts as out of reach."""

_DETACH_S: Final = 10.0
_REPLAYED_S: Final = 60.0
_POLL_S: Final = 0.02
_STOP_RECEIVING: Final = """do $$
begin
    perform pg_wal_replay_pause();
    while pg_get_wal_replay_pause_state() <> 'paused' loop
        perform pg_sleep(0.005);
    end loop;
    while exists (select from pg_stat_activity where backend_type = 'walreceiver') loop
        perform pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'walreceiver';
        perform pg_sleep(0.005), pg_stat_clear_snapshot();
    end loop;
    perform pg_wal_replay_resume();
end $$"""
_DROP_SLOTS: Final = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where not active"
_IDLE: Final = "'RecoveryRetrieveRetryInterval', 'RecoveryWalStream'"
_OUT_OF_WAL: Final = f"select wait_event in ({_IDLE}) from pg_stat_activity where backend_type = 'startup'"


class RegionNodes:
    """One node a region. Calls about different regions may come from different threads."""

    def __init__(self, wan: Wan, installation: Installation, *, durable: bool, report: Callable[[str], None]) -> None:
        self._wan = wan
        self._installation = installation
        self._durable = durable
        self._report = report
        self._nodes = {region: Node(region, installation, self._placement(region)) for region in wan.regions}

    def __getitem__(self, region: str) -> Node:
        if region not in self._nodes:
            raise EmbeddedPostgresError(f"no region is called {region!r}; there are: {', '.join(self._nodes)}")
        return self._nodes[region]

    # --- reaching them ---

    def seen_from(self, viewer: str, owner: str) -> Endpoint:
        """A region's node, as programs in another region reach it."""
        endpoint = self[owner].endpoint
        host, port = self._wan.address(viewer, owner, endpoint.port)
        return replace(endpoint, host=host, port=port, network=None)

    def execute(self, region: str, sql: str, database: str | None = None, *, timeout_s: float = QUERY_S) -> str:
        return self._installation.psql.run(self[region].endpoint, sql, database=database, timeout_s=timeout_s)

    def ask(self, region: str, sql: str, *, timeout_s: float = QUERY_S) -> str:
        """For set-up and questions: commits without waiting for standbys."""
        return self._installation.psql.run(
            self[region].endpoint, sql, database=MAINTENANCE_DATABASE, timeout_s=timeout_s, wait_for_standbys=False
        )

    def answers(self, region: str) -> bool:
        if not self[region].process.running:
            return False
        with contextlib.suppress(EmbeddedPostgresError):
            return self.ask(region, "select 1", timeout_s=REACH_S) == "1"
        return False

    # --- leading ---

    def create_leader(self, region: str) -> None:
        node, database = self[region], self._installation.database
        self._report(f"{region}: creating the database files")
        node.create()
        node.start(self._settings(region, follows=None))
        self.ask(region, f"create database {identifier(database)}")

    def start_leader(self, region: str) -> None:
        self[region].start(self._settings(region, follows=None))

    def renew_slots(self, region: str) -> None:
        """Make a slot for every other region; WAL is kept for it from now on. Works on a standby too."""
        slots = [literal(slot_name(other)) for other in self._others(region)]
        make = [f"select pg_create_physical_replication_slot({slot}, true)" for slot in slots]
        self.ask(region, "; ".join([_DROP_SLOTS, *make]))

    # --- following ---

    def follow(self, region: str, leader: str) -> str | None:
        """Start a standby and wait until it streams, with a new copy if there is no other way: then the reason for that is returned."""
        return self._standby(region, leader).bring_up(self._settings(region, follows=leader))

    def follow_later(self, region: str, leader: str) -> None:
        """Start a standby whose leader is down."""
        self._standby(region, leader).start_alone(self._settings(region, follows=leader))

    def rewind(self, region: str, leader: str) -> None:
        """Give up what the leader does not have; the node is stopped. Raises when PostgreSQL refuses."""
        self.ask(leader, "checkpoint")  # before it, a young leader looks as if it had never been promoted
        self[region].rewind(self._upstream(region, leader))

    def attach(self, region: str, leader: str) -> None:
        """Have a running standby follow that leader; it does so in its own time."""
        self[region].reconfigure(self._settings(region, follows=leader))

    def detach(self, region: str) -> None:
        """Have a running standby follow nobody: on return it takes no more WAL from anywhere. A paused replay goes on.

        That no receiver runs would not be enough, since the startup process may be about to launch one by its former settings. But it
        reads new settings before it confirms a pause, and launches none during one.
        """
        self[region].reconfigure(self._settings(region, follows=None))
        # A new session knows what the postmaster knows, and the postmaster tells all others before it lets a session in.
        told = partial(self.ask, region, "select current_setting('primary_conninfo') = ''")
        self._wait(region, "read its settings", lambda: told() == "t", within_s=_DETACH_S)
        self.ask(region, _STOP_RECEIVING, timeout_s=_DETACH_S)

    def position(self, region: str) -> str:
        """Up to where a detached standby has received the WAL, on disk."""
        received, replayed = self._received_and_replayed(region)
        if not received:  # since it was started; what it had before shows once all of it is replayed
            self._wait(region, "replay its WAL", lambda: self.ask(region, _OUT_OF_WAL) == "t", within_s=_REPLAYED_S)
            received, replayed = self._received_and_replayed(region)
        return max((place for place in (received, replayed) if place), key=wal_bytes)

    def end_of_wal(self, leader: str) -> str:
        """Up to where the leader has written to disk."""
        return self.ask(leader, "select pg_current_wal_flush_lsn()")

    def streaming(self, leader: str, regions: Collection[str], *, since: str = "0/0") -> list[str]:
        """Which of these regions stream from the leader, and have all before ``since`` on disk."""
        caught_up = f"state = 'streaming' and flush_lsn >= {literal(since)}"
        names = self.ask(leader, f"select application_name from pg_stat_replication where {caught_up}")
        return [region for region in regions if region in names.splitlines()]

    # --- how it is put together ---

    def _placement(self, region: str) -> Placement:
        return Placement(host=self._wan.host(region), network=self._wan.namespace(region), admits=ADMITTED)

    def _settings(self, region: str, *, follows: str | None) -> dict[str, str]:
        """The same for leader and standbys but for whom they follow, so that a promotion changes nothing else and has no gap in it."""
        return standby_settings(
            name=region,
            upstream=None if follows is None else self._upstream(region, follows),
            passfile=self._installation.folder.passfile,
            durable=self._durable,
            extra={
                **EVERY_NODE,
                "synchronous_standby_names": quorum_of(self._others(region)),
                "wal_retrieve_retry_interval": "50ms",  # so long a standby looks away when its leader's timeline ends
            },
        )

    def _upstream(self, region: str, leader: str) -> Address:
        return self.seen_from(region, leader).address

    def _others(self, region: str) -> list[str]:
        return [other for other in self._nodes if other != region]

    def _standby(self, region: str, leader: str) -> Standby:
        return Standby(
            node=self[region],
            primary=self[leader],
            psql=self._installation.psql,
            report=self._report,
            upstream=self._upstream(region, leader),
        )

    def _received_and_replayed(self, region: str) -> tuple[str, str]:
        received, _, replayed = self.ask(
            region, "select pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()"
        ).partition("|")
        return received, replayed

    def _wait(self, region: str, what: str, condition: Callable[[], bool], *, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(f"{region}: did not {what} within {within_s:g} s")
            time.sleep(_POLL_S)
