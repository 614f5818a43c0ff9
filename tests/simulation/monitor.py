"""What must be true of every commit (guarantees G1, G2, G8, G10), judged apart from the conditions that the statements themselves ask.

What belongs here: rules over one commit and what was committed before. What does not: what callers were told (``verdict``).
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from isoline_server.domain.effect import Effect, EffectState
from isoline_server.domain.ids import RunId
from simulation.database import Commit, EventRow, RunRow, Tables

MAY_BECOME = {
    None: {EffectState.CLAIMED},
    EffectState.CLAIMED: {EffectState.CLAIMED, EffectState.OUTBOUND, EffectState.FAILED},
    EffectState.OUTBOUND: {EffectState.COMPLETED, EffectState.FAILED, EffectState.IN_DOUBT},
    EffectState.FAILED: {EffectState.CLAIMED},
    EffectState.IN_DOUBT: {EffectState.COMPLETED, EffectState.FAILED},
    EffectState.COMPLETED: set(),
}
"""The states of an effect (``domain.effect``), written down a second time."""


class Monitor:
    """Watches commits. ``report`` is called with the guarantee and what broke it."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._report = report
        self.granted_at: dict[tuple[RunId, int], int] = {}
        """The commit that granted each epoch."""
        self.landed: dict[tuple[RunId, int], int] = {}
        """The commit that wrote each event."""
        self._epochs: dict[RunId, int] = {}
        self.heads: dict[RunId, list[tuple[int, int]]] = {}
        """(number of the commit, head seq) of each run, oldest first."""

    def __call__(self, before: Tables, commit: Commit) -> None:
        for run_id, epoch in commit.fence.items():
            newest = self._epochs.get(run_id, 0)
            if epoch and epoch != newest:
                self._report("G10", f"{commit.what} of {run_id} under epoch {epoch} after {newest} was granted")
        for (table, key), row in commit.puts.items():
            match table:
                case "runs":
                    self._run(before, commit, row)
                case "events":
                    self._event(before, commit, key, row)
                case "receipts":
                    if key in before.receipts:
                        self._report("G8", f"a second receipt under key {key[1].hex()[:12]}")
                case "effects":
                    self._effect(before.effects.get(key), row, before.runs[key[0]], commit)
                case _:
                    pass

    def _run(self, before: Tables, commit: Commit, row: RunRow) -> None:
        run_id, old = row.run.run_id, before.runs.get(row.run.run_id)
        if old is None:
            self.heads[run_id] = [(commit.number, row.head.seq)]
            return
        if row.head.seq != old.head.seq:
            self.heads[run_id].append((commit.number, row.head.seq))
            last: Any = commit.puts.get(("events", (run_id, row.head.seq)))
            if row.head.seq < old.head.seq or last is None or last.digest != row.head.digest:
                self._report(
                    "G1", f"the head of {run_id} went from {old.head.seq} to {row.head.seq} without its events"
                )
        if row.head.lease_epoch != old.head.lease_epoch:
            self._granted(commit, old, row)

    def _granted(self, commit: Commit, old: RunRow, row: RunRow) -> None:
        run_id, epoch = row.run.run_id, row.head.lease_epoch
        if epoch != old.head.lease_epoch + 1:
            self._report("G10", f"epoch {epoch} of {run_id} came after {old.head.lease_epoch}")
        if old.expires_at_us is not None and old.expires_at_us > commit.at_us:
            self._report("G10", f"epoch {epoch} of {run_id} was granted while {old.head.lease_epoch} had its lease")
        self._epochs[run_id] = epoch
        self.granted_at[run_id, epoch] = commit.number

    def _event(self, before: Tables, commit: Commit, key: tuple[RunId, int], row: EventRow) -> None:
        run_id, seq = key
        self.landed.setdefault(key, commit.number)
        if key in before.events:
            self._report("G1", f"event {seq} of {run_id} was written again")
            return
        previous: Any = commit.puts.get(("events", (run_id, seq - 1)))
        digest = previous.digest if previous is not None else before.runs[run_id].head.digest
        if previous is None and before.runs[run_id].head.seq != seq - 1:
            self._report("G1", f"event {seq} of {run_id} does not stand behind its head")
        if sha256(digest + row.record).digest() != row.digest:
            self._report("G2", f"event {seq} of {run_id} does not extend the chain")

    def _effect(self, old: Effect | None, new: Effect, row: RunRow, commit: Commit) -> None:
        was = None if old is None else old.state
        name = f"{new.effect_id} of {new.run_id}"
        if new.state not in MAY_BECOME[was]:
            self._report("G10", f"effect {name} went from {was and was.name} to {new.state.name}")
        lives = row.expires_at_us is not None and row.expires_at_us > commit.at_us
        if new.state is EffectState.OUTBOUND and not lives:
            self._report("G10", f"effect {name} left while no lease lived")
