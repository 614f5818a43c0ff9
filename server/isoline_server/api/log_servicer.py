"""``isoline.v1.LogService``: translate in, operate, translate out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from grpc import aio

from isoline.v1 import log_service_pb2, log_service_pb2_grpc
from isoline_server.api import translate
from isoline_server.api.calls import caller_with, tell, time_left_s
from isoline_server.api.credentials import Caller, Scope
from isoline_server.domain import limits, state
from isoline_server.domain.canonical import digest_of
from isoline_server.domain.ids import Region, check_name, check_request_id
from isoline_server.operations.append import Lanes, append_events
from isoline_server.operations.compare_forks import compare_forks
from isoline_server.operations.diff_runs import diff_runs
from isoline_server.operations.get_state import StateReader
from isoline_server.operations.import_run import RunImporter
from isoline_server.operations.list_runs import list_runs
from isoline_server.operations.make_run import RunMaker
from isoline_server.operations.ports import LogReader
from isoline_server.operations.read_events import prefix_mark, read_events
from isoline_server.operations.reading import Reading
from isoline_server.operations.tail import TailHub, tail_events

_Context = aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogParts:
    """What the service is put together from."""

    region: Region
    homes: tuple[Region, ...]
    lanes: Lanes
    reading: Reading
    leader: LogReader
    maker: RunMaker
    importer: RunImporter
    states: StateReader
    tails: TailHub


class LogServicer(log_service_pb2_grpc.LogServiceServicer):
    """The log over gRPC."""

    def __init__(self, parts: LogParts) -> None:
        self._parts = parts

    async def CreateRun(
        self, request: log_service_pb2.CreateRunRequest, context: _Context
    ) -> log_service_pb2.CreateRunResponse:
        caller = caller_with(Scope.CREATE)
        run, repeated = await self._parts.maker.create(
            tenant=caller.tenant,
            request_id=check_request_id(request.request_id),
            workflow_id=check_name(request.workflow_id, "workflow_id"),
            tags=translate.tags(request.tags),
            home=translate.home(request.home_region, self._parts.region, self._parts.homes),
            asked_home=request.home_region,
            executed=request.executed,
            timeout_s=time_left_s(context),
        )
        return log_service_pb2.CreateRunResponse(run=translate.run(run), repeated=repeated)

    async def GetRun(self, request: log_service_pb2.GetRunRequest, context: _Context) -> log_service_pb2.GetRunResponse:
        run_id = caller_with(Scope.READ).own_run(request.run_id)
        run, seen = await self._parts.reading.run(run_id, translate.freshness(request.freshness))
        known = translate.known(request)
        if known is not None:
            await self._parts.reading.check_known(run, known)
        return log_service_pb2.GetRunResponse(
            run=translate.run(run),
            source=int(seen.source),  # type: ignore[arg-type]
            staleness_ms=seen.staleness_ms,
        )

    async def ListRuns(
        self, request: log_service_pb2.ListRunsRequest, context: _Context
    ) -> log_service_pb2.ListRunsResponse:
        caller = caller_with(Scope.READ)
        workflow_id = check_name(request.workflow_id, "workflow_id") if request.workflow_id else ""
        after = translate.listing(request.page_token, caller, workflow_id)
        runs, following = await list_runs(
            self._parts.leader, caller.tenant, workflow_id, after, translate.page_size(request.page_size)
        )
        return log_service_pb2.ListRunsResponse(
            runs=[translate.run(run) for run in runs],
            next_page_token=translate.page_token(caller, workflow_id, following),
        )

    async def Append(self, request: log_service_pb2.AppendRequest, context: _Context) -> log_service_pb2.AppendResponse:
        command = translate.append_command(request, caller_with(Scope.APPEND))
        return translate.append_response(await append_events(self._parts.lanes, command, time_left_s(context)))

    async def AppendMany(
        self, request: log_service_pb2.AppendManyRequest, context: _Context
    ) -> log_service_pb2.AppendManyResponse:
        caller, timeout_s = caller_with(Scope.APPEND), time_left_s(context)
        translate.check_appends(len(request.appends))
        # Begun in their order, they wait in their lanes in that order.
        answers = await asyncio.gather(*(self._append_one(append, caller, timeout_s) for append in request.appends))
        return log_service_pb2.AppendManyResponse(answers=answers)

    async def AppendStream(
        self, request_iterator: AsyncIterator[log_service_pb2.AppendStreamRequest], context: _Context
    ) -> AsyncIterator[log_service_pb2.AppendStreamResponse]:
        caller = caller_with(Scope.APPEND)
        under_way: asyncio.Queue[asyncio.Task[log_service_pb2.AppendStreamResponse] | None] = asyncio.Queue(
            limits.APPEND_STREAM_WINDOW
        )

        async def take() -> None:
            async for request in request_iterator:
                await under_way.put(asyncio.create_task(self._append_one(request.append, caller, None)))
            await under_way.put(None)

        taking = asyncio.create_task(take())
        try:
            while (task := await _next_or_failure(under_way, taking)) is not None:
                yield await task
        finally:
            taking.cancel()

    async def _append_one(
        self, request: log_service_pb2.AppendRequest, caller: Caller, timeout_s: float | None
    ) -> log_service_pb2.AppendStreamResponse:
        answer = log_service_pb2.AppendStreamResponse(request_id=request.request_id)
        try:
            outcome = await append_events(self._parts.lanes, translate.append_command(request, caller), timeout_s)
        except Exception as error:  # noqa: BLE001 - told to the caller, as the unary call would
            told = tell(error, "one of many appends")
            answer.error.code = told.code.value[0]
            answer.error.message = told.message
            answer.error.reason = told.reason
            answer.error.metadata.update(told.metadata)
        else:
            answer.appended.CopyFrom(translate.append_response(outcome))
        return answer

    async def ReadEvents(
        self, request: log_service_pb2.ReadEventsRequest, context: _Context
    ) -> AsyncIterator[log_service_pb2.ReadEventsResponse]:
        command = translate.read_command(request, caller_with(Scope.READ))
        async with aclosing(read_events(self._parts.reading, command)) as pages:
            async for page in pages:
                yield translate.page(page)

    async def TailEvents(
        self, request: log_service_pb2.TailEventsRequest, context: _Context
    ) -> AsyncIterator[log_service_pb2.TailEventsResponse]:
        command = translate.tail_command(request, caller_with(Scope.READ))
        async with aclosing(tail_events(self._parts.reading, self._parts.tails, command)) as steps:
            async for step in steps:
                page = None if step.page is None else translate.page(step.page)
                yield log_service_pb2.TailEventsResponse(page=page, caught_up=step.caught_up)

    async def GetState(
        self, request: log_service_pb2.GetStateRequest, context: _Context
    ) -> log_service_pb2.GetStateResponse:
        run_id = caller_with(Scope.READ).own_run(request.run_id)
        at_seq = translate.check_seq(request.at_seq, "at_seq") if request.HasField("at_seq") else None
        folded = await self._parts.states.state_at(
            run_id, at_seq, translate.freshness(request.freshness), translate.known(request)
        )
        data = state.observable_bytes(folded.state)
        return log_service_pb2.GetStateResponse(
            at_seq=folded.at_seq,
            state=data,
            state_digest=digest_of(data),
            prefix_digest=folded.prefix_digest,
            source=int(folded.seen.source),  # type: ignore[arg-type]
            folded_events=folded.folded_events,
            staleness_ms=folded.seen.staleness_ms,
        )

    async def GetPrefix(
        self, request: log_service_pb2.GetPrefixRequest, context: _Context
    ) -> log_service_pb2.GetPrefixResponse:
        run_id = caller_with(Scope.READ).own_run(request.run_id)
        until_seq = translate.check_seq(request.until_seq, "until_seq") if request.HasField("until_seq") else None
        mark, seen = await prefix_mark(
            self._parts.reading,
            run_id,
            until_seq,
            translate.freshness(request.freshness),
            recompute=request.recompute,
            known=translate.known(request),
        )
        return log_service_pb2.GetPrefixResponse(
            last=translate.position(mark),
            source=int(seen.source),  # type: ignore[arg-type]
            staleness_ms=seen.staleness_ms,
        )

    async def ForkRun(
        self, request: log_service_pb2.ForkRunRequest, context: _Context
    ) -> log_service_pb2.ForkRunResponse:
        caller = caller_with(Scope.CREATE)
        caller.need(Scope.READ)
        run, repeated = await self._parts.maker.fork(
            tenant=caller.tenant,
            request_id=check_request_id(request.request_id),
            command=translate.fork_command(request, caller, self._parts.region, self._parts.homes),
            asked_home=request.home_region,
            timeout_s=time_left_s(context),
        )
        return log_service_pb2.ForkRunResponse(run=translate.run(run), repeated=repeated)

    async def ImportRun(
        self, request_iterator: AsyncIterator[log_service_pb2.ImportRunRequest], context: _Context
    ) -> log_service_pb2.ImportRunResponse:
        caller = caller_with(Scope.CREATE)
        caller.need(Scope.APPEND)
        header = await translate.import_header(request_iterator)
        command = translate.import_command(header, caller, self._parts.region, self._parts.homes)
        batches = translate.import_batches(request_iterator)
        return translate.import_response(
            await self._parts.importer.import_run(command, batches, time_left_s(context)), command
        )

    async def DiffRuns(
        self, request: log_service_pb2.DiffRunsRequest, context: _Context
    ) -> log_service_pb2.DiffRunsResponse:
        caller = caller_with(Scope.READ)
        found = await diff_runs(
            self._parts.reading,
            self._parts.states,
            caller.own_run(request.a_run_id, "a_run_id"),
            caller.own_run(request.b_run_id, "b_run_id"),
            translate.diff_limit(request.max_event_diffs),
        )
        return translate.diff_response(found)

    async def CompareForks(
        self, request: log_service_pb2.CompareForksRequest, context: _Context
    ) -> log_service_pb2.CompareForksResponse:
        caller = caller_with(Scope.READ)
        compared = await compare_forks(
            self._parts.reading,
            self._parts.states.content,
            caller.own_run(request.a_run_id, "a_run_id"),
            caller.own_run(request.b_run_id, "b_run_id"),
        )
        return translate.compare_response(compared)


async def _next_or_failure(
    under_way: "asyncio.Queue[asyncio.Task[log_service_pb2.AppendStreamResponse] | None]", taking: "asyncio.Task[None]"
) -> "asyncio.Task[log_service_pb2.AppendStreamResponse] | None":
    """The next append under way, or the failure of the request stream once everything taken before it is answered."""
    if not under_way.empty():
        return under_way.get_nowait()
    getting = asyncio.create_task(under_way.get())
    await asyncio.wait({getting, taking}, return_when=asyncio.FIRST_COMPLETED)
    if getting.done():
        return getting.result()
    getting.cancel()
    if not under_way.empty():
        return under_way.get_nowait()
    taking.result()
    return await under_way.get()
