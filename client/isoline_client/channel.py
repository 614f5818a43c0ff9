"""The way to the servers: one gRPC channel for each address, the choice between them, and calls that are tried until ``retry`` says stop.

A request is serialised once, and the very same bytes are sent on every try. What the bytes mean is not known here.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, cast

import grpc
from grpc.aio import EOF, AioRpcError, Channel, UnaryStreamCall
from opentelemetry.trace import Span

from isoline.v1 import log_service_pb2 as log_pb
from isoline_client import limits, telemetry
from isoline_client.errors import ClientClosed, DeadlineExceeded, IsolineError, from_rpc_error
from isoline_client.gathering import Gathering
from isoline_client.retry import Attempts, Clock, Verdict
from isoline_client.wire import APPEND, APPEND_MANY, A, Method, Q

_OPTIONS: Final[tuple[tuple[str, Any], ...]] = (
    ("grpc.max_receive_message_length", limits.MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", limits.MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", limits.KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", limits.KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.min_reconnect_backoff_ms", limits.CONNECT_MS_MAX),
    ("grpc.initial_reconnect_backoff_ms", limits.RECONNECT_MS_MIN),
    ("grpc.max_reconnect_backoff_ms", limits.RECONNECT_MS_MAX),
    ("grpc.enable_retries", 0),  # the law is ours alone
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.primary_user_agent", "isoline-python"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """How to speak TLS: PEM bytes. Without ``ca`` the system's roots are trusted; ``cert`` and ``key`` make it mutual."""

    ca: bytes | None = None
    cert: bytes | None = None
    key: bytes | None = None
    server_name: str | None = None


class Endpoint:
    """One address: its channel, opened at first use, and since when it is left alone."""

    __slots__ = ("_calls", "_channel", "_tls", "address", "gathering", "rest_until")
    gathering: Gathering

    def __init__(self, address: str, tls: Tls | None) -> None:
        self.address = address
        self.rest_until = 0.0
        """0 while it is good; else the time until which others are preferred."""
        self._tls = tls
        self._channel: Channel | None = None
        self._calls: dict[Method[Any, Any], tuple[Any, Any]] = {}

    @property
    def channel(self) -> Channel:
        if self._channel is None:
            self._channel = _open(self.address, self._tls)
        return self._channel

    @property
    def connected(self) -> bool:
        """Whether it is connected; if not, it begins to connect."""
        return self.channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY

    def callable(self, method: Method[Any, Any]) -> tuple[Any, Any]:
        """What to call for a method, and the attributes of its spans."""
        found = self._calls.get(method)
        if found is None:
            found = (
                self._make(method)(f"/{method.path}", None, method.parse),
                telemetry.attributes(method.path, self.address),
            )
            self._calls[method] = found
        return found

    def _make(self, method: Method[Any, Any]) -> Any:
        if method.sends:
            return self.channel.stream_unary
        return self.channel.unary_stream if method.streams else self.channel.unary_unary

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()


def _open(address: str, tls: Tls | None) -> Channel:
    if tls is None:
        return grpc.aio.insecure_channel(address, options=_OPTIONS)
    named = () if tls.server_name is None else (("grpc.ssl_target_name_override", tls.server_name),)
    credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.cert)
    return grpc.aio.secure_channel(address, credentials, options=_OPTIONS + named)


class Connection:
    """The servers, in the caller's order of preference, as one.

    The first good one is asked. One that fails rests while others answer; when its rest is over and it is connected again, it is preferred
    again: coming back costs no call a failed try.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        api_key: str | None = None,
        tls: Tls | None = None,
        timeout_s: float = limits.CALL_TIMEOUT_S,
        clock: Clock = time.monotonic,
    ) -> None:
        if not addresses:
            raise ValueError("at least one address is needed")
        self.timeout_s = timeout_s
        self.closed = False
        self._endpoints = tuple(Endpoint(address, tls) for address in addresses)
        for endpoint in self._endpoints:
            endpoint.gathering = Gathering(
                partial(self._append_alone, endpoint), partial(self._append_together, endpoint)
            )
        self._metadata: telemetry.Metadata = (("authorization", f"Bearer {api_key}"),) if api_key else ()
        self._clock = clock

    async def call(
        self, method: Method[Q, A], request: Q, *, request_id: str | None = None, timeout_s: float | None = None
    ) -> A:
        """Carry out a call with one answer, with as many tries as the law and the time allow."""
        assert method.changes == (request_id is not None)
        data = request.SerializeToString()

        async def once(endpoint: Endpoint, timeout_try_s: float) -> A:
            return await self._try(endpoint, method, data, timeout_try_s)

        return await self._until_answered(once, self._attempts(timeout_s, request_id))

    async def append(self, request: log_pb.AppendRequest, *, timeout_s: float | None = None) -> log_pb.AppendResponse:
        """Carry out an append as ``call`` does, but together with others that are under way in the same turn of the event loop."""

        async def once(endpoint: Endpoint, timeout_try_s: float) -> log_pb.AppendResponse:
            if telemetry.is_traced():
                return await self._append_alone(endpoint, request, timeout_try_s)  # with its own trace
            return await endpoint.gathering.append(request, timeout_try_s)

        return await self._until_answered(once, self._attempts(timeout_s, request.request_id))

    async def _append_alone(
        self, endpoint: Endpoint, request: log_pb.AppendRequest, timeout_s: float
    ) -> log_pb.AppendResponse:
        return await self._try(endpoint, APPEND, request.SerializeToString(), timeout_s)

    async def _append_together(
        self, endpoint: Endpoint, request: log_pb.AppendManyRequest, timeout_s: float
    ) -> log_pb.AppendManyResponse:
        return await self._try(endpoint, APPEND_MANY, request.SerializeToString(), timeout_s)

    async def _until_answered(self, once: Callable[[Endpoint, float], Awaitable[A]], attempts: Attempts) -> A:
        while True:
            endpoint = self.choose()
            timeout_try_s = attempts.try_timeout_s(last_resort=len(self._endpoints) == 1)
            try:
                answer = await once(endpoint, timeout_try_s)
            except IsolineError as error:
                await self.recover(endpoint, attempts, error)
            else:
                endpoint.rest_until = 0.0
                return answer

    async def send(
        self,
        method: Method[Q, A],
        requests: Callable[[], Iterator[Q]],
        *,
        request_id: str,
        timeout_s: float | None = None,
    ) -> A:
        """Carry out a call that takes many messages: all of them again on every try. A try may take as long as it does; ``timeout_s`` is what
        may pass without one that gets on."""
        assert method.sends
        attempts = self._attempts(timeout_s, request_id)
        while True:
            endpoint = self.choose()
            sending = _Sending(requests())
            try:
                answer: A = await self._try(endpoint, method, sending, None)
            except IsolineError as error:
                if sending.got_on:
                    attempts.restart(self.timeout_s if timeout_s is None else timeout_s)
                await self.recover(endpoint, attempts, error)
            else:
                endpoint.rest_until = 0.0
                return answer

    def _attempts(self, timeout_s: float | None, request_id: str | None) -> Attempts:
        return Attempts(self.timeout_s if timeout_s is None else timeout_s, request_id, self._clock)

    async def _try(self, endpoint: Endpoint, method: Method[Q, A], data: Any, timeout_s: float | None) -> A:
        call, attributes = endpoint.callable(method)
        span = telemetry.start_span(method.path, attributes)
        try:
            answer: A = await call(data, timeout=timeout_s, metadata=telemetry.with_trace(span, self._metadata))
        except AioRpcError as failure:
            error = from_rpc_error(failure)
            telemetry.end_span(span, error.code, error.message)
            raise error from failure
        except asyncio.CancelledError as cancelled:
            telemetry.end_span(span, "CANCELLED")
            self.raise_if_closed(cancelled)
            raise
        telemetry.end_span(span, "OK")
        return answer

    def open(self, method: Method[Q, A], request: Q) -> "Stream[A]":
        """Begin one try of a call with a stream of answers."""
        endpoint = self.choose()
        call, attributes = endpoint.callable(method)
        span = telemetry.start_span(method.path, attributes)
        metadata = telemetry.with_trace(span, self._metadata)
        return Stream(self, endpoint, call(request.SerializeToString(), metadata=metadata), span)

    async def recover(self, endpoint: Endpoint, attempts: Attempts, error: IsolineError) -> None:
        """After a failed try: raise what ends the call, or return when the next try is due."""
        if attempts.failed(error) is Verdict.ELSEWHERE:
            endpoint.rest_until = self._clock() + limits.REST_S
            if any(not other.rest_until for other in self._endpoints):
                return
        await asyncio.sleep(attempts.pause_s(error))

    def choose(self) -> Endpoint:
        """The server to ask next: the first good one, or the one that has rested longest."""
        if self.closed:
            raise ClientClosed(message="the client is closed")
        for endpoint in self._endpoints:
            if not endpoint.rest_until or (endpoint.rest_until <= self._clock() and endpoint.connected):
                return endpoint
        return min(self._endpoints, key=lambda endpoint: endpoint.rest_until)

    async def close(self) -> None:
        """Close every channel. Calls under way fail with ``ClientClosed``."""
        self.closed = True
        await asyncio.gather(*(endpoint.close() for endpoint in self._endpoints))

    def raise_if_closed(self, cancelled: asyncio.CancelledError) -> None:
        """Tell a call that ended because its channel was closed from one whose caller was cancelled."""
        task = asyncio.current_task()
        if self.closed and not (task and task.cancelling()):
            raise ClientClosed(message="the client was closed during the call") from cancelled


class _Sending(Generic[Q]):
    """The messages of one try, as bytes. ``got_on``: the transport took more than it holds before it is connected."""

    def __init__(self, requests: Iterator[Q]) -> None:
        self._requests = requests
        self._taken = 0

    @property
    def got_on(self) -> bool:
        return self._taken > limits.IMPORT_MESSAGES_AHEAD

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._serialised()

    async def _serialised(self) -> AsyncIterator[bytes]:
        for request in self._requests:
            self._taken += 1
            yield request.SerializeToString()


class Stream(Generic[A]):
    """One try of a call with a stream of answers."""

    def __init__(self, connection: Connection, endpoint: Endpoint, call: UnaryStreamCall[Any, A], span: Span) -> None:
        self.endpoint = endpoint
        self._connection = connection
        self._call = call
        self._span: Span | None = span

    async def read(self, silence_s: float) -> A | None:
        """The next answer, or None at the end; ``DeadlineExceeded`` when there is none for ``silence_s``."""
        try:
            async with asyncio.timeout(silence_s):
                answer = await self._call.read()
        except TimeoutError:
            raise self._ended(
                DeadlineExceeded(message=f"{self.endpoint.address} was silent for {silence_s:g} s")
            ) from None
        except AioRpcError as failure:
            raise self._ended(from_rpc_error(failure)) from failure
        except asyncio.CancelledError as cancelled:
            self._connection.raise_if_closed(cancelled)
            raise
        if answer is EOF:
            self._end_span("OK")
            return None
        self.endpoint.rest_until = 0.0
        return cast("A", answer)

    def outranked(self) -> bool:
        """Whether another server would be chosen now."""
        return self._connection.choose() is not self.endpoint

    def cancel(self) -> None:
        self._call.cancel()
        self._end_span("CANCELLED")

    def _ended(self, error: IsolineError) -> IsolineError:
        self._end_span(error.code or "DEADLINE_EXCEEDED", error.message)
        return error

    def _end_span(self, code: str, message: str = "") -> None:
        if self._span is not None:
            telemetry.end_span(self._span, code, message)
            self._span = None
