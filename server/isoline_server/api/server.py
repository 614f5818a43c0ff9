"""Builds the gRPC server: services, health, reflection, limits of the transport; and ends it in order.

Draining is: say NOT_SERVING, end the tails (their clients go on elsewhere from where they are), take no new call, let what runs finish.
"""

from collections.abc import Sequence
from typing import Final

from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from isoline.v1 import (
    execution_service_pb2,
    execution_service_pb2_grpc,
    host_service_pb2,
    host_service_pb2_grpc,
    log_service_pb2,
    log_service_pb2_grpc,
)
from isoline_server.api.calls import Calls
from isoline_server.api.credentials import Credentials
from isoline_server.api.execution_servicer import ExecutionServicer
from isoline_server.api.host_servicer import HostServicer
from isoline_server.api.log_servicer import LogServicer
from isoline_server.domain import limits
from isoline_server.operations.tail import TailHub

MESSAGE_BYTES_MAX: Final = limits.APPEND_BYTES_MAX + 2 * 1024 * 1024
"""An append at its limit, with the framing and names of a thousand events."""

SERVICES: Final = (
    log_service_pb2.DESCRIPTOR.services_by_name["LogService"].full_name,
    execution_service_pb2.DESCRIPTOR.services_by_name["ExecutionService"].full_name,
    host_service_pb2.DESCRIPTOR.services_by_name["HostService"].full_name,
)


class GrpcServer:
    """The server of one region. ``port`` is known after ``start()``."""

    def __init__(
        self,
        *,
        listen: Sequence[str],
        log: LogServicer,
        execution: ExecutionServicer,
        host: HostServicer,
        credentials: Credentials,
        tails: TailHub,
        reflect: bool,
    ) -> None:
        self._server = aio.server(options=_OPTIONS)
        ours = Calls(self._server, credentials)
        self._health = health.aio.HealthServicer()
        self._tails = tails
        log_service_pb2_grpc.add_LogServiceServicer_to_server(log, ours)
        execution_service_pb2_grpc.add_ExecutionServiceServicer_to_server(execution, ours)
        host_service_pb2_grpc.add_HostServiceServicer_to_server(host, ours)
        # Health and reflection are open to everybody: they tell nothing of any tenant.
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        if reflect:
            reflection.enable_server_reflection((*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)
        self.ports = [self._bind(address) for address in listen]

    def _bind(self, address: str) -> int:
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}") from error
        if port == 0:
            raise OSError(f"cannot listen on {address}")
        return port

    async def start(self) -> None:
        """Serve, and say so."""
        await self._server.start()
        await self._say(health_pb2.HealthCheckResponse.SERVING)

    async def drain(self, grace_s: float) -> None:
        """Stop in order; calls that run longer than ``grace_s`` are cut."""
        await self._say(health_pb2.HealthCheckResponse.NOT_SERVING)
        self._tails.close()
        await self._server.stop(grace_s)

    async def _say(self, status: "health_pb2.HealthCheckResponse.ServingStatus") -> None:
        for service in ("", *SERVICES):
            await self._health.set(service, status)


_OPTIONS: Final[list[tuple[str, int]]] = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    # Two servers on one address would each get half of the calls, in silence.
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_time_ms", 60_000),
]
