"""What an operator says about one executor, and the bounds of executors with their reasons. No logic."""

from dataclasses import dataclass
from typing import Final, Literal

Until = Literal["stopped", "once", "idle"]
"""``once``: one claim, and what it brought is driven until it ends or waits. ``idle``: until nothing is runnable or has a time to wake."""

MAX_RUNS: Final = 16
"""Runs driven at once. Runs mostly wait for something, and each holds little memory."""

LEASE_TTL_MS: Final = 15_000
"""How long a dead executor's runs wait for another: three missed heartbeats."""

POLL_MS: Final = 250
"""Pause between claims that bring nothing: what a new run waits for at most, at four small statements a second."""

GRACE_S: Final = 20.0
"""How long the nodes under way may take to end when the executor is asked to stop."""

WATCH_AFTER_S: Final = 0.1
"""A node that takes longer is accompanied by a tail of its run, so that a request to cancel or pause reaches it."""

WAITING_EVENTS_MAX: Final = 4_000
"""Events of one run that wait to be written: four full appends, so that the next is always ready and memory stays bounded."""

SENDS_MAX: Final = 3
"""How often a request that its author calls idempotent is sent while its outcome stays unknown."""

SEND_PAUSE_S: Final = 0.2
"""Pause before it is sent again; doubled each time."""

REPLAY_GATHER_EVENTS: Final = 250
"""Events of a replay that go into one append at least: nobody waits for them, and each append costs as much as dozens of events."""

CHILD_WAKE_MS_MIN: Final = 200
CHILD_WAKE_MS_MAX: Final = 10_000
"""A run that waits for a run it dispatched looks again after a quarter of what it has waited, within these bounds."""

FAILURES_MAX: Final = 5
"""A run whose driver fails for no known reason this often in a row ends as failed, visibly, rather than being tried for ever."""

FAILURE_PAUSE_MS: Final = 1_000
"""Pause before such a run is tried again; doubled each time."""

REPLAY_WORKERS: Final = 1
"""Processes that run the nodes of replays. One runs many nodes side by side; what they compute shares its core."""

CLAIM_MAX: Final = 100
"""Runs of one claim: the server's bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How this executor works. ``region`` empty: that of the answering server."""

    owner: str
    region: str = ""
    max_runs: int = MAX_RUNS
    lease_ttl_ms: int = LEASE_TTL_MS
    poll_ms: int = POLL_MS
    grace_s: float = GRACE_S
    until: Until = "stopped"
    require_isolation: bool = False
    also_side_effects: frozenset[str] = frozenset()
    """Type ids that a replay treats as side-effecting, whatever role they declare. Nothing can be taken away from the declared ones."""
