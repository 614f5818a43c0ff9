"""The run as a value: its head, where it comes from, which log holds which part of it. Rules: see ``append``, ``fork``, ``lineage``."""

from dataclasses import dataclass
from enum import IntEnum

from isoline_server.domain.chain import CHAIN_START
from isoline_server.domain.ids import Region, RunId, Tenant

ERA = 3
"""Every run this host creates is written in the v2 vocabulary (OpenWOP v2 persistence.md)."""
ERA_V1 = 2
"""A run that a v1 host wrote. An append never promotes it."""


class ForkMode(IntEnum):
    """How a fork goes on from its boundary."""

    REPLAY = 1
    BRANCH = 2


class Source(IntEnum):
    """Where an answer was read."""

    LOCAL = 1
    LEADER = 2
    STALE = 3
    """The leader did not answer: the newest that the local replica holds, complete and verified, perhaps behind."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Where an answer was read. ``staleness_ms``: of a ``STALE`` one, how old it may be at most; None when the replica cannot tell."""

    source: Source
    staleness_ms: int | None = None


SEEN_LOCAL = Seen(Source.LOCAL)
SEEN_BY_LEADER = Seen(Source.LEADER)


class Freshness(IntEnum):
    """Which head counts."""

    LATEST = 1
    LOCAL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The end of a run: seq -1 while it is empty. ``record_bytes`` counts the whole prefix; ``terminal_seq`` is set once.

    ``lease_epoch`` is no part of the log, but is compared with it: it grows with every claim of the run by an executor, and fences those before.
    ``mode`` is how the run goes on if it is a fork: who appends has to know. The gaps are the first seqs behind which the log alone does not
    tell the run's memory, or a summary it uses.
    """

    seq: int = -1
    digest: bytes = CHAIN_START
    record_bytes: int = 0
    terminal_seq: int | None = None
    lease_epoch: int = 0
    mode: ForkMode | None = None
    memory_gap_seq: int | None = None
    summary_gap_seq: int | None = None
    era: int = ERA


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What is stored at one seq: the digest and the record bytes of the prefix up to and including it."""

    seq: int
    digest: bytes
    end_byte: int


MARK_START = Mark(seq=-1, digest=CHAIN_START, end_byte=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageRange:
    """Events [start_seq, end_seq) of a run stand in the log of ``origin_run_id``."""

    start_seq: int
    end_seq: int
    origin_run_id: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkOrigin:
    """The source's prefix [0, from_seq), pinned by its digest."""

    source_run_id: RunId
    from_seq: int
    prefix_digest: bytes
    mode: ForkMode
    overlay: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as it was at one moment. Everything but ``head`` never changes. ``executed``: executors of its home region run it."""

    run_id: RunId
    tenant: Tenant
    home: Region
    workflow_id: str
    tags: tuple[str, ...]
    created_at_us: int
    era: int
    head: Head
    fork: ForkOrigin | None = None
    lineage: tuple[LineageRange, ...] = ()
    untranslatable_seq: int | None = None
    """Of an era-2 run: the first event that has no v2 form. Whatever is appended has one, so it is known from the start."""
    executed: bool = False

    @property
    def own_start_seq(self) -> int:
        """The first seq that stands in the run's own log."""
        return self.lineage[-1].end_seq if self.lineage else 0
