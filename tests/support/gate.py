"""A gRPC server that passes every call on to a real one, and can stop chosen calls: before they reach it, or with the answer in hand.

So a test puts an executor, which is a process of its own, exactly between two steps, and kills it there.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self

import grpc

from isoline.v1 import execution_service_pb2 as execution_pb
from isoline.v1 import log_service_pb2 as log_pb

STREAMS = {"ReadEvents", "TailEvents"}
REQUESTS: dict[str, Any] = {
    "Append": log_pb.AppendRequest,
    "ClaimEffect": execution_pb.ClaimEffectRequest,
    "AdvanceEffect": execution_pb.AdvanceEffectRequest,
    "PutInvocation": execution_pb.PutInvocationRequest,
    "ReleaseRun": execution_pb.ReleaseRunRequest,
    "RenewLeases": execution_pb.RenewLeasesRequest,
}


@dataclass(eq=False)
class Stop:
    """Where calls of one kind stop: ``reached`` once the first one stands there; they go on when it is ``open``."""

    method: str
    where: Literal["before", "behind"]
    matches: Callable[[Any], bool]
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        return self

    async def wait_here(self) -> None:
        self.reached.set()
        await self.open.wait()


class Gate(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Passes calls on to ``target``. ``async with Gate(address) as gate``."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._stops: list[Stop] = []
        self.calls: list[str] = []

    def stop(
        self,
        method: str,
        *,
        where: Literal["before", "behind"] = "before",
        matches: Callable[[Any], bool] | None = None,
    ) -> Stop:
        """Stop the calls of a method whose requests match, from now on."""
        made = Stop(method, where, matches or (lambda _: True))
        self._stops.append(made)
        return made

    def lift(self, stop: Stop) -> None:
        """Let the calls at this stop go on, and stop no more of them."""
        self._stops.remove(stop)
        stop.open.set()

    async def __aenter__(self) -> Self:
        self._channel = grpc.aio.insecure_channel(self._target, options=[("grpc.max_receive_message_length", -1)])
        self._server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        self._server.add_generic_rpc_handlers((self,))
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        await self._server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stop in self._stops:
            stop.open.set()
        await self._server.stop(0)
        await self._channel.close()

    def service(self, details: Any) -> Any:
        path = details.method
        if path.rpartition("/")[2] in STREAMS:
            return grpc.unary_stream_rpc_method_handler(self._pass_stream(path))
        return grpc.unary_unary_rpc_method_handler(self._pass_call(path))

    def _pass_call(self, path: str) -> Any:
        method = path.rpartition("/")[2]

        async def passed(request: bytes, context: Any) -> bytes:
            stop = self._find(method, request)
            if stop is not None and stop.where == "before":
                await stop.wait_here()
            self.calls.append(method)
            try:
                answer: bytes = await self._channel.unary_unary(path)(request, metadata=_own(context))
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata() or ()))
                raise
            if stop is not None and stop.where == "behind":
                await stop.wait_here()
            return answer

        return passed

    def _pass_stream(self, path: str) -> Any:
        async def passed(request: bytes, context: Any) -> AsyncIterator[bytes]:
            call = self._channel.unary_stream(path)(request, metadata=_own(context))
            try:
                async for answer in call:
                    yield answer
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata() or ()))
            finally:
                call.cancel()

        return passed

    def _find(self, method: str, request: bytes) -> Stop | None:
        for stop in self._stops:
            if stop.method == method and stop.matches(REQUESTS[method].FromString(request)):
                return stop
        return None


def _own(context: Any) -> list[tuple[str, str]]:
    return [(key, value) for key, value in context.invocation_metadata() if not key.startswith(("grpc-", "user-agent"))]
