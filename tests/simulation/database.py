"""The simulated database: one state machine, one statement after another, with the conditions that the SQL has (``store/sql_*.py``).

What belongs here: what a statement does to the tables, and which commits a replica has seen. What does not: how a statement gets here and
what is lost on the way (``link``), and what must be true of it all (``monitor``).

``Conditions`` are those parts of the statements that the guarantees stand on. A planted bug turns one off.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from isoline_server.domain.effect import ClaimEffectCommand, Effect, EffectState, Move, ResolveEffectCommand
from isoline_server.domain.ids import Region, RunId
from isoline_server.domain.lease import ClaimCommand, Claimed, Lease, LeaseRef, ReleaseCommand
from isoline_server.domain.receipt import Receipt
from isoline_server.domain.run import Head, Mark, Run
from isoline_server.operations.execution_ports import Fenced, Renewed
from isoline_server.operations.ports import GroupWrite, KeySeen


@dataclass(slots=True)
class Conditions:
    """What the real statements ask before they do anything."""

    unique_receipts: bool = True
    compare_and_set: bool = True
    append_epoch: bool = True
    effect_epoch: bool = True
    outbound_lease_lives: bool = True
    claim_waits_for_lease: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A row of ``runs``. ``run.head`` is that of its making; ``head`` is the newest."""

    run: Run
    head: Head
    wake_at_us: int | None = None
    expires_at_us: int | None = None
    called: bool = False


@dataclass(frozen=True, slots=True)
class EventRow:
    record: bytes
    digest: bytes
    end_byte: int


Key: TypeAlias = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What one statement changed: (table, key) → row. ``fence``: the epoch under which it claims to write, by run; 0 is none."""

    number: int
    at_us: int
    what: str
    puts: Mapping[tuple[str, Key], Any]
    fence: Mapping[RunId, int] = field(default_factory=dict)


class Tables:
    """The tables as one node shows them."""

    def __init__(self) -> None:
        self.runs: dict[RunId, RunRow] = {}
        self.events: dict[tuple[RunId, int], EventRow] = {}
        self.receipts: dict[tuple[Region, bytes], Receipt] = {}
        self.engines: dict[tuple[RunId, str], int] = {}
        self.effects: dict[tuple[RunId, str], Effect] = {}

    def apply(self, commit: Commit) -> None:
        for (table, key), row in commit.puts.items():
            getattr(self, table)[key] = row

    def run(self, run_id: RunId) -> Run | None:
        """As readers get it: without the epoch, which is no part of the log."""
        row = self.runs.get(run_id)
        return None if row is None else replace(row.run, head=replace(row.head, lease_epoch=0))

    def mark(self, run_id: RunId, seq: int) -> Mark | None:
        row = self.events.get((run_id, seq))
        return None if row is None else Mark(seq=seq, digest=row.digest, end_byte=row.end_byte)

    def receipts_among(self, region: Region, keys: Sequence[bytes]) -> dict[bytes, Receipt]:
        return {key: self.receipts[region, key] for key in keys if (region, key) in self.receipts}


OnCommit = Callable[[Tables, Commit], None]
"""Told of a commit before the tables have it."""


class Database:
    """The leader. Every method is one statement; it lands here whole, or raises ``KeySeen`` and does nothing."""

    def __init__(self, now_us: Callable[[], int], on_commit: OnCommit) -> None:
        self.tables = Tables()
        self.commits: list[Commit] = []
        self.conditions = Conditions()
        self._now_us = now_us
        self._on_commit = on_commit

    def _commit(self, what: str, puts: dict[tuple[str, Key], Any], fence: Mapping[RunId, int] | None = None) -> None:
        if not puts:
            return
        commit = Commit(number=len(self.commits), at_us=self._now_us(), what=what, puts=puts, fence=fence or {})
        self._on_commit(self.tables, commit)
        self.tables.apply(commit)
        self.commits.append(commit)

    # -- the log -----------------------------------------------------------------------------------------------------------------

    def append(self, region: Region, groups: Sequence[GroupWrite]) -> frozenset[RunId]:
        puts: dict[tuple[str, Key], Any] = {}
        moved = [group for group in groups if self._moves(group)]
        for group in moved:
            row = self.tables.runs[group.run_id]
            head = replace(group.head, lease_epoch=row.head.lease_epoch)
            wakes = group.wakes and row.run.executed and (row.wake_at_us is None or row.wake_at_us > self._now_us())
            wake_at_us = self._now_us() if wakes else row.wake_at_us
            puts["runs", group.run_id] = replace(row, head=head, wake_at_us=wake_at_us)
            for index, record in enumerate(group.records):
                seq = group.previous.seq + 1 + index
                self._insert(puts, "events", (group.run_id, seq), self.conditions.compare_and_set)
                puts["events", (group.run_id, seq)] = EventRow(record, group.digests[index], group.end_bytes[index])
            for receipt in group.receipts:
                self._insert(puts, "receipts", (region, receipt.key), self.conditions.unique_receipts)
                puts["receipts", (region, receipt.key)] = receipt
            for engine, last in group.engines.items():
                puts["engines", (group.run_id, engine)] = last
        self._commit("append", puts, {group.run_id: group.lease_epoch for group in moved})
        return frozenset(group.run_id for group in moved)

    def _moves(self, group: GroupWrite) -> bool:
        row = self.tables.runs.get(group.run_id)
        if row is None:
            return False
        if self.conditions.compare_and_set and (row.head.seq, row.head.digest) != (
            group.previous.seq,
            group.previous.digest,
        ):
            return False
        return not (self.conditions.append_epoch and group.lease_epoch and group.lease_epoch != row.head.lease_epoch)

    def _insert(self, puts: Mapping[tuple[str, Key], Any], table: str, key: Key, unique: bool) -> None:
        if unique and ((table, key) in puts or key in getattr(self.tables, table)):
            raise KeySeen

    def load_heads(self, run_ids: Sequence[RunId]) -> dict[RunId, Head]:
        return {run_id: self.tables.runs[run_id].head for run_id in run_ids if run_id in self.tables.runs}

    def load_engine_seqs(self, engines: Sequence[tuple[RunId, str]]) -> dict[tuple[RunId, str], int]:
        return {key: self.tables.engines[key] for key in engines if key in self.tables.engines}

    def insert_run(self, run: Run, receipt: Receipt, receipt_region: Region) -> None:
        puts: dict[tuple[str, Key], Any] = {}
        self._insert(puts, "receipts", (receipt_region, receipt.key), self.conditions.unique_receipts)
        self._insert(puts, "runs", run.run_id, True)
        puts["receipts", (receipt_region, receipt.key)] = receipt
        wake_at_us = self._now_us() if run.executed and run.fork is not None else None
        puts["runs", run.run_id] = RunRow(run=run, head=replace(run.head, lease_epoch=0), wake_at_us=wake_at_us)
        self._commit("insert_run", puts)

    # -- leases ------------------------------------------------------------------------------------------------------------------

    def claim(self, command: ClaimCommand) -> Claimed:
        now_us = self._now_us()
        wanted = [
            (run_id, row, row.wake_at_us)
            for run_id, row in self.tables.runs.items()
            if row.wake_at_us is not None
            and (row.run.home, row.run.tenant) == (command.home, command.tenant)
            and row.run.workflow_id in command.workflow_ids
        ]
        due = sorted(
            (wake_at_us, run_id) for run_id, row, wake_at_us in wanted if self._is_due(row, wake_at_us, now_us)
        )
        puts: dict[tuple[str, Key], Any] = {}
        leases = []
        for _, run_id in due[: command.runs_max]:
            row = self.tables.runs[run_id]
            epoch, expires_at_us = row.head.lease_epoch + 1, now_us + command.ttl_ms * 1_000
            puts["runs", run_id] = replace(
                row, head=replace(row.head, lease_epoch=epoch), expires_at_us=expires_at_us, called=False
            )
            leases.append(
                Lease(run_id=run_id, workflow_id=row.run.workflow_id, epoch=epoch, expires_at_us=expires_at_us)
            )
        self._commit("claim", puts)
        later = [wake_at_us for _, row, wake_at_us in wanted if wake_at_us > now_us]
        held = [
            row.expires_at_us
            for _, row, wake_at_us in wanted
            if wake_at_us <= now_us and row.expires_at_us is not None and row.expires_at_us > now_us
        ]
        following = due[command.runs_max][0] if len(due) > command.runs_max else min(later + held, default=None)
        return Claimed(leases=tuple(leases), next_wake_at_us=following)

    def _is_due(self, row: RunRow, wake_at_us: int, now_us: int) -> bool:
        ended = row.expires_at_us is None or row.expires_at_us <= now_us
        return wake_at_us <= now_us and (ended or not self.conditions.claim_waits_for_lease)

    def renew(self, leases: Sequence[LeaseRef], ttl_ms: int, in_use: Callable[[], bool]) -> Renewed:
        puts: dict[tuple[str, Key], Any] = {}
        renewed, waiting = [], []
        for lease in leases:
            row = self.tables.runs.get(lease.run_id)
            if row is None or row.head.lease_epoch != lease.epoch or row.expires_at_us is None:
                continue
            if in_use():
                waiting.append(lease)
                continue
            expires_at_us = self._now_us() + ttl_ms * 1_000
            puts["runs", lease.run_id] = replace(row, expires_at_us=expires_at_us)
            renewed.append(
                Lease(
                    run_id=lease.run_id,
                    workflow_id=row.run.workflow_id,
                    epoch=lease.epoch,
                    expires_at_us=expires_at_us,
                )
            )
        self._commit("renew", puts)
        return Renewed(leases=tuple(renewed), waiting=tuple(waiting))

    def release(self, command: ReleaseCommand) -> bool:
        row = self.tables.runs.get(command.lease.run_id)
        if row is None or row.head.lease_epoch != command.lease.epoch:
            return False
        now_us = self._now_us()
        wake_at_us: int | None = None
        if row.head.terminal_seq is not None:
            wake_at_us = None
        elif row.called or row.head.seq > command.seen_head_seq:
            wake_at_us = now_us
        elif command.wake_in_ms is not None:
            wake_at_us = now_us + command.wake_in_ms * 1_000
        released = replace(row, expires_at_us=None, called=False, wake_at_us=wake_at_us)
        self._commit("release", {("runs", command.lease.run_id): released})
        return True

    # -- effects -----------------------------------------------------------------------------------------------------------------

    def _held(self, run_id: RunId, epoch: int, *, live: bool) -> bool:
        row = self.tables.runs.get(run_id)
        if row is None or (self.conditions.effect_epoch and row.head.lease_epoch != epoch):
            return False
        lives = row.expires_at_us is not None and row.expires_at_us > self._now_us()
        return lives or not (live and self.conditions.outbound_lease_lives)

    def insert_effect(self, command: ClaimEffectCommand) -> Fenced:
        if not self._held(command.run_id, command.lease_epoch, live=False):
            return Fenced(held=False, effect=None)
        key = (command.run_id, command.effect_id)
        if key in self.tables.effects:
            return Fenced(held=True, effect=None)
        effect = Effect(
            run_id=command.run_id,
            effect_id=command.effect_id,
            node_id=command.node_id,
            visit=command.visit,
            ordinal=command.ordinal,
            seam=command.seam,
            provider_key=command.provider_key,
            request_digest=command.request_digest,
            state=EffectState.CLAIMED,
            attempt=1,
            lease_epoch=command.lease_epoch,
            draws=command.draws,
            outcome=b"",
            cost=b"",
            first_claimed_at_us=self._now_us(),
            claimed_at_us=self._now_us(),
            outbound_at_us=None,
            ended_at_us=None,
            resolved_by="",
        )
        self._commit("insert_effect", {("effects", key): effect}, {command.run_id: command.lease_epoch})
        return Fenced(held=True, effect=effect)

    def move_effect(self, run_id: RunId, effect_id: str, lease_epoch: int, move: Move) -> Fenced:
        if not self._held(run_id, lease_epoch, live=move.needs_live_lease):
            return Fenced(held=False, effect=None)
        effect = self.tables.effects.get((run_id, effect_id))
        if effect is None or not move.fits(effect):
            return Fenced(held=True, effect=None)
        now_us = self._now_us()
        outbound_at_us = {EffectState.CLAIMED: None, EffectState.OUTBOUND: now_us}
        moved = replace(
            effect,
            state=move.state,
            attempt=move.attempt,
            lease_epoch=move.lease_epoch,
            outcome=move.outcome,
            cost=move.cost or effect.cost,
            claimed_at_us=now_us if move.state is EffectState.CLAIMED else effect.claimed_at_us,
            outbound_at_us=outbound_at_us.get(move.state, effect.outbound_at_us),
            ended_at_us=now_us if move.state in (EffectState.COMPLETED, EffectState.FAILED) else None,
            resolved_by="",
        )
        self._commit("move_effect", {("effects", (run_id, effect_id)): moved}, {run_id: lease_epoch})
        return Fenced(held=True, effect=moved)

    def resolve_effect(self, command: ResolveEffectCommand) -> Effect | None:
        key = (command.run_id, command.effect_id)
        effect, row = self.tables.effects.get(key), self.tables.runs.get(command.run_id)
        if effect is None or row is None or effect.state is not EffectState.IN_DOUBT:
            return None
        now_us = self._now_us()
        resolved = replace(
            effect, state=command.to, outcome=command.outcome, ended_at_us=now_us, resolved_by=command.resolved_by
        )
        puts: dict[tuple[str, Key], Any] = {("effects", key): resolved}
        if row.run.executed and row.head.terminal_seq is None:
            waits = row.wake_at_us is not None and row.wake_at_us <= now_us
            puts["runs", command.run_id] = replace(row, called=True, wake_at_us=row.wake_at_us if waits else now_us)
        self._commit("resolve_effect", puts)
        return resolved


class Replica:
    """A node that shows the leader's state as it was: every commit becomes visible some time after it was made, in order."""

    def __init__(self, database: Database, lag_s: Callable[[], float], now_s: Callable[[], float]) -> None:
        self.tables = Tables()
        self._database = database
        self._lag_s = lag_s
        self._now_s = now_s
        self._applied = 0
        self._known: list[tuple[float, float]] = []
        """When each commit was first heard of, and when it becomes visible."""
        self.stalled_until_s = 0.0

    def heard(self) -> None:
        """A commit was made just now."""
        now_s = self._now_s()
        before_s = self._known[-1][1] if self._known else 0.0
        self._known.append((now_s, max(before_s, now_s + self._lag_s())))

    def catch_up(self) -> Tables:
        """Take what is due, and return the tables as they are now."""
        now_s = self._now_s()
        if now_s >= self.stalled_until_s:
            while self._applied < len(self._database.commits) and self._known[self._applied][1] <= now_s:
                self.tables.apply(self._database.commits[self._applied])
                self._applied += 1
        return self.tables

    def staleness_ms(self) -> int:
        """How long ago the oldest commit was made that is not shown; rounded up."""
        self.catch_up()
        if self._applied == len(self._known):
            return 0
        return int((self._now_s() - self._known[self._applied][0]) * 1_000) + 1
