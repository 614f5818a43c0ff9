"""``isoline.v1.HostService``: what the answering server is, and how its region stands."""

from dataclasses import dataclass
from typing import Any

from grpc import aio

from isoline.v1 import host_service_pb2, host_service_pb2_grpc
from isoline_server.domain import limits
from isoline_server.domain.chain import CHAIN_START
from isoline_server.domain.ids import Region
from isoline_server.domain.run import ERA, ForkMode
from isoline_server.operations.ports import LogReader
from isoline_server.operations.region_status import region_status
from isoline_server.operations.tail import TailHub

_Context = aio.ServicerContext[Any, Any]
STATUS_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostParts:
    """What the service is put together from."""

    version: str
    region: Region
    homes: tuple[Region, ...]
    topology: str
    leader_region: str
    local: LogReader | None
    leader: LogReader
    tails: TailHub


class HostServicer(host_service_pb2_grpc.HostServiceServicer):
    """The host over gRPC."""

    def __init__(self, parts: HostParts) -> None:
        self._parts = parts

    async def GetCapabilities(
        self, request: host_service_pb2.GetCapabilitiesRequest, context: _Context
    ) -> host_service_pb2.GetCapabilitiesResponse:
        return host_service_pb2.GetCapabilitiesResponse(
            version=self._parts.version,
            api="isoline.v1",
            digest_algorithm="SHA-256(previous || record)",
            chain_start=CHAIN_START,
            fork_modes=[mode.name.lower() for mode in ForkMode],
            era=ERA,
            limits={name.lower(): value for name, value in vars(limits).items() if name.isupper()},
            regions=self._parts.homes,
        )

    async def GetRegionStatus(
        self, request: host_service_pb2.GetRegionStatusRequest, context: _Context
    ) -> host_service_pb2.GetRegionStatusResponse:
        status = await region_status(self._parts.local, self._parts.leader, STATUS_TIMEOUT_S)
        return host_service_pb2.GetRegionStatusResponse(
            region=self._parts.region,
            topology=f"TOPOLOGY_{self._parts.topology.upper()}",
            leader_reachable=status.leader_reachable,
            leader_region=self._parts.leader_region,
            local_reachable=status.local_reachable,
            local_is_leader=status.local_is_leader,
            lag_bytes=-1 if status.lag_bytes is None else status.lag_bytes,
            lag_ms=-1 if status.lag_ms is None else status.lag_ms,
            draining=self._parts.tails.draining,
        )
