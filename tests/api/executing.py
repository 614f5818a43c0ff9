"""The execution service over the wire, as tests use it: one object a server."""

import json
from hashlib import sha256
from itertools import count
from typing import Any

from api.wire import TIMEOUT_S, Wire, event
from guarantees.copies import execute
from isoline.v1 import execution_service_pb2 as pb
from isoline.v1 import execution_service_pb2_grpc

CLAIMED, OUTBOUND = pb.EFFECT_STATE_CLAIMED, pb.EFFECT_STATE_OUTBOUND
COMPLETED, FAILED, IN_DOUBT = pb.EFFECT_STATE_COMPLETED, pb.EFFECT_STATE_FAILED, pb.EFFECT_STATE_IN_DOUBT
KEY = sha256(b"a request").hexdigest()

_numbers = count()


def new_workflow() -> str:
    """A workflow of which there are no runs yet."""
    return f"flow-{next(_numbers)}"


def digest(name: str = "request") -> bytes:
    return sha256(name.encode()).digest()


class Executing:
    """One server's execution stubs, and its wire."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._stub = execution_service_pb2_grpc.ExecutionServiceStub(wire.channel)

    async def call(self, method: str, request: Any, timeout_s: float = TIMEOUT_S) -> Any:
        return await getattr(self._stub, method)(request, timeout=timeout_s, metadata=self.wire.metadata)

    async def waiting_run(self, workflow_id: str, **fields: Any) -> str:
        """A run that wants an executor."""
        run_id = await self.wire.new_run(workflow_id=workflow_id, executed=True, **fields)
        await self.wire.append(run_id, event())
        return run_id

    async def leased_run(self, **fields: Any) -> tuple[str, int]:
        """A run in our hands, and the epoch."""
        workflow_id = new_workflow()
        await self.waiting_run(workflow_id, **fields)
        (lease,) = (await self.claim(workflow_id)).leases
        return lease.run_id, lease.epoch

    async def claim(self, *workflow_ids: str, timeout_s: float = TIMEOUT_S, **fields: Any) -> pb.ClaimRunsResponse:
        asked = {"owner": "the test", "workflow_ids": workflow_ids, "max_runs": 1, "lease_ttl_ms": 60_000, **fields}
        return await self.call("ClaimRuns", pb.ClaimRunsRequest(**asked), timeout_s)

    async def renew(self, *leases: tuple[str, int], lease_ttl_ms: int = 60_000) -> pb.RenewLeasesResponse:
        refs = [pb.LeaseRef(run_id=run_id, epoch=epoch) for run_id, epoch in leases]
        return await self.call("RenewLeases", pb.RenewLeasesRequest(leases=refs, lease_ttl_ms=lease_ttl_ms))

    async def release(self, run_id: str, epoch: int, seen_head_seq: int = 0, **fields: Any) -> bool:
        asked = {"run_id": run_id, "epoch": epoch, "seen_head_seq": seen_head_seq, **fields}
        return (await self.call("ReleaseRun", pb.ReleaseRunRequest(**asked))).released

    async def claim_effect(
        self, run_id: str, lease_epoch: int, effect_id: str = "effect", timeout_s: float = TIMEOUT_S, **fields: Any
    ) -> pb.ClaimEffectResponse:
        asked = {
            "run_id": run_id,
            "lease_epoch": lease_epoch,
            "effect_id": effect_id,
            "node_id": "pay",
            "visit": 1,
            "seam": "http.request",
            "provider_key": "POST shop.example:443",
            "request_digest": digest(),
            "draws": b"[]",
            **fields,
        }
        return await self.call("ClaimEffect", pb.ClaimEffectRequest(**asked), timeout_s)

    async def advance(
        self, run_id: str, lease_epoch: int, to: int, effect_id: str = "effect", attempt: int = 1, **fields: Any
    ) -> pb.Effect:
        asked = {
            "run_id": run_id,
            "lease_epoch": lease_epoch,
            "effect_id": effect_id,
            "attempt": attempt,
            "to": to,
            **fields,
        }
        return (await self.call("AdvanceEffect", pb.AdvanceEffectRequest(**asked))).effect

    async def resolve(self, run_id: str, to: int = COMPLETED, effect_id: str = "effect", **fields: Any) -> pb.Effect:
        asked = {"run_id": run_id, "effect_id": effect_id, "to": to, "resolved_by": "ada", **fields}
        return (await self.call("ResolveEffect", pb.ResolveEffectRequest(**asked))).effect

    async def effects(self, run_id: str = "", **fields: Any) -> pb.ListEffectsResponse:
        return await self.call("ListEffects", pb.ListEffectsRequest(run_id=run_id, **fields))

    async def put(self, run_id: str, lease_epoch: int, **fields: Any) -> pb.PutInvocationResponse:
        invocation = pb.Invocation(
            **{
                "run_id": run_id,
                "node_id": "ask",
                "execution": 1,
                "key": KEY,
                "kind": pb.ENVELOPE_KIND_VALID,
                "response": json.dumps("yes").encode(),
                **fields,
            }
        )
        return await self.call("PutInvocation", pb.PutInvocationRequest(lease_epoch=lease_epoch, invocation=invocation))

    async def get(self, run_id: str, **fields: Any) -> pb.GetInvocationResponse:
        asked = {"run_id": run_id, "node_id": "ask", "execution": 1, "key": KEY, **fields}
        return await self.call("GetInvocation", pb.GetInvocationRequest(**asked))


async def end_lease(url: str, run_id: str) -> None:
    """Let the time of a lease pass."""
    await execute(url, "UPDATE runs SET lease_expires_at = now() - INTERVAL '1 second' WHERE run_id = %s", [run_id])


async def taken_over(executing: Executing, url: str, run_id: str, epoch: int) -> int:
    """Another executor claims a run whose holder has been silent; returns the new epoch."""
    await end_lease(url, run_id)
    workflow_id = (await executing.wire.get(run_id)).run.workflow_id
    (lease,) = (await executing.claim(workflow_id)).leases
    assert (lease.run_id, lease.epoch) == (run_id, epoch + 1)
    return lease.epoch
