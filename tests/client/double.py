# ruff: noqa: N802 - the methods have the names of the contract
"""A small log service that can be made to fail in the ways a network fails. It stands in for the network, not for the server's rules.

Several doubles over one ``World`` are several regions: what one has committed the others read.
"""

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from isoline.v1 import common_pb2 as pb
from isoline.v1 import host_service_pb2 as host_pb
from isoline.v1 import host_service_pb2_grpc as host_grpc
from isoline.v1 import log_service_pb2 as log_pb
from isoline.v1 import log_service_pb2_grpc as log_grpc

START_DIGEST = sha256(b"isoline.v1 digest chain").digest()
RUN_ID = "acme/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa"
Fault = Callable[[grpc.aio.ServicerContext, Callable[[], Awaitable[object]]], Awaitable[object]]


def status_of(code, reason="", metadata=None, details="", retry_after_s=None):
    parts = []
    if reason:
        info = error_details_pb2.ErrorInfo(domain="isoline.dev", reason=reason, metadata=metadata or {})
        parts.append(info)
    if retry_after_s is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(int(retry_after_s * 1000))
        parts.append(retry)
    packed = []
    for part in parts:
        packed.append(any_pb2.Any())
        packed[-1].Pack(part)
    return rpc_status.to_status(status_pb2.Status(code=code.value[0], message=details or reason, details=packed))


def refuse(code, reason="", metadata=None, **more) -> Fault:
    """Fail without doing anything."""

    async def fault(context, work):
        await context.abort_with_status(status_of(code, reason, metadata, **more))

    return fault


def lose(code=grpc.StatusCode.UNAVAILABLE) -> Fault:
    """Do the work, then fail: the answer is lost."""

    async def fault(context, work):
        await work()
        await context.abort(code, "the answer was lost")

    return fault


def hang() -> Fault:
    """Do the work, then never answer."""

    async def fault(context, work):
        await work()
        await asyncio.Event().wait()

    return fault


def alter(change) -> Fault:
    """Answer with something else than what was worked out."""

    async def fault(context, work):
        return change(await work())

    return fault


@dataclass
class World:
    """What is committed, whoever serves it."""

    records: list[bytes] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    receipts: dict[str, bytes] = field(default_factory=dict)
    grown: asyncio.Event = field(default_factory=asyncio.Event)

    def append(self, contents):
        for content in contents:
            stamp = pb.EventStamp(event_id=len(self.records).to_bytes(16, "big"), recorded_at_us=1, region="eu")
            record = pb.Event(content=content, stamp=stamp).SerializeToString()
            self.digests.append(sha256(self.position().digest + record).digest())
            self.records.append(record)
        self.grown.set()
        self.grown = asyncio.Event()

    def fill(self, count, payload=b"{}"):
        self.append(pb.EventContent(type="node.completed", node_id=f"n{n}", payload=payload) for n in range(count))

    def end(self):
        self.append([pb.EventContent(type="run.completed", payload=b"{}")])

    def position(self, seq=None):
        seq = len(self.records) - 1 if seq is None else seq
        return pb.Position(seq=seq, digest=self.digests[seq] if seq >= 0 else START_DIGEST)

    def page(self, from_seq, until_seq):
        return log_pb.ReadEventsResponse(
            first_seq=from_seq,
            records=self.records[from_seq:until_seq],
            before=self.position(from_seq - 1),
            last=self.position(until_seq - 1),
            source=pb.SOURCE_LOCAL,
        )

    def run(self):
        run = log_pb.Run(run_id=RUN_ID, workflow_id="w", home_region="eu", head=self.position(), era=3)
        for seq, record in enumerate(self.records):
            if pb.Event.FromString(record).content.type == "run.completed":
                run.terminal_seq = seq
        return run


class Double(log_grpc.LogServiceServicer, host_grpc.HostServiceServicer):
    """One server. ``seen`` are the requests as they came; ``plan`` says how the next calls of a method shall fail."""

    def __init__(self, world: World, *, page_events=3, heartbeat_s=0.02, credentials=None):
        self.world = world
        self.credentials = credentials
        self.page_events = page_events
        self.heartbeat_s = heartbeat_s
        self.seen: list[tuple[str, object]] = []
        self.metadata: list[dict[str, str]] = []
        self._faults: dict[str, deque[Fault]] = defaultdict(deque)
        self._cuts: deque[int] = deque()
        self._port = 0
        self._server = None

    def plan(self, method, *faults):
        self._faults[method].extend(faults)

    def cut_streams_after(self, *pages):
        """Break the next streams off after so many pages each."""
        self._cuts.extend(pages)

    def requests(self, method):
        return [request for name, request in self.seen if name == method]

    @property
    def address(self):
        return f"127.0.0.1:{self._port}"

    async def start(self):
        self._server = grpc.aio.server()
        log_grpc.add_LogServiceServicer_to_server(self, self._server)
        host_grpc.add_HostServiceServicer_to_server(self, self._server)
        if self.credentials is None:
            self._port = self._server.add_insecure_port(self.address)
        else:
            self._port = self._server.add_secure_port(self.address, self.credentials)
        await self._server.start()
        return self

    async def stop(self):
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    async def _answer(self, method, request, context, work):
        self.seen.append((method, request))
        self.metadata.append(dict(context.invocation_metadata()))
        faults = self._faults[method]
        return await (faults.popleft()(context, work) if faults else work())

    async def Append(self, request, context):
        async def work():
            if request.request_id in self.world.receipts:
                answer = log_pb.AppendResponse.FromString(self.world.receipts[request.request_id])
                answer.repeated = True
                return answer
            first_seq = len(self.world.records)
            if request.HasField("expected_seq") and request.expected_seq != first_seq:
                found = {"run_id": RUN_ID, "expected_seq": str(request.expected_seq), "actual_seq": str(first_seq)}
                await context.abort_with_status(status_of(grpc.StatusCode.ABORTED, "SEQ_CONFLICT", found))
            self.world.append(event.content for event in request.events)
            answer = log_pb.AppendResponse(first_seq=first_seq, last=self.world.position())
            self.world.receipts[request.request_id] = answer.SerializeToString()
            return answer

        return await self._answer("Append", request, context, work)

    async def _simple(self, method, request, context, answer):
        async def work():
            return answer

        return await self._answer(method, request, context, work)

    async def CreateRun(self, request, context):
        return await self._simple("CreateRun", request, context, log_pb.CreateRunResponse(run=self.world.run()))

    async def ForkRun(self, request, context):
        run = self.world.run()
        run.fork.CopyFrom(log_pb.ForkOrigin(source_run_id=RUN_ID, from_seq=request.from_seq, mode=request.mode))
        return await self._simple("ForkRun", request, context, log_pb.ForkRunResponse(run=run))

    async def GetRun(self, request, context):
        answer = log_pb.GetRunResponse(run=self.world.run(), source=pb.SOURCE_LEADER)
        return await self._simple("GetRun", request, context, answer)

    async def ListRuns(self, request, context):
        first = int(request.page_token or 0)
        runs = [log_pb.Run(run_id=f"acme/eu-{n}") for n in range(first, min(first + request.page_size, 5))]
        following = str(first + len(runs)) if first + len(runs) < 5 else ""
        answer = log_pb.ListRunsResponse(runs=runs, next_page_token=following)
        return await self._simple("ListRuns", request, context, answer)

    async def GetState(self, request, context):
        state = json.dumps({"channels": {}, "status": "running", "variables": {"x": 1}}).encode()
        at_seq = request.at_seq if request.HasField("at_seq") else len(self.world.records)
        answer = log_pb.GetStateResponse(
            at_seq=at_seq, state=state, state_digest=sha256(state).digest(), source=pb.SOURCE_STALE
        )
        return await self._simple("GetState", request, context, answer)

    async def GetPrefix(self, request, context):
        last = self.world.position(request.until_seq - 1 if request.HasField("until_seq") else None)
        return await self._simple("GetPrefix", request, context, log_pb.GetPrefixResponse(last=last))

    async def DiffRuns(self, request, context):
        content = pb.EventContent(type="node.completed", payload=b'{"a":1}')
        change = log_pb.EventDiff(seq=2, op=log_pb.DIFF_OP_ADDED, b_event=content)
        answer = log_pb.DiffRunsResponse(a_run_id=request.a_run_id, b_run_id=request.b_run_id, event_diffs=[change])
        return await self._simple("DiffRuns", request, context, answer)

    async def CompareForks(self, request, context):
        answer = log_pb.CompareForksResponse(
            a_run_id=request.a_run_id,
            b_run_id=request.b_run_id,
            from_seq=3,
            prefix_equal=True,
            masked_equal=True,
            compared_events=4,
            matched_events=4,
        )
        return await self._simple("CompareForks", request, context, answer)

    async def GetCapabilities(self, request, context):
        answer = host_pb.GetCapabilitiesResponse(version="1", chain_start=START_DIGEST, limits={"a": 1})
        return await self._simple("GetCapabilities", request, context, answer)

    async def GetRegionStatus(self, request, context):
        answer = host_pb.GetRegionStatusResponse(region="eu", topology=host_pb.TOPOLOGY_POSTGRES, lag_ms=-1)
        return await self._simple("GetRegionStatus", request, context, answer)

    async def ReadEvents(self, request, context):
        await self._answer("ReadEvents", request, context, _nothing)
        until_seq = request.until_seq if request.HasField("until_seq") else len(self.world.records)
        left = self._cuts.popleft() if self._cuts else None
        for page in self._pages(request.from_seq, until_seq):
            if left == 0:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the stream was cut")
            left = None if left is None else left - 1
            yield page

    async def TailEvents(self, request, context):
        await self._answer("TailEvents", request, context, _nothing)
        next_seq = request.from_seq
        left = self._cuts.popleft() if self._cuts else None
        while True:
            grown = self.world.grown
            until_seq = len(self.world.records)
            for page in self._pages(next_seq, until_seq):
                if left == 0:
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "the stream was cut")
                left = None if left is None else left - 1
                yield log_pb.TailEventsResponse(page=page)
            next_seq = max(next_seq, until_seq)
            yield log_pb.TailEventsResponse(caught_up=True)
            if request.stop_at_terminal and self.world.run().HasField("terminal_seq"):
                return
            try:
                await asyncio.wait_for(grown.wait(), self.heartbeat_s)
            except TimeoutError:
                continue

    def _pages(self, from_seq, until_seq):
        until_seq = min(until_seq, len(self.world.records))
        for first in range(from_seq, until_seq, self.page_events):
            yield self.world.page(first, min(first + self.page_events, until_seq))


async def _nothing():
    return None
