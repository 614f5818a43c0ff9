"""The wire as tests use it: one object a server, whose methods send one request and give the answer, and the reading of refusals."""

import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Any

import grpc
from google.rpc import error_details_pb2
from grpc import aio
from grpc_status import rpc_status

from isoline.v1 import common_pb2 as pb
from isoline.v1 import host_service_pb2_grpc as host_grpc
from isoline.v1 import log_service_pb2 as log_pb
from isoline.v1 import log_service_pb2_grpc as log_grpc
from isoline_server.api import calls

CHAIN_START = sha256(b"isoline.v1 digest chain").digest()
UNKNOWN_RUN = "local/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa"
TIMEOUT_S = 20.0

SOON_S = 10.5
"""The timeout of a client that shall learn after half a second that nothing came of its call: see ``answers_early``."""

_numbers = count()


def answers_early(monkeypatch: Any) -> None:
    """Let servers answer ten seconds before a client's deadline, so that the answer arrives on a busy machine too."""
    monkeypatch.setattr(calls, "ANSWER_BEFORE_S", 10.0)


def request_id() -> str:
    """A fresh request id."""
    return f"test-request-{next(_numbers):06d}"


def event(
    payload: Mapping[str, Any] | bytes | None = None, event_type: str = "example.noted", **content: Any
) -> log_pb.NewEvent:
    """A new event; a payload in bytes goes as it is."""
    data = payload if isinstance(payload, bytes) else json.dumps(payload or {}).encode()
    return log_pb.NewEvent(content=pb.EventContent(type=event_type, payload=data, **content))


def events(many: int, **payload: Any) -> list[log_pb.NewEvent]:
    """``many`` events that differ in ``n``."""
    return [event({**payload, "n": n}) for n in range(many)]


@dataclass
class Refusal:
    """How the wire told an error."""

    code: grpc.StatusCode
    reason: str
    message: str
    metadata: dict[str, str]

    @property
    def field(self) -> str:
        return self.metadata.get("field", "")


def refusal_of(error: aio.AioRpcError) -> Refusal:
    status = rpc_status.from_call(error)
    info = error_details_pb2.ErrorInfo()
    if status is not None:
        status.details[0].Unpack(info)
    return Refusal(error.code(), info.reason, error.details() or "", dict(info.metadata))


async def refused(call: Awaitable[Any]) -> Refusal:
    """The refusal of a call that must be refused."""
    try:
        answer = await call
    except aio.AioRpcError as error:
        return refusal_of(error)
    raise AssertionError(f"was not refused: {answer}")


@dataclass
class Log:
    """A range that was read: its records, its end, and where each page came from."""

    records: list[bytes]
    pages: list[log_pb.ReadEventsResponse]

    @property
    def sources(self) -> list[str]:
        return [pb.Source.Name(page.source).removeprefix("SOURCE_") for page in self.pages]

    @property
    def events(self) -> list[pb.Event]:
        return [pb.Event.FromString(record) for record in self.records]

    @property
    def payloads(self) -> list[Any]:
        return [json.loads(each.content.payload) for each in self.events]

    @property
    def last(self) -> pb.Position:
        return self.pages[-1].last


def chain(records: list[bytes], start: bytes = CHAIN_START) -> bytes:
    """The digest behind ``records``, computed here and not by the server's code."""
    for record in records:
        start = sha256(start + record).digest()
    return start


def verified(log: Log) -> Log:
    """The log when every page extends the one before and the chain computes to its end."""
    seq, digest = log.pages[0].before.seq, log.pages[0].before.digest
    for page in log.pages:
        assert (page.before.seq, page.before.digest) == (seq, digest)
        digest = chain(list(page.records), digest)
        seq += len(page.records)
        assert (page.last.seq, page.last.digest) == (seq, digest)
    return log


class Wire:
    """One server's stubs."""

    def __init__(self, address: str, key: str | None = None) -> None:
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1),
        ]
        self.channel = aio.insecure_channel(address, options=options)
        self.log = log_grpc.LogServiceStub(self.channel)
        self.host = host_grpc.HostServiceStub(self.channel)
        self.metadata = None if key is None else (("authorization", f"Bearer {key}"),)

    def call(self, method: str, request: Any, timeout_s: float | None = TIMEOUT_S) -> Any:
        return getattr(self.log, method)(request, timeout=timeout_s, metadata=self.metadata)

    async def create(self, timeout_s: float = TIMEOUT_S, **fields: Any) -> log_pb.CreateRunResponse:
        request = log_pb.CreateRunRequest(**{"request_id": request_id(), "workflow_id": "flow", **fields})
        return await self.call("CreateRun", request, timeout_s)

    async def new_run(self, many: int = 0, **fields: Any) -> str:
        """A fresh run with ``many`` events."""
        run_id = (await self.create(**fields)).run.run_id
        for start in range(0, many, 1000):
            await self.append(run_id, *(event({"n": n}) for n in range(start, min(many, start + 1000))))
        return run_id

    async def append(
        self, run_id: str, *new: log_pb.NewEvent, timeout_s: float = TIMEOUT_S, **fields: Any
    ) -> log_pb.AppendResponse:
        request = log_pb.AppendRequest(**{"request_id": request_id(), "run_id": run_id, "events": new, **fields})
        return await self.call("Append", request, timeout_s)

    async def get(self, run_id: str, freshness: int = pb.FRESHNESS_LATEST, **fields: Any) -> log_pb.GetRunResponse:
        return await self.call("GetRun", log_pb.GetRunRequest(run_id=run_id, freshness=freshness, **fields))

    async def head(self, run_id: str) -> pb.Position:
        return (await self.get(run_id)).run.head

    async def read(
        self, run_id: str, from_seq: int = 0, until_seq: int | None = None, timeout_s: float = TIMEOUT_S, **fields: Any
    ) -> Log:
        request = log_pb.ReadEventsRequest(run_id=run_id, from_seq=from_seq, until_seq=until_seq, **fields)
        pages = [page async for page in self.call("ReadEvents", request, timeout_s)]
        return verified(Log([record for page in pages for record in page.records], pages))

    async def state(
        self, run_id: str, at_seq: int | None = None, freshness: int = 0, **fields: Any
    ) -> log_pb.GetStateResponse:
        request = log_pb.GetStateRequest(run_id=run_id, at_seq=at_seq, freshness=freshness, **fields)
        return await self.call("GetState", request)

    async def prefix(self, run_id: str, until_seq: int | None = None, **fields: Any) -> log_pb.GetPrefixResponse:
        return await self.call("GetPrefix", log_pb.GetPrefixRequest(run_id=run_id, until_seq=until_seq, **fields))

    async def fork(
        self,
        source: str,
        from_seq: int | None = None,
        mode: int = pb.FORK_MODE_BRANCH,
        timeout_s: float = TIMEOUT_S,
        **fields: Any,
    ) -> log_pb.ForkRunResponse:
        request = log_pb.ForkRunRequest(
            **{"request_id": request_id(), "source_run_id": source, "from_seq": from_seq, "mode": mode, **fields}
        )
        return await self.call("ForkRun", request, timeout_s)

    async def diff(self, a: str, b: str, **fields: Any) -> log_pb.DiffRunsResponse:
        return await self.call("DiffRuns", log_pb.DiffRunsRequest(a_run_id=a, b_run_id=b, **fields))

    async def list(self, **fields: Any) -> log_pb.ListRunsResponse:
        return await self.call("ListRuns", log_pb.ListRunsRequest(**fields))

    def tail(self, run_id: str, from_seq: int = 0, timeout_s: float | None = TIMEOUT_S, **fields: Any) -> Any:
        """The open stream."""
        return self.call("TailEvents", log_pb.TailEventsRequest(run_id=run_id, from_seq=from_seq, **fields), timeout_s)

    def append_stream(
        self, requests: AsyncIterator[log_pb.AppendStreamRequest] | None = None, timeout_s: float | None = TIMEOUT_S
    ) -> Any:
        return self.log.AppendStream(requests, timeout=timeout_s, metadata=self.metadata)

    async def close(self) -> None:
        await self.channel.close()


@asynccontextmanager
async def wire_to(address: str, key: str | None = None) -> AsyncIterator[Wire]:
    """The stubs of a server, closed at the end."""
    wire = Wire(address, key)
    try:
        yield wire
    finally:
        await wire.close()
