"""Keeps state snapshots close behind the heads that this server moves. Lossy on purpose: a snapshot that is not made here is made by the
first reader who passes its seq."""

import asyncio
from collections.abc import Iterable

import structlog

from isoline_server.domain.errors import IsolineError
from isoline_server.domain.ids import RunId
from isoline_server.operations.get_state import StateReader, snapshot_is_due

RUNS_MAX = 1_000
SETTLE_S = 1.0
"""How long a snapshot that is due waits for the next one: a burst of appends is folded once, behind it, not beside it."""

log = structlog.get_logger(__name__)


class SnapshotKeeper:
    """One task that makes the snapshots that are due, one run after the other."""

    def __init__(self, states: StateReader, settle_s: float = SETTLE_S) -> None:
        self._states = states
        self._settle_s = settle_s
        self._heads: dict[RunId, int] = {}
        self._due: dict[RunId, int] = {}
        self._wake = asyncio.Event()

    def notify(self, moved: Iterable[tuple[RunId, int]]) -> None:
        """Note which heads have completed a snapshot distance."""
        for run_id, head_seq in moved:
            if snapshot_is_due(self._heads.get(run_id, head_seq - 1), head_seq) and len(self._due) < RUNS_MAX:
                self._due[run_id] = head_seq + 1
                self._wake.set()
            if len(self._heads) > RUNS_MAX:
                self._heads.clear()
            self._heads[run_id] = head_seq

    async def run(self) -> None:
        """Make snapshots until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(self._settle_s)
            self._wake.clear()
            due, self._due = self._due, {}
            for run_id, seq in due.items():
                await self._keep(run_id, seq)

    async def _keep(self, run_id: RunId, seq: int) -> None:
        try:
            await self._states.snapshot_up_to(run_id, seq)
        except IsolineError as error:
            log.warning("snapshot not made", run_id=run_id, seq=seq, error=str(error))
