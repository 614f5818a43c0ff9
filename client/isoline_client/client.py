"""The client: the way in. It knows the servers and makes handles of runs; what can be done with a run is in ``run``."""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from isoline.v1 import host_service_pb2 as host_pb
from isoline.v1 import log_service_pb2 as log_pb
from isoline_client import limits, wire
from isoline_client.channel import Connection, Tls
from isoline_client.errors import VerificationFailed
from isoline_client.events import NewEvent
from isoline_client.execution import ExecutionClient
from isoline_client.ids import new_request_id
from isoline_client.importing import content_digest, messages
from isoline_client.run import Run, made_run
from isoline_client.values import Capabilities, Comparison, Diff, ImportReport, RegionStatus, RunInfo
from isoline_client.verify import CHAIN_START


class Client:
    """The service, through one or more servers: ``async with Client(["near:7400", "far:7400"]) as client``.

    ``addresses`` stand in order of preference, the own region's first: when a server fails, the next is asked. ``timeout_s`` is what one
    call may take, every try included. ``verify=False`` believes the servers' digests instead of recomputing them.
    """

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        api_key: str | None = None,
        timeout_s: float = limits.CALL_TIMEOUT_S,
        verify: bool = True,
        tls: Tls | None = None,
    ) -> None:
        listed = [addresses] if isinstance(addresses, str) else addresses
        self._connection = Connection(listed, api_key=api_key, tls=tls, timeout_s=timeout_s)
        self._verify = verify

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every channel. Calls under way fail with ``ClientClosed``."""
        await self._connection.close()

    async def create_run(
        self,
        workflow_id: str,
        tags: Sequence[str] = (),
        home_region: str = "",
        *,
        executed: bool = False,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Run:
        """Make an empty run, in the answering server's region unless another is named. ``executed``: executors of its region run it, as soon
        as there is an event in it."""
        request = log_pb.CreateRunRequest(
            request_id=request_id or new_request_id(),
            workflow_id=workflow_id,
            tags=tags,
            home_region=home_region,
            executed=executed,
        )
        answer = await self._connection.call(
            wire.CREATE_RUN, request, request_id=request.request_id, timeout_s=timeout_s
        )
        return made_run(self._connection, answer, verify=self._verify)

    async def start_run(
        self,
        workflow_id: str,
        inputs: Mapping[str, Any],
        *,
        tags: Sequence[str] = (),
        home_region: str = "",
        request_id: str | None = None,
        version: str = "",
        timeout_s: float | None = None,
    ) -> Run:
        """Make a run that executors run, and append its ``run.started``. After a failure repeat with the same ``request_id``: there will be
        one run that is started once."""
        # Ids are told apart by operation, so one serves both calls.
        request_id = request_id or new_request_id()
        payload = {"workflowId": workflow_id, "inputs": dict(inputs), "transport": "rest"}
        if version:
            payload["x-isoline-version"] = version
        started = NewEvent("run.started", payload)
        run = await self.create_run(
            workflow_id, tags, home_region, executed=True, request_id=request_id, timeout_s=timeout_s
        )
        await run.append(started, expected_seq=0, request_id=request_id, timeout_s=timeout_s)
        return run

    async def import_run(
        self,
        documents: Collection[bytes],
        *,
        workflow_id: str = "",
        tags: Sequence[str] = (),
        home_region: str = "",
        subject_id: str = "",
        lane: str = "",
        kind: str = "",
        check_only: bool = False,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> ImportReport:
        """Take over a run that a v1 host wrote, whole or not at all. ``documents`` are its events, one JSON object each, and are gone through
        more than once. The subject is whose run it was, for a log that does not say. ``check_only`` stores nothing."""
        header = log_pb.ImportHeader(
            request_id=request_id or new_request_id(),
            workflow_id=workflow_id,
            tags=tags,
            home_region=home_region,
            content_digest=content_digest(documents),
            subject=log_pb.LegacySubject(subject_id=subject_id, lane=lane, kind=kind),
            check_only=check_only,
        )
        sending = partial(messages, header, documents)
        answer = await self._connection.send(
            wire.IMPORT_RUN, sending, request_id=header.request_id, timeout_s=timeout_s
        )
        return wire.import_report(answer)

    def execution(self) -> ExecutionClient:
        """What executors need beside the log: leases, effects, invocations."""
        return ExecutionClient(self._connection)

    def run(self, run_id: str) -> Run:
        """The handle of a run that exists. No call is made."""
        return Run(self._connection, run_id, verify=self._verify)

    async def list_runs(self, workflow_id: str = "", *, page_size: int = 50) -> AsyncGenerator[RunInfo, None]:
        """The tenant's runs, newest first; of one workflow when it is named."""
        request = log_pb.ListRunsRequest(page_size=page_size, workflow_id=workflow_id)
        while True:
            answer = await self._connection.call(wire.LIST_RUNS, request)
            for each in answer.runs:
                yield wire.run_info(each)
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    async def diff(
        self, a: Run | str, b: Run | str, *, max_event_diffs: int = 0, timeout_s: float | None = None
    ) -> Diff:
        """Compare two runs by seq."""
        request = log_pb.DiffRunsRequest(a_run_id=_id_of(a), b_run_id=_id_of(b), max_event_diffs=max_event_diffs)
        return wire.diff(await self._connection.call(wire.DIFF_RUNS, request, timeout_s=timeout_s))

    async def compare(self, a: Run | str, b: Run | str, *, timeout_s: float | None = None) -> Comparison:
        """Compare two forks of one source, or a fork with its source: raw before their boundary, masked from it on."""
        request = log_pb.CompareForksRequest(a_run_id=_id_of(a), b_run_id=_id_of(b))
        return wire.comparison(await self._connection.call(wire.COMPARE_FORKS, request, timeout_s=timeout_s))

    async def capabilities(self) -> Capabilities:
        """Versions, limits and features of the answering server."""
        answer = await self._connection.call(wire.GET_CAPABILITIES, host_pb.GetCapabilitiesRequest())
        if self._verify and answer.chain_start != CHAIN_START:
            what, actual = "the server's chain begins elsewhere", answer.chain_start.hex()
            raise VerificationFailed(what=what, expected=CHAIN_START.hex(), actual=actual)
        return wire.capabilities(answer)

    async def region_status(self) -> RegionStatus:
        """The answering region: how far its replica is behind, and who leads."""
        return wire.region_status(await self._connection.call(wire.GET_REGION_STATUS, host_pb.GetRegionStatusRequest()))


def _id_of(run: Run | str) -> str:
    return run if isinstance(run, str) else run.run_id
