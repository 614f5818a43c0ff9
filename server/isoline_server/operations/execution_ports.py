"""What the operations of executors need from the store. Protocols only; every method is one statement, and raises ``StoreRetryable``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from isoline_server.domain.effect import ClaimEffectCommand, Effect, EffectState, Move, ResolveEffectCommand
from isoline_server.domain.ids import Region, RunId, Tenant
from isoline_server.domain.invocation import Invocation, InvocationPlace
from isoline_server.domain.lease import ClaimCommand, Claimed, Lease, LeaseRef, ReleaseCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed:
    """What became of some leases. Those of ``waiting`` are the caller's, but their rows were in use; the others that are missing are lost."""

    leases: tuple[Lease, ...]
    waiting: tuple[LeaseRef, ...]


class LeaseStore(Protocol):
    """Leases on runs, on the leader."""

    async def claim(self, command: ClaimCommand) -> Claimed:
        """Give the runs that have waited longest a new epoch each. Runs that another statement holds are passed over."""
        ...

    async def renew(self, region: Region, leases: Sequence[LeaseRef], ttl_ms: int) -> Renewed:
        """Lengthen those leases of one home region that are the newest of their runs and were not given back."""
        ...

    async def release(self, command: ReleaseCommand) -> bool:
        """Give a lease back; False when its epoch is no longer the run's."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """What a fenced statement did. ``held``: the lease is the run's newest; ``effect``: as the statement left it, None when it did nothing."""

    held: bool
    effect: Effect | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectListing:
    """Where a list of effects goes on: behind this one."""

    first_claimed_at_us: int
    run_id: RunId
    effect_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectQuery:
    """Which effects are listed. ``run_id`` None: the tenant's in ``states``; empty ``states`` and ``node_id``: all."""

    tenant: Tenant
    run_id: RunId | None
    states: frozenset[EffectState]
    node_id: str


class EffectStore(Protocol):
    """The ledger of effects, on the leader."""

    async def insert(self, command: ClaimEffectCommand) -> Fenced:
        """Claim an effect that does not exist yet, while the lease is the run's newest."""
        ...

    async def move(self, run_id: RunId, effect_id: str, lease_epoch: int, move: Move) -> Fenced:
        """Change an effect that is as ``move`` says, while the lease is the run's newest (and has not ended, where the move needs that)."""
        ...

    async def resolve(self, command: ResolveEffectCommand) -> Effect | None:
        """Change an effect that is in doubt, and wake its run; None when it is not."""
        ...

    async def load(self, run_id: RunId, effect_id: str) -> Effect | None:
        """The effect as it is now, and durable."""
        ...

    async def page(self, query: EffectQuery, after: EffectListing | None, limit: int) -> Sequence[Effect]:
        """Effects in the order in which they were first claimed."""
        ...


class InvocationStore(Protocol):
    """The log of invocations, on the leader."""

    async def insert(self, tenant: Tenant, invocation: Invocation, lease_epoch: int) -> tuple[bool, bool]:
        """Record an answer whose place is empty, while the lease is the run's newest. Returns whether it is, and whether it was recorded."""
        ...

    async def load(self, place: InvocationPlace) -> Invocation | None:
        """What is recorded there, and durable."""
        ...
