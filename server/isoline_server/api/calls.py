"""What every call has around it: the caller, the deadline, the span, the duration, and the one place where errors become status.

A servicer method is nothing but translate, operate, translate: it is wrapped as it is registered. An interceptor would do, but asks again
for every call what is the same for all.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

import grpc
import structlog
from grpc import aio
from grpc_status import rpc_status
from opentelemetry.context import attach
from opentelemetry.propagate import extract
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

from isoline_server import telemetry
from isoline_server.api.credentials import Caller, Credentials, Scope
from isoline_server.api.status import INTERNAL, ErrorOnTheWire, on_the_wire
from isoline_server.domain.errors import IsolineError

log = structlog.get_logger(__name__)

DEFAULT_TIMEOUT_S: Final = 30.0
"""For a unary call whose client set no deadline."""

ANSWER_BEFORE_S: Final = 0.05
"""How long before the client's deadline the server says that the outcome is unknown, so that the answer still arrives."""

_caller: ContextVar[Caller] = ContextVar("isoline_caller")
_Context = aio.ServicerContext[Any, Any]
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


def current_caller() -> Caller:
    """The caller of the call that is being served."""
    return _caller.get()


def caller_with(scope: Scope) -> Caller:
    """The caller of the call that is being served. Raises ``ScopeMissing``."""
    caller = current_caller()
    caller.need(scope)
    return caller


def time_left_s(context: _Context) -> float:
    """How long a unary operation may take."""
    remaining = context.time_remaining()
    return DEFAULT_TIMEOUT_S if remaining is None else max(0.0, remaining - ANSWER_BEFORE_S)


def tell(error: Exception, method: str) -> ErrorOnTheWire:
    """How the wire tells ``error``; one that is a defect is told in the log, too, and there with what it says."""
    told = on_the_wire(error)
    if told.reason == INTERNAL.reason:
        log.error("internal error", method=method, exc_info=error)
    return told


class Calls:
    """Stands in for the server where our own services register their methods, and registers them wrapped."""

    def __init__(self, server: aio.Server, credentials: Credentials) -> None:
        self._server = server
        self._credentials = credentials

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """The same methods as ``add_registered_method_handlers`` gets, but not by name."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, _Handler]) -> None:
        """Take the methods of a service by their names."""
        wrapped = {name: self._wrap(f"/{service}/{name}", handler) for name, handler in handlers.items()}
        self._server.add_registered_method_handlers(service, wrapped)

    def _wrap(self, method: str, handler: _Handler) -> _Handler:
        coding = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if handler.request_streaming and not handler.response_streaming:
            return grpc.stream_unary_rpc_method_handler(self._unary(method, handler.stream_unary), **coding)
        if not handler.response_streaming:
            return grpc.unary_unary_rpc_method_handler(self._unary(method, handler.unary_unary), **coding)
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(self._stream(method, handler.stream_stream), **coding)
        return grpc.unary_stream_rpc_method_handler(self._stream(method, handler.unary_stream), **coding)

    def _unary(self, method: str, behaviour: Any) -> Any:
        async def serve(request: Any, context: _Context) -> Any:
            async with _Serving(method, context, self._credentials):
                return await behaviour(request, context)

        return serve

    def _stream(self, method: str, behaviour: Any) -> Any:
        async def serve(request: Any, context: _Context) -> AsyncIterator[Any]:
            async with _Serving(method, context, self._credentials):
                async for response in behaviour(request, context):
                    yield response

        return serve


class _Serving:
    """One call under way: entered with the caller known, left with the span ended and an error told."""

    def __init__(self, method: str, context: _Context, credentials: Credentials) -> None:
        self._method = method
        self._context = context
        self._credentials = credentials
        self._started_s = 0.0
        self._span: Any = None

    async def __aenter__(self) -> None:
        self._started_s = time.perf_counter()
        metadata = {key: value for key, value in self._context.invocation_metadata() or () if isinstance(value, str)}
        parent = extract(metadata) if "traceparent" in metadata else None
        self._span = telemetry.tracer.start_span(
            self._method.lstrip("/"),
            context=parent,
            kind=SpanKind.SERVER,
            attributes={telemetry.RPC_SYSTEM: "grpc", telemetry.RPC_METHOD: self._method.lstrip("/")},
        )
        attach(set_span_in_context(self._span))  # for the call's own task, which ends with it
        try:
            _caller.set(self._credentials.caller(metadata.get("authorization")))
        except IsolineError as error:
            try:
                await self._tell(error)
            finally:
                self._end(on_the_wire(error).code.name)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        status = "OK"
        try:
            if isinstance(error, asyncio.CancelledError | GeneratorExit):
                status = "CANCELLED"
            elif isinstance(error, aio.AbortError):
                status = "ABORTED"
            elif isinstance(error, Exception):
                status = on_the_wire(error).code.name
                await self._tell(error)
        finally:
            self._end(status)

    async def _tell(self, error: Exception) -> None:
        told = tell(error, self._method)
        self._span.set_status(Status(StatusCode.ERROR, told.reason))
        await self._context.abort_with_status(rpc_status.to_status(told.to_status()))

    def _end(self, status: str) -> None:
        self._span.set_attribute(telemetry.RPC_STATUS, status)
        self._span.end()
        telemetry.call_duration_s.record(
            time.perf_counter() - self._started_s,
            {telemetry.RPC_METHOD: self._method.lstrip("/"), telemetry.RPC_STATUS: status},
        )
