"""What the operations need from the outside: the log's writer, its readers, a clock, ids. Protocols only; who owns what, and which errors
come out, stands in each docstring.

Two kinds of failure come out of a store and are not the caller's fault: ``StoreRetryable`` (the statement did not land, or it is not known
whether it did: ``ambiguous``) and ``KeySeen`` (a receipt with one of the keys exists, so nothing was done).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from isoline_server.domain.append import AppendCommand, Rewritten
from isoline_server.domain.errors import Untranslatable
from isoline_server.domain.ids import Region, RunId, Tenant
from isoline_server.domain.receipt import Receipt
from isoline_server.domain.run import Head, Mark, Run, Source


class StoreRetryable(Exception):
    """The database did not carry a statement out, or did not say whether it did (``ambiguous``). Guarded statements may be repeated."""

    def __init__(self, reason: str, *, ambiguous: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.ambiguous = ambiguous


class KeySeen(Exception):
    """A receipt with one of the request keys exists already. The statement changed nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWrite:
    """Consecutive appends to one run, as one move of its head from ``previous`` to ``head``.

    ``lease_epoch`` must still be the run's (0: none of them is an executor's); ``wakes``: one of them is not.
    """

    run_id: RunId
    previous: Head
    head: Head
    records: Sequence[bytes]
    digests: Sequence[bytes]
    end_bytes: Sequence[int]
    receipts: Sequence[Receipt]
    engines: Mapping[str, int]
    lease_epoch: int = 0
    wakes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsWrite:
    """Consecutive events of a run that is imported: as stored, and the digest and byte count behind each."""

    run_id: RunId
    first_seq: int
    records: Sequence[bytes]
    digests: Sequence[bytes]
    end_bytes: Sequence[int]


class LogWriter(Protocol):
    """The leader's side of the log. Every method is one atomic step; none keeps state between calls."""

    async def append(self, region: Region, groups: Sequence[GroupWrite]) -> frozenset[RunId]:
        """Write every group whose head is still ``previous``, each whole or not at all, in one statement; return the runs that moved.

        Raises ``KeySeen`` or ``StoreRetryable``; then no group was written (or, when ambiguous, perhaps all that could be).
        """
        ...

    async def load_heads(self, region: Region, run_ids: Sequence[RunId]) -> Mapping[RunId, Head]:
        """The heads as they are now; runs that do not exist are absent. Raises ``StoreRetryable``."""
        ...

    async def load_receipts(self, region: Region, keys: Sequence[bytes]) -> Mapping[bytes, Receipt]:
        """The receipts that exist among ``keys``, with the digest of an append's last event. Raises ``StoreRetryable``."""
        ...

    async def load_engine_seqs(
        self, region: Region, engines: Sequence[tuple[RunId, str]]
    ) -> Mapping[tuple[RunId, str], int]:
        """The newest counter of each (run, engine); absent when the engine never wrote there. Raises ``StoreRetryable``."""
        ...

    async def insert_run(self, run: Run, receipt: Receipt, receipt_region: Region) -> None:
        """Make a run, its lineage and its receipt, all or none. Raises ``KeySeen`` or ``StoreRetryable``."""
        ...

    async def insert_events(self, region: Region, events: EventsWrite) -> bool:
        """Store events of a run that nobody sees, for it has no row yet. May be repeated; False when others stand in their place, left
        as they are. Raises ``StoreRetryable``."""
        ...

    async def insert_snapshot(self, region: Region, run_id: RunId, snapshot: "Snapshot") -> None:
        """Keep a snapshot; one that exists is left as it is. Raises ``StoreRetryable``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The folded state of [0, seq) as stored: bytes, their digest, and the digest of the prefix that was folded."""

    seq: int
    prefix_digest: bytes
    state: bytes
    state_digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RawPage:
    """Consecutive rows of one log from ``first_seq`` on, not yet verified. ``refusal``: the only row has no v2 form, for this reason."""

    first_seq: int
    records: Sequence[bytes]
    digests: Sequence[bytes]
    last_end_byte: int
    refusal: Untranslatable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListing:
    """Where a list of runs goes on: behind the run with this creation time and id."""

    created_at_us: int
    run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus:
    """How one replica stands. ``position`` is a log position in bytes, comparable between replicas; None when the engine has none."""

    is_leader: bool
    position: int | None
    lag_ms: int | None


class NearReceipts(Protocol):
    """A replica of this region that commits wait for: what it shows is durable, and it may show it before the far leader's answer is here."""

    @property
    def follows(self) -> bool:
        """False while it is the leader itself, and has nothing to say that the leader does not."""
        ...

    async def load_receipts(self, region: Region, keys: Sequence[bytes]) -> Mapping[bytes, Receipt]:
        """The receipts among ``keys`` that the replica shows. Raises ``StoreRetryable``."""
        ...


class LogReader(Protocol):
    """One replica of the log, read-only. ``source`` says which. Every method raises ``StoreRetryable`` when the replica does not answer."""

    source: Source

    async def run(self, run_id: RunId) -> Run | None:
        """The run as this replica shows it, or None when it does not show one."""
        ...

    async def mark(self, origin_run_id: RunId, seq: int) -> Mark | None:
        """What stands at ``seq`` of one log."""
        ...

    async def page(
        self, origin_run_id: RunId, from_seq: int, until_seq: int, *, start_byte: int, bytes_max: int, events_max: int
    ) -> RawPage:
        """Rows [from_seq, …) of one log in order, at most to ``until_seq``, ``events_max`` rows and ``bytes_max`` behind ``start_byte``,
        but the first row whatever its size. Perhaps empty; perhaps, on a damaged replica, not dense."""
        ...

    async def snapshot_at_or_before(self, origin_run_id: RunId, seq: int) -> Snapshot | None:
        """The newest snapshot of one log at or before ``seq``."""
        ...

    async def list_runs(self, tenant: Tenant, workflow_id: str, after: RunListing | None, limit: int) -> Sequence[Run]:
        """The tenant's runs, newest first, without their lineage."""
        ...

    async def head_seqs(self, run_ids: Sequence[RunId]) -> Mapping[RunId, int]:
        """The head seqs of many runs, in one statement a region."""
        ...

    async def status(self) -> ReplicaStatus:
        """How the replica stands."""
        ...

    async def staleness_ms(self) -> int | None:
        """How old what the replica shows may be at most; None when it cannot tell."""
        ...


class IdSource(Protocol):
    """Fresh ids. Owned by the process; safe for concurrent tasks."""

    def run_entropy(self) -> bytes:
        """16 random bytes."""
        ...

    def event_ids(self, now_us: int, count: int) -> int:
        """The first of ``count`` consecutive ULIDs as a number, above every one given before by this process."""
        ...


Clock = Callable[[], int]
"""Wall clock in microseconds since the Unix epoch."""


@dataclass(slots=True)
class HeadHint:
    """What this process last knew of a run's head and of its engines' counters. A hint only: the compare-and-set decides."""

    head: Head
    engine_seqs: dict[str, int] = field(default_factory=dict)


class Replays(Protocol):
    """Compares what is appended to replay forks with their sources. Owned by the process; one run's appends come from one lane, in order."""

    async def compare(self, command: AppendCommand, head: Head) -> Rewritten:
        """What is to be written for the command behind ``head``. Raises ``InvalidField`` for what only the server may say, and what reading
        the two logs raises."""
        ...

    def stands_at(self, run_id: RunId, digest: bytes) -> None:
        """What was compared last was decided: the next append of the run stands behind the head with this digest, once that is written."""
        ...


Notify = Callable[[Iterable[tuple[RunId, int]]], None]
"""Told of heads this process moved: (run, head seq). Must not block."""
