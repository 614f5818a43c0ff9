"""``isoline.v1.ExecutionService``: translate in, operate, translate out."""

from dataclasses import dataclass
from typing import Any

from grpc import aio

from isoline.v1 import execution_service_pb2 as pb
from isoline.v1 import execution_service_pb2_grpc
from isoline_server.api import translate, translate_execution
from isoline_server.api.calls import caller_with, time_left_s
from isoline_server.api.credentials import Scope
from isoline_server.domain.ids import Region
from isoline_server.operations.advance_effect import advance_effect
from isoline_server.operations.claim_effect import claim_effect
from isoline_server.operations.claim_runs import claim_runs
from isoline_server.operations.execution_ports import EffectStore, InvocationStore, LeaseStore
from isoline_server.operations.get_invocation import get_invocation
from isoline_server.operations.list_effects import list_effects
from isoline_server.operations.put_invocation import put_invocation
from isoline_server.operations.reading import Reading
from isoline_server.operations.release_run import release_run
from isoline_server.operations.renew_leases import renew_leases
from isoline_server.operations.resolve_effect import resolve_effect

_Context = aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionParts:
    """What the service is put together from."""

    region: Region
    homes: tuple[Region, ...]
    leases: LeaseStore
    effects: EffectStore
    invocations: InvocationStore
    reading: Reading


class ExecutionServicer(execution_service_pb2_grpc.ExecutionServiceServicer):
    """Leases, effects and invocations over gRPC."""

    def __init__(self, parts: ExecutionParts) -> None:
        self._parts = parts

    async def ClaimRuns(self, request: pb.ClaimRunsRequest, context: _Context) -> pb.ClaimRunsResponse:
        caller = caller_with(Scope.EXECUTE)
        command = translate_execution.claim_command(request, caller, self._parts.region, self._parts.homes)
        claimed = await claim_runs(self._parts.leases, command, time_left_s(context))
        return translate_execution.claimed(claimed, command.ttl_ms)

    async def RenewLeases(self, request: pb.RenewLeasesRequest, context: _Context) -> pb.RenewLeasesResponse:
        refs = translate_execution.lease_refs(request, caller_with(Scope.EXECUTE))
        ttl_ms = translate_execution.lease_ttl_ms(request.lease_ttl_ms)
        renewed, lost = await renew_leases(self._parts.leases, refs, ttl_ms, time_left_s(context))
        return pb.RenewLeasesResponse(
            renewed=[translate_execution.lease(each, ttl_ms) for each in renewed], lost_run_ids=lost
        )

    async def ReleaseRun(self, request: pb.ReleaseRunRequest, context: _Context) -> pb.ReleaseRunResponse:
        command = translate_execution.release_command(request, caller_with(Scope.EXECUTE))
        return pb.ReleaseRunResponse(released=await release_run(self._parts.leases, command, time_left_s(context)))

    async def ClaimEffect(self, request: pb.ClaimEffectRequest, context: _Context) -> pb.ClaimEffectResponse:
        command = translate_execution.claim_effect_command(request, caller_with(Scope.EXECUTE))
        granted, effect = await claim_effect(self._parts.effects, command, time_left_s(context))
        return pb.ClaimEffectResponse(granted=granted, effect=translate_execution.effect(effect))

    async def AdvanceEffect(self, request: pb.AdvanceEffectRequest, context: _Context) -> pb.AdvanceEffectResponse:
        command = translate_execution.advance_effect_command(request, caller_with(Scope.EXECUTE))
        effect = await advance_effect(self._parts.effects, command, time_left_s(context))
        return pb.AdvanceEffectResponse(effect=translate_execution.effect(effect))

    async def ListEffects(self, request: pb.ListEffectsRequest, context: _Context) -> pb.ListEffectsResponse:
        caller = caller_with(Scope.READ)
        query = translate_execution.effect_query(request, caller)
        after = translate_execution.effects_listing(request.page_token, caller, query)
        effects, following = await list_effects(
            self._parts.effects, query, after, translate.page_size(request.page_size)
        )
        return pb.ListEffectsResponse(
            effects=[translate_execution.effect(each) for each in effects],
            next_page_token=translate_execution.effects_token(caller, query, following),
        )

    async def ResolveEffect(self, request: pb.ResolveEffectRequest, context: _Context) -> pb.ResolveEffectResponse:
        command = translate_execution.resolve_effect_command(request, caller_with(Scope.APPEND))
        effect = await resolve_effect(self._parts.effects, command, time_left_s(context))
        return pb.ResolveEffectResponse(effect=translate_execution.effect(effect))

    async def PutInvocation(self, request: pb.PutInvocationRequest, context: _Context) -> pb.PutInvocationResponse:
        caller = caller_with(Scope.EXECUTE)
        invocation = translate_execution.invocation(request.invocation, caller)
        epoch = translate_execution.epoch(request.lease_epoch, "lease_epoch")
        stored, repeated = await put_invocation(
            self._parts.invocations, caller.tenant, invocation, epoch, time_left_s(context)
        )
        return pb.PutInvocationResponse(invocation=translate_execution.invocation_out(stored), repeated=repeated)

    async def GetInvocation(self, request: pb.GetInvocationRequest, context: _Context) -> pb.GetInvocationResponse:
        place = translate_execution.invocation_place(request, caller_with(Scope.READ))
        found = await get_invocation(
            self._parts.invocations, self._parts.reading, place, follow_sources=request.follow_sources
        )
        return pb.GetInvocationResponse(invocation=None if found is None else translate_execution.invocation_out(found))
