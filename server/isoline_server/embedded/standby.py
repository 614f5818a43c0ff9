"""Bringing a hot standby to follow the primary: with the data it has if that will do, else with a new copy.

The judgement is made by result: a standby that does not stream within the deadline is copied anew. Phrases in its log only shorten the
wait where PostgreSQL already says that it never will. Nothing is lost by a copy: the primary has everything, and only it takes writes.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final

from isoline_server.embedded.errors import EmbeddedPostgresError, PortTaken
from isoline_server.embedded.node import Node
from isoline_server.embedded.placement import Address
from isoline_server.embedded.psql import MAINTENANCE_DATABASE, Psql, literal
from isoline_server.embedded.settings import slot_name

FOLLOW_S: Final = 60.0
"""Bounds the catching up at start. When it takes longer than this, a copy is the faster way."""
SLOT_FREE_S: Final = 15.0
"""The primary notices at once that a standby's process ended, and after wal_sender_timeout (5 s) that one hangs."""

_POLL_S: Final = 0.02
_NEVER_AGAIN: Final = (
    "has already been removed",  # the WAL it needs
    "can no longer",  # access (or: get changes from) its slot, which fell too far behind
    "is not in this server's history",
    "is behind recovery timeline",
    "forked off current database system timeline",
    "is ahead of the WAL flush position",
    "database system identifier differs",
)


class CannotFollow(EmbeddedPostgresError):
    """The standby's data is of no use for following this primary."""


class Standby:
    """One standby and the primary that it follows."""

    def __init__(
        self,
        *,
        node: Node,
        primary: Node,
        psql: Psql,
        report: Callable[[str], None],
        upstream: Address | None = None,
    ) -> None:
        self.node = node
        self._primary = primary
        self._upstream = upstream  # where the standby itself reaches the primary, if not where we do
        self._psql = psql
        self._report = report
        self._slot = slot_name(node.name)

    def bring_up(self, settings: Mapping[str, str]) -> str | None:
        """Start it and wait until it streams; copy the primary first if there is no other way. Gives the reason for a copy."""
        started = time.monotonic()
        if (reason := self._why_copy() or self._why_not_following(settings)) is not None:
            self._report(f"{self.node.name}: copying the primary ({reason})")
            self._renew_slot()
            self.node.copy_from(self._upstream or self._primary.endpoint.address, slot=self._slot)
            self._follow(settings)
        port, took_s = self.node.endpoint.port, time.monotonic() - started
        self._report(f"{self.node.name}: hot standby ready on port {port} ({took_s:.1f} s)")
        return reason

    def start_alone(self, settings: Mapping[str, str]) -> None:
        """Start it while the primary is down: it serves what it has, and follows when the primary is back."""
        if not self.node.is_standby:
            raise EmbeddedPostgresError(
                f"{self.node.name} holds no standby's data, and the primary is not running to be copied"
            )
        self.node.start(settings)

    def _why_copy(self) -> str | None:
        if not self.node.exists:
            return "it has no data yet"
        if not self.node.is_standby:
            return "it was promoted and has a history of its own"
        status = self._ask(
            f"select coalesce(wal_status, 'lost') from pg_replication_slots where slot_name = {literal(self._slot)}"
        )
        if status == "lost":
            return "it was away for longer than WAL is kept for it"
        if not status:
            self._create_slot()  # the WAL may still be there; if not, following fails
        return None

    def _why_not_following(self, settings: Mapping[str, str]) -> str | None:
        """Start it on the data it has; if that fails for any reason that lies in the data, say the reason."""
        try:
            self._follow(settings)
        except PortTaken:
            raise
        except EmbeddedPostgresError as error:
            return str(error).splitlines()[0]
        return None

    def _follow(self, settings: Mapping[str, str]) -> None:
        self._wait_slot_free()
        try:
            self.node.start(settings, within_s=FOLLOW_S, check=self._raise_if_hopeless)
            self._wait("it does not stream from the primary", self._streams, within_s=FOLLOW_S)
        except BaseException:
            self.node.process.kill()
            raise

    def _wait(self, otherwise: str, condition: Callable[[], bool], *, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > deadline:
                raise CannotFollow(f"{otherwise} after {within_s:.0f} s", log_tail=self.node.process.log_tail())
            time.sleep(_POLL_S)

    def _streams(self) -> bool:
        self.node.process.raise_if_ended()
        self._raise_if_hopeless()
        return self._walsender_state() == "streaming"

    def _raise_if_hopeless(self) -> None:
        text = self.node.log_text()
        for line in text.splitlines():
            if any(phrase in line for phrase in _NEVER_AGAIN):
                raise CannotFollow(line.partition("] ")[2] or line)

    def _wait_slot_free(self) -> None:
        busy = "an earlier connection of it still holds its slot"
        self._wait(busy, lambda: self._walsender_state() == "", within_s=SLOT_FREE_S)

    def _walsender_state(self) -> str:
        """Of the connection that holds our slot: empty without one, ``streaming`` once everything has been sent."""
        return self._ask(
            "select state from pg_stat_replication r join pg_replication_slots s on s.active_pid = r.pid "
            f"where s.slot_name = {literal(self._slot)}"
        )

    def _renew_slot(self) -> None:
        self._wait_slot_free()
        self._ask(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots where not active and slot_name = "
            + literal(self._slot)
        )
        self._create_slot()

    def _create_slot(self) -> None:
        self._ask(f"select pg_create_physical_replication_slot({literal(self._slot)}, true)")

    def _ask(self, sql: str) -> str:
        return self._psql.run(self._primary.endpoint, sql, database=MAINTENANCE_DATABASE, wait_for_standbys=False)
