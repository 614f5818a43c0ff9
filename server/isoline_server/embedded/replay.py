"""A standby's replay: holding it, letting it go on, waiting for it. Over a way to ask each node, so that it is the same for every cluster."""

import time
from collections.abc import Callable
from typing import Final

from isoline_server.embedded.errors import EmbeddedPostgresError
from isoline_server.embedded.psql import literal

Ask = Callable[[str], str]
"""Runs SQL on one node, waiting for no standby, and gives its output."""

CATCH_UP_S: Final = 30.0

_PAUSE_S: Final = 10.0
_POLL_S: Final = 0.005


def pause_replay(name: str, ask: Ask) -> None:
    """Let a standby receive but not show. On return it really does."""
    ask("select pg_wal_replay_pause()")
    deadline = time.monotonic() + _PAUSE_S
    while ask("select pg_get_wal_replay_pause_state()") != "paused":
        if time.monotonic() > deadline:
            raise EmbeddedPostgresError(f"{name}: its replay did not pause within {_PAUSE_S:.0f} s")
        time.sleep(_POLL_S)


def resume_replay(ask: Ask) -> None:
    """Let a paused standby catch up; it does so in its own time."""
    ask("select pg_wal_replay_resume()")


def wait_caught_up(name: str, *, primary: Ask, standby: Ask, timeout_s: float) -> None:
    """Until a standby shows everything that is committed on the primary at the time of the call."""
    # A record of our own: its commit flushes all before it, asynchronous commits included, and its place is an exact one.
    mark = primary("select pg_logical_emit_message(true, 'isoline', 'caught up')")
    deadline = time.monotonic() + timeout_s
    while standby(f"select coalesce(pg_last_wal_replay_lsn() >= {literal(mark)}, false)") != "t":
        if time.monotonic() > deadline:
            raise EmbeddedPostgresError(f"{name}: did not reach {mark} within {timeout_s:g} s")
        time.sleep(_POLL_S)
