"""The lease of an executor on a run, as a value (guarantee G10). Leases are given and ended by the database's clock, so their times are not
decided here; what an epoch fences is said in ``append`` and ``effect``."""

from dataclasses import dataclass

from isoline_server.domain.ids import Region, RunId, Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A run in an executor's hands. ``epoch`` grows by one with each claim, and is never given twice."""

    run_id: RunId
    workflow_id: str
    epoch: int
    expires_at_us: int


@dataclass(frozen=True, slots=True)
class LeaseRef:
    """Which lease is meant."""

    run_id: RunId
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimCommand:
    """A request for runs of one home region and some workflows, checked for shape."""

    tenant: Tenant
    home: Region
    owner: str
    workflow_ids: tuple[str, ...]
    runs_max: int
    ttl_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The leases given, and when the next of these runs wants an executor (None: none is known)."""

    leases: tuple[Lease, ...]
    next_wake_at_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseCommand:
    """A lease given back. The run wants an executor at once when its log has grown behind ``seen_head_seq``, else after ``wake_in_ms``, else
    (None) when something from outside happens to it."""

    lease: LeaseRef
    seen_head_seq: int
    wake_in_ms: int | None
