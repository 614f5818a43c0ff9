"""What the calls answer, as frozen values. No behaviour beyond reading them, and no wire types: ``wire`` fills them in."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import count, repeat
from typing import Any, Literal

from isoline_client.events import Event, EventContent
from isoline_client.verify import Position

Freshness = Literal["latest", "local"]
"""``latest``: the leader is asked for the head. ``local``: what the answering region's replica holds, however old."""

Source = Literal["", "local", "leader", "stale"]
"""Where the bytes of an answer were read: a complete replica, the leader, or a complete replica that may be behind an unreachable leader."""

ForkMode = Literal["branch", "replay"]
"""``branch``: an independent run from the boundary. ``replay``: re-executed against the source, without external effects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageRange:
    """Events ``[start_seq, end_seq)`` stand in the log of ``origin_run_id``."""

    start_seq: int
    end_seq: int
    origin_run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkOrigin:
    """Where a fork comes from: the source's prefix ``[0, from_seq)``, pinned by its digest."""

    source_run_id: str
    from_seq: int
    prefix_digest: bytes
    mode: ForkMode
    overlay: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A run's head and lineage. ``terminal_seq`` is None while the run goes on, ``fork`` on one that is none. ``executed``: executors run it.

    ``era`` is 2 for a run that a v1 host wrote; ``untranslatable_seq`` is then its first event that cannot be read as v2, if there is one.
    """

    run_id: str
    workflow_id: str
    tags: tuple[str, ...]
    home_region: str
    created_at: datetime
    head: Position
    terminal_seq: int | None
    fork: ForkOrigin | None
    lineage: tuple[LineageRange, ...]
    era: int
    record_bytes: int
    executed: bool = False
    untranslatable_seq: int | None = None
    source: Source = ""
    staleness_ms: int | None = None
    """Of a head whose source is ``stale``: how old it may be at most; None when the replica cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UntranslatableEvent:
    """An event of a v1 log that has no v2 form, and why: ``reason`` is that of the error which reading it gives."""

    seq: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import came to. ``run.run_id`` is empty when it was only checked; ``untranslatable`` tells the first few such events."""

    run: RunInfo
    repeated: bool
    untranslatable_events: int
    untranslatable: tuple[UntranslatableEvent, ...]


@dataclass(frozen=True, slots=True)
class Appended:
    """Where the events stand. ``repeated``: an earlier call with this request id (or engine counter) put them there.

    In a replay there may be more than were sent: behind one that differs from the source the server adds ``replay.diverged``.
    """

    first_seq: int
    last: Position
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Records of consecutive seqs, between two positions. ``digests`` is None when verification was switched off."""

    first_seq: int
    records: Sequence[bytes]
    digests: Sequence[bytes] | None
    before: Position
    last: Position
    source: Source
    staleness_ms: int | None = None
    """Of a ``stale`` page: how old the head may be at most up to which it was read. The events themselves never change."""

    def __iter__(self) -> Iterator[Event]:
        return map(Event, count(self.first_seq), self.records, repeat(None) if self.digests is None else self.digests)

    def __len__(self) -> int:
        return len(self.records)

    @property
    def events(self) -> list[Event]:
        """The records as events, made anew at each access."""
        return list(self)


@dataclass(frozen=True, kw_only=True)
class State:
    """The fold of ``[0, at_seq)``. ``canonical`` are the bytes that ``digest`` is of; the rest is parsed from them."""

    at_seq: int
    canonical: bytes
    digest: bytes
    prefix_digest: bytes
    source: Source
    folded_events: int
    staleness_ms: int | None = None

    @property
    def status(self) -> str:
        return str(self._document["status"])

    @property
    def variables(self) -> dict[str, Any]:
        found: dict[str, Any] = self._document["variables"]
        return found

    @property
    def channels(self) -> dict[str, Any]:
        found: dict[str, Any] = self._document["channels"]
        return found

    @cached_property
    def _document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.canonical)
        return document


@dataclass(frozen=True, slots=True)
class Prefix:
    """The digest of a prefix, and where it was read."""

    last: Position
    source: Source
    staleness_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDiff:
    """One differing seq; the side that has no event there is None."""

    seq: int
    op: Literal["added", "removed", "changed"]
    a_event: EventContent | None
    b_event: EventContent | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """How two runs differ. ``diverged_at_seq`` is None when they do not."""

    a_run_id: str
    b_run_id: str
    diverged_at_seq: int | None
    event_diffs: tuple[EventDiff, ...]
    state_diff: bytes
    truncated: bool
    shared_events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How two forks compare: raw before ``from_seq``, raw and masked from it on. ``first_divergence_seq`` is the first seq at which they differ
    behind their masks; None when they do not. ``truncated``: a run is still open, and what both hold was compared."""

    a_run_id: str
    b_run_id: str
    from_seq: int
    prefix_equal: bool
    raw_suffix_equal: bool
    masked_equal: bool
    compared_events: int
    matched_events: int
    first_divergence_seq: int | None
    truncated: bool

    @property
    def equal(self) -> bool:
        """Whether the two are the same but for what was declared as clock and entropy."""
        return self.prefix_equal and self.masked_equal

    @property
    def score(self) -> float:
        """How much of what was compared matches; 1.0 when there was nothing to compare."""
        return self.matched_events / self.compared_events if self.compared_events else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Versions, limits and features of the answering server."""

    version: str
    api: str
    digest_algorithm: str
    chain_start: bytes
    fork_modes: tuple[str, ...]
    era: int
    limits: dict[str, int]
    regions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionStatus:
    """The answering region: how far its replica is behind (None when unknown), and who leads."""

    region: str
    topology: Literal["", "embedded", "postgres", "cockroach"]
    leader_reachable: bool
    leader_region: str
    local_reachable: bool
    local_is_leader: bool
    lag_bytes: int | None
    lag_ms: int | None
    draining: bool
