"""What executors ask of the service beside the log: leases on runs, the ledger of external effects, the log of model invocations.

Values and calls; nothing is decided here. JSON goes in and out as bytes, verbatim. Every call is safe to repeat: what identifies it (a run and
an epoch, an effect's id, an invocation's coordinates) is in its arguments.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from isoline.v1 import execution_service_pb2 as pb
from isoline_client.channel import Connection
from isoline_client.events import time_of
from isoline_client.wire import Method

EffectState = Literal["claimed", "outbound", "completed", "failed", "in_doubt"]
"""``claimed``: nothing has left. ``outbound``: it is about to leave, or has. ``failed``: it surely did not happen, or was refused.
``in_doubt``: it left, and nobody knows what became of it."""

EnvelopeKind = Literal["valid", "refusal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A run in the caller's hands. Rely on ``ttl_ms`` from before the call was sent; ``expires_at`` is by the database's clock."""

    run_id: str
    workflow_id: str
    epoch: int
    expires_at: datetime
    ttl_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Runs claimed, and when the next one wants an executor (None: none is known)."""

    leases: tuple[Lease, ...]
    next_wake_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One external effect, as it stood at one moment. ``draws``, ``outcome`` and ``cost`` are JSON, empty when there is none."""

    run_id: str
    effect_id: str
    node_id: str
    visit: int
    ordinal: int
    seam: str
    provider_key: str
    request_digest: bytes
    state: EffectState
    attempt: int
    lease_epoch: int
    draws: bytes
    outcome: bytes
    cost: bytes
    claimed_at: datetime
    outbound_at: datetime | None
    ended_at: datetime | None
    resolved_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedEffect:
    """``granted``: the caller may send it. Else ``effect`` says why not."""

    granted: bool
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """What a model answered to one request of one execution of a node. ``response`` and ``cost`` are JSON."""

    run_id: str
    node_id: str
    execution: int
    key: str
    repetition: int
    kind: EnvelopeKind
    response: bytes
    cost: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutInvocation:
    """The record that counts. ``repeated``: an earlier one stood there, and stays."""

    invocation: Invocation
    repeated: bool


class ExecutionClient:
    """The execution service, over a client's connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def claim(
        self,
        workflow_ids: Sequence[str],
        *,
        owner: str,
        lease_ttl_ms: int,
        max_runs: int = 1,
        region: str = "",
        timeout_s: float | None = None,
    ) -> Claim:
        """Claim runs of these workflows that want an executor. An answer that is lost leaves its runs claimed until their leases end."""
        request = pb.ClaimRunsRequest(
            region=region, owner=owner, workflow_ids=workflow_ids, max_runs=max_runs, lease_ttl_ms=lease_ttl_ms
        )
        answer = await self._connection.call(_CLAIM_RUNS, request, timeout_s=timeout_s)
        return Claim(
            leases=tuple(_lease(each) for each in answer.leases),
            next_wake_at=time_of(answer.next_wake_at_us) if answer.HasField("next_wake_at_us") else None,
        )

    async def renew(
        self, leases: Sequence[tuple[str, int]], *, lease_ttl_ms: int, timeout_s: float | None = None
    ) -> tuple[list[Lease], list[str]]:
        """Heartbeat: lengthen the leases on these (run, epoch) that are still the caller's; return them, and the runs that are not."""
        request = pb.RenewLeasesRequest(
            leases=[pb.LeaseRef(run_id=run_id, epoch=epoch) for run_id, epoch in leases], lease_ttl_ms=lease_ttl_ms
        )
        answer = await self._connection.call(_RENEW_LEASES, request, timeout_s=timeout_s)
        return [_lease(each) for each in answer.renewed], list(answer.lost_run_ids)

    async def release(
        self,
        run_id: str,
        epoch: int,
        *,
        seen_head_seq: int,
        wake_in_ms: int | None = None,
        timeout_s: float | None = None,
    ) -> bool:
        """Give a run back; it wants an executor after ``wake_in_ms``, or when something from outside happens to it. False: it was lost."""
        request = pb.ReleaseRunRequest(run_id=run_id, epoch=epoch, seen_head_seq=seen_head_seq, wake_in_ms=wake_in_ms)
        return (await self._connection.call(_RELEASE_RUN, request, timeout_s=timeout_s)).released

    async def claim_effect(
        self,
        run_id: str,
        effect_id: str,
        *,
        lease_epoch: int,
        node_id: str,
        visit: int,
        ordinal: int,
        seam: str,
        provider_key: str,
        request_digest: bytes,
        draws: bytes = b"",
        timeout_s: float | None = None,
    ) -> ClaimedEffect:
        """Claim an effect before it leaves, or learn what became of it."""
        request = pb.ClaimEffectRequest(
            run_id=run_id,
            lease_epoch=lease_epoch,
            effect_id=effect_id,
            node_id=node_id,
            visit=visit,
            ordinal=ordinal,
            seam=seam,
            provider_key=provider_key,
            request_digest=request_digest,
            draws=draws,
        )
        answer = await self._connection.call(_CLAIM_EFFECT, request, request_id=effect_id, timeout_s=timeout_s)
        return ClaimedEffect(granted=answer.granted, effect=_effect(answer.effect))

    async def advance_effect(
        self,
        run_id: str,
        effect_id: str,
        *,
        lease_epoch: int,
        attempt: int,
        to: EffectState,
        outcome: bytes = b"",
        cost: bytes = b"",
        timeout_s: float | None = None,
    ) -> Effect:
        """Move a claimed effect on: ``outbound`` before the request leaves, then its outcome."""
        request = pb.AdvanceEffectRequest(
            run_id=run_id,
            lease_epoch=lease_epoch,
            effect_id=effect_id,
            attempt=attempt,
            to=_STATES[to],
            outcome=outcome,
            cost=cost,
        )
        answer = await self._connection.call(_ADVANCE_EFFECT, request, request_id=effect_id, timeout_s=timeout_s)
        return _effect(answer.effect)

    async def list_effects(
        self, run_id: str = "", *, states: Sequence[EffectState] = (), node_id: str = "", page_size: int = 50
    ) -> AsyncGenerator[Effect, None]:
        """Effects, oldest first: of one run, or of the tenant by state."""
        request = pb.ListEffectsRequest(
            run_id=run_id, states=[_STATES[each] for each in states], node_id=node_id, page_size=page_size
        )
        while True:
            answer = await self._connection.call(_LIST_EFFECTS, request)
            for each in answer.effects:
                yield _effect(each)
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    async def resolve_effect(
        self,
        run_id: str,
        effect_id: str,
        *,
        to: Literal["completed", "failed"],
        resolved_by: str,
        outcome: bytes = b"",
        timeout_s: float | None = None,
    ) -> Effect:
        """Say what became of an effect in doubt; its run goes on."""
        request = pb.ResolveEffectRequest(
            run_id=run_id, effect_id=effect_id, to=_STATES[to], outcome=outcome, resolved_by=resolved_by
        )
        answer = await self._connection.call(_RESOLVE_EFFECT, request, request_id=effect_id, timeout_s=timeout_s)
        return _effect(answer.effect)

    async def put_invocation(
        self, invocation: Invocation, *, lease_epoch: int, timeout_s: float | None = None
    ) -> PutInvocation:
        """Record what a model answered. The first record of its coordinates counts."""
        message = pb.Invocation(
            run_id=invocation.run_id,
            node_id=invocation.node_id,
            execution=invocation.execution,
            key=invocation.key,
            repetition=invocation.repetition,
            kind=_KINDS[invocation.kind],
            response=invocation.response,
            cost=invocation.cost,
        )
        request = pb.PutInvocationRequest(lease_epoch=lease_epoch, invocation=message)
        answer = await self._connection.call(_PUT_INVOCATION, request, request_id=invocation.key, timeout_s=timeout_s)
        return PutInvocation(invocation=_invocation(answer.invocation), repeated=answer.repeated)

    async def get_invocation(
        self,
        run_id: str,
        node_id: str,
        *,
        execution: int,
        key: str,
        repetition: int = 0,
        follow_sources: bool = False,
        timeout_s: float | None = None,
    ) -> Invocation | None:
        """Look up what a model answered, in this run and, when asked to, in the sources of a fork."""
        request = pb.GetInvocationRequest(
            run_id=run_id,
            node_id=node_id,
            execution=execution,
            key=key,
            repetition=repetition,
            follow_sources=follow_sources,
        )
        answer = await self._connection.call(_GET_INVOCATION, request, timeout_s=timeout_s)
        return _invocation(answer.invocation) if answer.HasField("invocation") else None


# -- the wire ------------------------------------------------------------------------------------------------------------------------

_SERVICE: Final = "isoline.v1.ExecutionService"
_CLAIM_RUNS: Final[Method[pb.ClaimRunsRequest, pb.ClaimRunsResponse]] = Method(
    f"{_SERVICE}/ClaimRuns", pb.ClaimRunsResponse.FromString
)
_RENEW_LEASES: Final[Method[pb.RenewLeasesRequest, pb.RenewLeasesResponse]] = Method(
    f"{_SERVICE}/RenewLeases", pb.RenewLeasesResponse.FromString
)
_RELEASE_RUN: Final[Method[pb.ReleaseRunRequest, pb.ReleaseRunResponse]] = Method(
    f"{_SERVICE}/ReleaseRun", pb.ReleaseRunResponse.FromString
)
_CLAIM_EFFECT: Final[Method[pb.ClaimEffectRequest, pb.ClaimEffectResponse]] = Method(
    f"{_SERVICE}/ClaimEffect", pb.ClaimEffectResponse.FromString, changes=True
)
_ADVANCE_EFFECT: Final[Method[pb.AdvanceEffectRequest, pb.AdvanceEffectResponse]] = Method(
    f"{_SERVICE}/AdvanceEffect", pb.AdvanceEffectResponse.FromString, changes=True
)
_LIST_EFFECTS: Final[Method[pb.ListEffectsRequest, pb.ListEffectsResponse]] = Method(
    f"{_SERVICE}/ListEffects", pb.ListEffectsResponse.FromString
)
_RESOLVE_EFFECT: Final[Method[pb.ResolveEffectRequest, pb.ResolveEffectResponse]] = Method(
    f"{_SERVICE}/ResolveEffect", pb.ResolveEffectResponse.FromString, changes=True
)
_PUT_INVOCATION: Final[Method[pb.PutInvocationRequest, pb.PutInvocationResponse]] = Method(
    f"{_SERVICE}/PutInvocation", pb.PutInvocationResponse.FromString, changes=True
)
_GET_INVOCATION: Final[Method[pb.GetInvocationRequest, pb.GetInvocationResponse]] = Method(
    f"{_SERVICE}/GetInvocation", pb.GetInvocationResponse.FromString
)

_STATES: Final[dict[EffectState, pb.EffectState]] = {
    "claimed": pb.EFFECT_STATE_CLAIMED,
    "outbound": pb.EFFECT_STATE_OUTBOUND,
    "completed": pb.EFFECT_STATE_COMPLETED,
    "failed": pb.EFFECT_STATE_FAILED,
    "in_doubt": pb.EFFECT_STATE_IN_DOUBT,
}
_STATE_NAMES: Final = {number: name for name, number in _STATES.items()}
_KINDS: Final[dict[EnvelopeKind, pb.EnvelopeKind]] = {
    "valid": pb.ENVELOPE_KIND_VALID,
    "refusal": pb.ENVELOPE_KIND_REFUSAL,
}
_KIND_NAMES: Final = {number: name for name, number in _KINDS.items()}


def _lease(message: pb.Lease) -> Lease:
    return Lease(
        run_id=message.run_id,
        workflow_id=message.workflow_id,
        epoch=message.epoch,
        expires_at=time_of(message.expires_at_us),
        ttl_ms=message.ttl_ms,
    )


def _effect(message: pb.Effect) -> Effect:
    return Effect(
        run_id=message.run_id,
        effect_id=message.effect_id,
        node_id=message.node_id,
        visit=message.visit,
        ordinal=message.ordinal,
        seam=message.seam,
        provider_key=message.provider_key,
        request_digest=message.request_digest,
        state=_STATE_NAMES[message.state],
        attempt=message.attempt,
        lease_epoch=message.lease_epoch,
        draws=message.draws,
        outcome=message.outcome,
        cost=message.cost,
        claimed_at=time_of(message.claimed_at_us),
        outbound_at=time_of(message.outbound_at_us) if message.HasField("outbound_at_us") else None,
        ended_at=time_of(message.ended_at_us) if message.HasField("ended_at_us") else None,
        resolved_by=message.resolved_by,
    )


def _invocation(message: pb.Invocation) -> Invocation:
    return Invocation(
        run_id=message.run_id,
        node_id=message.node_id,
        execution=message.execution,
        key=message.key,
        repetition=message.repetition,
        kind=_KIND_NAMES[message.kind],
        response=message.response,
        cost=message.cost,
    )
