"""Wire to command, result to wire: shape checks against the limits, and nothing else. Behind this module data is trusted.

Every check names the field and the limit, and happens before anything is done.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from isoline.v1 import common_pb2, log_service_pb2
from isoline_server.api.credentials import Caller
from isoline_server.api.page_tokens import read_token, write_token
from isoline_server.api.status import on_the_wire
from isoline_server.domain import limits
from isoline_server.domain.append import AppendCommand, Outcome
from isoline_server.domain.canonical import canonical
from isoline_server.domain.chain import DIGEST_BYTES
from isoline_server.domain.errors import InvalidField, PageTokenInvalid, TenantMismatch, TooLarge, Untranslatable
from isoline_server.domain.event import EventContent
from isoline_server.domain.fork import ForkCommand
from isoline_server.domain.ids import (
    Region,
    check_causation_id,
    check_event_type,
    check_name,
    check_region,
    check_request_id,
)
from isoline_server.domain.imported import ImportCommand
from isoline_server.domain.legacy import legacy_subject
from isoline_server.domain.payload import check_masked, check_payload
from isoline_server.domain.run import ForkMode, Freshness, Mark, Run
from isoline_server.operations.compare_forks import ForksCompared
from isoline_server.operations.diff_runs import RunsDiff
from isoline_server.operations.import_run import ImportOutcome
from isoline_server.operations.ports import RunListing
from isoline_server.operations.read_events import ReadCommand
from isoline_server.operations.reading import Known, Page
from isoline_server.operations.tail import TailCommand

_INT32_MAX: Final = 2**31 - 1


# -- wire to command -----------------------------------------------------------------------------------------------------------------


def check_appends(count: int) -> None:
    """How many appends one call may bring."""
    if not count:
        raise InvalidField("appends", "must hold at least one append")
    if count > limits.APPEND_MANY_MAX:
        raise TooLarge("appends", count, limits.APPEND_MANY_MAX, "appends")


def append_command(request: log_service_pb2.AppendRequest, caller: Caller) -> AppendCommand:
    count = len(request.events)
    if not count:
        raise InvalidField("events", "must hold at least one event")
    if count > limits.APPEND_EVENTS_MAX:
        raise TooLarge("events", count, limits.APPEND_EVENTS_MAX, "events")
    run_id = caller.own_run(request.run_id)
    engine, engine_seq = _engine(request)
    command = AppendCommand(
        tenant=caller.tenant,
        run_id=run_id,
        request_id=check_request_id(request.request_id),
        contents=tuple([_content(event.content, index) for index, event in enumerate(request.events)]),
        causation_ids=tuple([_causation_id(event, index) for index, event in enumerate(request.events)]),
        expected_seq=check_seq(request.expected_seq, "expected_seq") if request.HasField("expected_seq") else None,
        engine=engine,
        engine_seq=engine_seq,
        lease_epoch=check_epoch(request.lease_epoch),
    )
    if command.payload_bytes > limits.APPEND_BYTES_MAX:
        raise TooLarge("events", command.payload_bytes, limits.APPEND_BYTES_MAX, "payload bytes")
    return command


def read_command(request: log_service_pb2.ReadEventsRequest, caller: Caller) -> ReadCommand:
    from_seq = check_seq(request.from_seq, "from_seq")
    until_seq = check_seq(request.until_seq, "until_seq") if request.HasField("until_seq") else None
    if until_seq is not None and until_seq < from_seq:
        raise InvalidField("until_seq", f"must not be below from_seq {from_seq}", got=str(until_seq))
    return ReadCommand(
        run_id=caller.own_run(request.run_id),
        from_seq=from_seq,
        until_seq=until_seq,
        freshness=freshness(request.freshness),
        known=known(request),
    )


def tail_command(request: log_service_pb2.TailEventsRequest, caller: Caller) -> TailCommand:
    return TailCommand(
        run_id=caller.own_run(request.run_id),
        from_seq=check_seq(request.from_seq, "from_seq"),
        known=known(request),
        stop_at_terminal=request.stop_at_terminal,
    )


def fork_command(
    request: log_service_pb2.ForkRunRequest, caller: Caller, own_region: Region, homes: Sequence[Region]
) -> ForkCommand:
    if request.mode not in (common_pb2.FORK_MODE_REPLAY, common_pb2.FORK_MODE_BRANCH):
        raise InvalidField("mode", "must be FORK_MODE_REPLAY or FORK_MODE_BRANCH")
    if request.run_options_overlay:
        check_payload(request.run_options_overlay, "run_options_overlay")
    if len(request.expected_prefix_digest) not in (0, DIGEST_BYTES):
        raise InvalidField(
            "expected_prefix_digest",
            f"must be {DIGEST_BYTES} bytes",
            got=f"{len(request.expected_prefix_digest)} bytes",
        )
    return ForkCommand(
        source_run_id=caller.own_run(request.source_run_id, "source_run_id"),
        from_seq=check_seq(request.from_seq, "from_seq") if request.HasField("from_seq") else None,
        mode=ForkMode(request.mode),
        overlay=request.run_options_overlay,
        home=home(request.home_region, own_region, homes),
        expected_prefix_digest=request.expected_prefix_digest,
        executed=request.executed if request.HasField("executed") else None,
    )


async def import_header(
    requests: AsyncIterator[log_service_pb2.ImportRunRequest],
) -> log_service_pb2.ImportHeader:
    """The first message of an import."""
    async for request in requests:
        if request.WhichOneof("part") == "header":
            return request.header
        break
    raise InvalidField("header", "must be the first message")


async def import_batches(
    requests: AsyncIterator[log_service_pb2.ImportRunRequest],
) -> AsyncIterator[Sequence[bytes]]:
    """The documents of the messages behind the header."""
    async for request in requests:
        if request.WhichOneof("part") != "events":
            raise InvalidField("events", "must be what every message behind the first has")
        documents = request.events.documents
        if len(documents) > limits.APPEND_EVENTS_MAX:
            raise TooLarge("events", len(documents), limits.APPEND_EVENTS_MAX, "events")
        size = sum(len(document) for document in documents)
        if size > limits.APPEND_BYTES_MAX:
            raise TooLarge("events", size, limits.APPEND_BYTES_MAX, "bytes")
        yield documents


def import_command(
    header: log_service_pb2.ImportHeader, caller: Caller, own_region: Region, homes: Sequence[Region]
) -> ImportCommand:
    if len(header.content_digest) != DIGEST_BYTES:
        raise InvalidField("header.content_digest", f"must be {DIGEST_BYTES} bytes")
    subject = header.subject
    return ImportCommand(
        tenant=caller.tenant,
        request_id=check_request_id(header.request_id),
        workflow_id=check_name(header.workflow_id, "workflow_id") if header.workflow_id else "",
        tags=tags(header.tags),
        home=home(header.home_region, own_region, homes),
        asked_home=header.home_region,
        content_digest=header.content_digest,
        subject=legacy_subject(subject.subject_id, subject.lane, subject.kind),
        check_only=header.check_only,
    )


def tags(values: Sequence[str]) -> tuple[str, ...]:
    if len(values) > limits.TAGS_MAX:
        raise TooLarge("tags", len(values), limits.TAGS_MAX, "tags")
    for index, tag in enumerate(values):
        if len(tag) > limits.TAG_CHARS_MAX:
            raise TooLarge(f"tags[{index}]", len(tag), limits.TAG_CHARS_MAX, "characters")
    return tuple(values)


def home(text: str, own_region: Region, homes: Sequence[Region], field: str = "home_region") -> Region:
    """A home region: as asked, else the answering server's."""
    if not text:
        return own_region
    region = check_region(text, field)
    if region not in homes:
        raise InvalidField(field, f"must be one of {', '.join(homes)}", got=text)
    return region


def freshness(value: int) -> Freshness:
    if value == common_pb2.FRESHNESS_LOCAL:
        return Freshness.LOCAL
    if value in (common_pb2.FRESHNESS_UNSPECIFIED, common_pb2.FRESHNESS_LATEST):
        return Freshness.LATEST
    raise InvalidField("freshness", "must be FRESHNESS_LATEST or FRESHNESS_LOCAL", got=str(value))


def check_seq(value: int, field: str) -> int:
    if not 0 <= value <= limits.SEQ_MAX:
        raise InvalidField(field, f"must be from 0 to {limits.SEQ_MAX}", got=str(value))
    return value


def check_epoch(value: int) -> int:
    """The epoch of a lease, or 0 for none."""
    if not 0 <= value <= limits.SEQ_MAX:
        raise InvalidField("lease_epoch", f"must be from 0 to {limits.SEQ_MAX}", got=str(value))
    return value


def page_size(value: int) -> int:
    """AIP-158: 0 is the default, more than the maximum is the maximum, less than 0 is an error."""
    if value < 0:
        raise InvalidField("page_size", "must not be negative", got=str(value))
    return min(value or limits.LIST_PAGE_SIZE_DEFAULT, limits.LIST_PAGE_SIZE_MAX)


def diff_limit(value: int) -> int:
    if value < 0:
        raise InvalidField("max_event_diffs", "must not be negative", got=str(value))
    return min(value or limits.DIFF_EVENTS_MAX, limits.DIFF_EVENTS_MAX)


def _content(content: common_pb2.EventContent, index: int) -> EventContent:
    """One event. Its place is put into a refusal only when there is one: this is the hot path."""
    try:
        payload = content.payload
        parsed = check_payload(payload, "payload")
        if content.masked:
            check_masked(content.masked, parsed, "masked")
        node_id, masked = content.node_id, content.masked
        return EventContent(
            check_event_type(content.type, "type"),
            payload,
            check_name(node_id, "node_id") if node_id else "",
            _version(content.schema_version, "schema_version") or 1,
            _version(content.engine_version, "engine_version"),
            tuple(masked) if masked else (),
        )
    except (InvalidField, TooLarge) as error:
        error.field = f"events[{index}].{error.field}"
        raise


def _version(value: int, field: str) -> int:
    if value < 0:
        raise InvalidField(field, "must not be negative", got=str(value))
    return value


def _causation_id(event: log_service_pb2.NewEvent, index: int) -> str:
    text = event.causation_id
    return check_causation_id(text, f"events[{index}].causation_id") if text else ""


def _engine(request: log_service_pb2.AppendRequest) -> tuple[str, int]:
    if not request.engine:
        if request.engine_seq:
            raise InvalidField("engine_seq", "needs an engine", got=str(request.engine_seq))
        return "", 0
    if not 1 <= request.engine_seq <= limits.SEQ_MAX:
        raise InvalidField("engine_seq", f"must be from 1 to {limits.SEQ_MAX}", got=str(request.engine_seq))
    return check_name(request.engine, "engine"), request.engine_seq


def known(request: Any) -> Known | None:
    """The position seen elsewhere that a request names in its field ``known``, if any."""
    if not request.HasField("known"):
        return None
    position = request.known
    if not -1 <= position.seq <= limits.SEQ_MAX:
        raise InvalidField("known.seq", f"must be from -1 to {limits.SEQ_MAX}", got=str(position.seq))
    if len(position.digest) != DIGEST_BYTES:
        raise InvalidField("known.digest", f"must be {DIGEST_BYTES} bytes", got=f"{len(position.digest)} bytes")
    return Known(seq=position.seq, digest=position.digest)


# -- result to wire ------------------------------------------------------------------------------------------------------------------


def append_response(outcome: Outcome) -> log_service_pb2.AppendResponse:
    return log_service_pb2.AppendResponse(
        first_seq=outcome.first_seq,
        last=common_pb2.Position(seq=outcome.last_seq, digest=outcome.digest),
        repeated=outcome.repeated,
    )


def position(mark: Mark) -> common_pb2.Position:
    return common_pb2.Position(seq=mark.seq, digest=mark.digest)


def page(found: Page) -> log_service_pb2.ReadEventsResponse:
    return log_service_pb2.ReadEventsResponse(
        first_seq=found.first_seq,
        records=found.records,
        before=position(found.before),
        last=position(found.last),
        source=int(found.source),  # type: ignore[arg-type]
        staleness_ms=found.staleness_ms,
    )


def run(found: Run) -> log_service_pb2.Run:
    fork = found.fork
    return log_service_pb2.Run(
        run_id=found.run_id,
        workflow_id=found.workflow_id,
        tags=found.tags,
        home_region=found.home,
        created_at_us=found.created_at_us,
        head=common_pb2.Position(seq=found.head.seq, digest=found.head.digest),
        terminal_seq=found.head.terminal_seq,
        fork=None
        if fork is None
        else log_service_pb2.ForkOrigin(
            source_run_id=fork.source_run_id,
            from_seq=fork.from_seq,
            prefix_digest=fork.prefix_digest,
            mode=int(fork.mode),  # type: ignore[arg-type]
            run_options_overlay=fork.overlay,
        ),
        lineage=[
            log_service_pb2.LineageRange(
                start_seq=part.start_seq, end_seq=part.end_seq, origin_run_id=part.origin_run_id
            )
            for part in found.lineage
        ],
        era=found.era,
        record_bytes=found.head.record_bytes,
        executed=found.executed,
        untranslatable_seq=found.untranslatable_seq,
    )


def import_response(outcome: ImportOutcome, command: ImportCommand) -> log_service_pb2.ImportRunResponse:
    answer = log_service_pb2.ImportRunResponse(
        run=run(outcome.run),
        repeated=outcome.repeated,
        untranslatable_events=outcome.untranslatable_events,
        untranslatable=[_untranslatable(error) for error in outcome.untranslatable],
    )
    if command.check_only:
        answer.run.run_id = ""
    return answer


def _untranslatable(error: Untranslatable) -> log_service_pb2.UntranslatableEvent:
    told = on_the_wire(error)
    return log_service_pb2.UntranslatableEvent(seq=int(told.metadata["seq"]), reason=told.reason, message=told.message)


def diff_response(found: RunsDiff) -> log_service_pb2.DiffRunsResponse:
    return log_service_pb2.DiffRunsResponse(
        a_run_id=found.a.run_id,
        b_run_id=found.b.run_id,
        diverged_at_seq=found.log.diverged_at_seq,
        event_diffs=[
            log_service_pb2.EventDiff(
                seq=event.seq, op=_DIFF_OPS[event.op], a_event=_content_out(event.a), b_event=_content_out(event.b)
            )
            for event in found.log.events
        ],
        state_diff=canonical(found.state),
        truncated=found.log.truncated,
        shared_events=found.shared_events,
    )


def compare_response(compared: ForksCompared) -> log_service_pb2.CompareForksResponse:
    found = compared.found
    return log_service_pb2.CompareForksResponse(
        a_run_id=compared.a.run_id,
        b_run_id=compared.b.run_id,
        from_seq=found.from_seq,
        prefix_equal=found.prefix_equal,
        raw_suffix_equal=found.raw_suffix_equal,
        masked_equal=found.masked_equal,
        compared_events=found.compared_events,
        matched_events=found.matched_events,
        first_divergence_seq=found.first_divergence_seq,
        truncated=found.truncated,
    )


_DIFF_OPS: Final = {
    "added": log_service_pb2.DIFF_OP_ADDED,
    "removed": log_service_pb2.DIFF_OP_REMOVED,
    "changed": log_service_pb2.DIFF_OP_CHANGED,
}


def _content_out(content: EventContent | None) -> common_pb2.EventContent | None:
    if content is None:
        return None
    return common_pb2.EventContent(
        type=content.type,
        node_id=content.node_id,
        schema_version=content.schema_version,
        engine_version=content.engine_version,
        payload=content.payload,
        masked=content.masked,
    )


# -- page tokens ---------------------------------------------------------------------------------------------------------------------


def page_token(caller: Caller, workflow_id: str, after: RunListing | None) -> str:
    """The token of the next page. Empty when there is none."""
    return "" if after is None else write_token(caller, workflow_id, [after.created_at_us, after.run_id])


def listing(token: str, caller: Caller, workflow_id: str) -> RunListing | None:
    """Where the token says the list goes on. Raises ``PageTokenInvalid``."""
    if not token:
        return None
    try:
        created_at_us, run_id = read_token(token, caller, workflow_id)
        if type(created_at_us) is not int or not 0 <= created_at_us <= limits.SEQ_MAX or type(run_id) is not str:
            raise PageTokenInvalid
        return RunListing(created_at_us=created_at_us, run_id=caller.own_run(run_id, "page_token"))
    except (ValueError, InvalidField, TenantMismatch):
        raise PageTokenInvalid from None
