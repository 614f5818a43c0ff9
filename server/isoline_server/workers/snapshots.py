"""Keeps state snapshots close behind the heads that this server moves. Lossy on purpose: a snapshot that is not made here is made by the
first reader who passes its seq."""

import asyncio
from collections.abc import Iterable

import structlog

from isoline_server.domain.errors import IsolineError
from isoline_server.domain.ids import RunId
from isoline_server.operations.get_state import StateReader, snapshot_is_due

QUEUE_MAX = 1_000
log = structlog.get_logger(__name__)


class SnapshotKeeper:
    """One task that makes the snapshots that are due, one after the other."""

    def __init__(self, states: StateReader) -> None:
        self._states = states
        self._due: asyncio.Queue[tuple[RunId, int]] = asyncio.Queue(QUEUE_MAX)
        self._seen: dict[RunId, int] = {}

    def notify(self, moved: Iterable[tuple[RunId, int]]) -> None:
        """Note which heads have completed a snapshot distance."""
        for run_id, head_seq in moved:
            if snapshot_is_due(self._seen.get(run_id, head_seq - 1), head_seq) and not self._due.full():
                self._due.put_nowait((run_id, head_seq + 1))
            if len(self._seen) > QUEUE_MAX:
                self._seen.clear()
            self._seen[run_id] = head_seq

    async def run(self) -> None:
        """Make snapshots until cancelled."""
        while True:
            run_id, seq = await self._due.get()
            try:
                await self._states.snapshot_up_to(run_id, seq)
            except IsolineError as error:
                log.warning("snapshot not made", run_id=run_id, seq=seq, error=str(error))
