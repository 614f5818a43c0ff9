"""Values to messages and back, and the table of calls. The only module, beside ``events`` for its records, that knows the wire types."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

from google.protobuf.message import Message

from isoline.v1 import common_pb2 as pb
from isoline.v1 import host_service_pb2 as host_pb
from isoline.v1 import log_service_pb2 as log_pb
from isoline_client import values
from isoline_client.errors import InvalidRequest, TooLarge, VerificationFailed
from isoline_client.events import NewEvent, content_of, encode_json, time_of
from isoline_client.limits import APPEND_BYTES_MAX, APPEND_EVENTS_MAX
from isoline_client.verify import Position, PrefixVerifier

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)


@dataclass(frozen=True, slots=True, eq=False)
class Method(Generic[Q, A]):
    """One call of a service. ``changes``: its request is known by an id, for no answer leaves its outcome open. ``sends``: it takes many
    messages."""

    path: str
    parse: Callable[[bytes], A]
    changes: bool = False
    streams: bool = False
    sends: bool = False


_LOG: Final = "isoline.v1.LogService"
_HOST: Final = "isoline.v1.HostService"
CREATE_RUN: Final[Method[log_pb.CreateRunRequest, log_pb.CreateRunResponse]] = Method(
    f"{_LOG}/CreateRun", log_pb.CreateRunResponse.FromString, changes=True
)
APPEND: Final[Method[log_pb.AppendRequest, log_pb.AppendResponse]] = Method(
    f"{_LOG}/Append", log_pb.AppendResponse.FromString, changes=True
)
APPEND_MANY: Final[Method[log_pb.AppendManyRequest, log_pb.AppendManyResponse]] = Method(
    f"{_LOG}/AppendMany", log_pb.AppendManyResponse.FromString
)
FORK_RUN: Final[Method[log_pb.ForkRunRequest, log_pb.ForkRunResponse]] = Method(
    f"{_LOG}/ForkRun", log_pb.ForkRunResponse.FromString, changes=True
)
IMPORT_RUN: Final[Method[log_pb.ImportRunRequest, log_pb.ImportRunResponse]] = Method(
    f"{_LOG}/ImportRun", log_pb.ImportRunResponse.FromString, changes=True, sends=True
)
GET_RUN: Final[Method[log_pb.GetRunRequest, log_pb.GetRunResponse]] = Method(
    f"{_LOG}/GetRun", log_pb.GetRunResponse.FromString
)
LIST_RUNS: Final[Method[log_pb.ListRunsRequest, log_pb.ListRunsResponse]] = Method(
    f"{_LOG}/ListRuns", log_pb.ListRunsResponse.FromString
)
READ_EVENTS: Final[Method[log_pb.ReadEventsRequest, log_pb.ReadEventsResponse]] = Method(
    f"{_LOG}/ReadEvents", log_pb.ReadEventsResponse.FromString, streams=True
)
TAIL_EVENTS: Final[Method[log_pb.TailEventsRequest, log_pb.TailEventsResponse]] = Method(
    f"{_LOG}/TailEvents", log_pb.TailEventsResponse.FromString, streams=True
)
GET_STATE: Final[Method[log_pb.GetStateRequest, log_pb.GetStateResponse]] = Method(
    f"{_LOG}/GetState", log_pb.GetStateResponse.FromString
)
GET_PREFIX: Final[Method[log_pb.GetPrefixRequest, log_pb.GetPrefixResponse]] = Method(
    f"{_LOG}/GetPrefix", log_pb.GetPrefixResponse.FromString
)
DIFF_RUNS: Final[Method[log_pb.DiffRunsRequest, log_pb.DiffRunsResponse]] = Method(
    f"{_LOG}/DiffRuns", log_pb.DiffRunsResponse.FromString
)
COMPARE_FORKS: Final[Method[log_pb.CompareForksRequest, log_pb.CompareForksResponse]] = Method(
    f"{_LOG}/CompareForks", log_pb.CompareForksResponse.FromString
)
GET_CAPABILITIES: Final[Method[host_pb.GetCapabilitiesRequest, host_pb.GetCapabilitiesResponse]] = Method(
    f"{_HOST}/GetCapabilities", host_pb.GetCapabilitiesResponse.FromString
)
GET_REGION_STATUS: Final[Method[host_pb.GetRegionStatusRequest, host_pb.GetRegionStatusResponse]] = Method(
    f"{_HOST}/GetRegionStatus", host_pb.GetRegionStatusResponse.FromString
)

FRESHNESS: Final[Mapping[str, pb.Freshness]] = {"latest": pb.FRESHNESS_LATEST, "local": pb.FRESHNESS_LOCAL}
FORK_MODES: Final[Mapping[str, pb.ForkMode]] = {"branch": pb.FORK_MODE_BRANCH, "replay": pb.FORK_MODE_REPLAY}
_MODE_NAMES: Final[Mapping[int, values.ForkMode]] = {pb.FORK_MODE_BRANCH: "branch", pb.FORK_MODE_REPLAY: "replay"}
_SOURCES: Final[Mapping[int, values.Source]] = {
    pb.SOURCE_LOCAL: "local",
    pb.SOURCE_LEADER: "leader",
    pb.SOURCE_STALE: "stale",
}
_TOPOLOGIES: Final[Mapping[int, Literal["embedded", "postgres", "cockroach"]]] = {
    host_pb.TOPOLOGY_EMBEDDED: "embedded",
    host_pb.TOPOLOGY_POSTGRES: "postgres",
    host_pb.TOPOLOGY_COCKROACH: "cockroach",
}
_OPS: Final[Mapping[int, Literal["added", "removed", "changed"]]] = {
    log_pb.DIFF_OP_ADDED: "added",
    log_pb.DIFF_OP_REMOVED: "removed",
    log_pb.DIFF_OP_CHANGED: "changed",
}


def append_request(run_id: str, events: Sequence[NewEvent], request_id: str) -> log_pb.AppendRequest:
    """Build an append; refuse one that the server would find too large."""
    _check_sizes(events)
    request = log_pb.AppendRequest(request_id=request_id, run_id=run_id)
    for event in events:
        # Only what is not the default anyway is set: setting a field costs as much as looking at three.
        new = request.events.add()
        content = new.content
        content.type = event.type
        content.payload = event.payload_bytes
        if event.schema_version != 1:  # the server takes none for 1
            content.schema_version = event.schema_version
        if event.node_id:
            content.node_id = event.node_id
        if event.engine_version:
            content.engine_version = event.engine_version
        if event.masked:
            content.masked.extend(event.masked)
        if event.causation_id:
            new.causation_id = event.causation_id
    return request


def _check_sizes(events: Sequence[NewEvent]) -> None:
    if not events:
        raise InvalidRequest(message="events: at least one is needed", field="events", rule="must not be empty")
    size = sum(len(event.payload_bytes) for event in events)
    for field, got, limit, unit in (
        ("events", len(events), APPEND_EVENTS_MAX, "events"),
        ("events", size, APPEND_BYTES_MAX, "payload bytes"),
    ):
        if got > limit:
            text = f"{field}: {got} {unit} are over the limit of {limit}"
            raise TooLarge(message=text, field=field, size=got, limit=limit, unit=unit)


def appended(message: log_pb.AppendResponse, count: int) -> values.Appended:
    last = position(message.last)
    if last.seq - message.first_seq + 1 < count:
        text = str(message.first_seq + count - 1)
        raise VerificationFailed(seq=last.seq, what="fewer events than were sent", expected=text, actual=str(last.seq))
    return values.Appended(message.first_seq, last, message.repeated)


def overlay(value: Mapping[str, Any] | bytes | str | None) -> bytes:
    return b"" if value is None else encode_json(value, "overlay")


def position_message(position: Position) -> pb.Position:
    return pb.Position(seq=position.seq, digest=position.digest)


def known_message(known: Position | None) -> pb.Position | None:
    return None if known is None else position_message(known)


def position(message: pb.Position) -> Position:
    return Position(message.seq, message.digest)


def page(message: log_pb.ReadEventsResponse, verifier: PrefixVerifier) -> values.Page:
    """Take a page off the wire and prove it."""
    records = message.records[:]
    before, last = position(message.before), position(message.last)
    return values.Page(
        first_seq=message.first_seq,
        records=records,
        digests=verifier.accept(message.first_seq, records, before, last),
        before=before,
        last=last,
        source=source(message.source),
        staleness_ms=staleness_ms(message),
    )


def staleness_ms(
    message: log_pb.GetRunResponse | log_pb.ReadEventsResponse | log_pb.GetStateResponse | log_pb.GetPrefixResponse,
) -> int | None:
    return message.staleness_ms if message.HasField("staleness_ms") else None


def source(number: int) -> values.Source:
    return _SOURCES.get(number, "")


def run_info(message: log_pb.Run, read: log_pb.GetRunResponse | None = None) -> values.RunInfo:
    return values.RunInfo(
        run_id=message.run_id,
        workflow_id=message.workflow_id,
        tags=tuple(message.tags),
        home_region=message.home_region,
        created_at=time_of(message.created_at_us),
        head=position(message.head),
        terminal_seq=message.terminal_seq if message.HasField("terminal_seq") else None,
        fork=_fork_origin(message.fork) if message.HasField("fork") else None,
        lineage=tuple(
            values.LineageRange(start_seq=each.start_seq, end_seq=each.end_seq, origin_run_id=each.origin_run_id)
            for each in message.lineage
        ),
        era=message.era,
        record_bytes=message.record_bytes,
        executed=message.executed,
        untranslatable_seq=message.untranslatable_seq if message.HasField("untranslatable_seq") else None,
        source="" if read is None else source(read.source),
        staleness_ms=None if read is None else staleness_ms(read),
    )


def _fork_origin(message: log_pb.ForkOrigin) -> values.ForkOrigin:
    return values.ForkOrigin(
        source_run_id=message.source_run_id,
        from_seq=message.from_seq,
        prefix_digest=message.prefix_digest,
        mode=_MODE_NAMES.get(message.mode, "branch"),
        overlay=message.run_options_overlay,
    )


def import_report(message: log_pb.ImportRunResponse) -> values.ImportReport:
    return values.ImportReport(
        run=run_info(message.run),
        repeated=message.repeated,
        untranslatable_events=message.untranslatable_events,
        untranslatable=tuple(
            values.UntranslatableEvent(seq=each.seq, reason=each.reason, message=each.message)
            for each in message.untranslatable
        ),
    )


def state(message: log_pb.GetStateResponse) -> values.State:
    return values.State(
        at_seq=message.at_seq,
        canonical=message.state,
        digest=message.state_digest,
        prefix_digest=message.prefix_digest,
        source=source(message.source),
        folded_events=message.folded_events,
        staleness_ms=staleness_ms(message),
    )


def diff(message: log_pb.DiffRunsResponse) -> values.Diff:
    return values.Diff(
        a_run_id=message.a_run_id,
        b_run_id=message.b_run_id,
        diverged_at_seq=message.diverged_at_seq if message.HasField("diverged_at_seq") else None,
        event_diffs=tuple(_event_diff(each) for each in message.event_diffs),
        state_diff=message.state_diff,
        truncated=message.truncated,
        shared_events=message.shared_events,
    )


def comparison(message: log_pb.CompareForksResponse) -> values.Comparison:
    return values.Comparison(
        a_run_id=message.a_run_id,
        b_run_id=message.b_run_id,
        from_seq=message.from_seq,
        prefix_equal=message.prefix_equal,
        raw_suffix_equal=message.raw_suffix_equal,
        masked_equal=message.masked_equal,
        compared_events=message.compared_events,
        matched_events=message.matched_events,
        first_divergence_seq=message.first_divergence_seq if message.HasField("first_divergence_seq") else None,
        truncated=message.truncated,
    )


def _event_diff(message: log_pb.EventDiff) -> values.EventDiff:
    return values.EventDiff(
        seq=message.seq,
        op=_OPS[message.op],
        a_event=content_of(message.a_event) if message.HasField("a_event") else None,
        b_event=content_of(message.b_event) if message.HasField("b_event") else None,
    )


def capabilities(message: host_pb.GetCapabilitiesResponse) -> values.Capabilities:
    return values.Capabilities(
        version=message.version,
        api=message.api,
        digest_algorithm=message.digest_algorithm,
        chain_start=message.chain_start,
        fork_modes=tuple(message.fork_modes),
        era=message.era,
        limits=dict(message.limits),
        regions=tuple(message.regions),
    )


def region_status(message: host_pb.GetRegionStatusResponse) -> values.RegionStatus:
    return values.RegionStatus(
        region=message.region,
        topology=_TOPOLOGIES.get(message.topology, ""),
        leader_reachable=message.leader_reachable,
        leader_region=message.leader_region,
        local_reachable=message.local_reachable,
        local_is_leader=message.local_is_leader,
        lag_bytes=None if message.lag_bytes < 0 else message.lag_bytes,
        lag_ms=None if message.lag_ms < 0 else message.lag_ms,
        draining=message.draining,
    )
