from isoline.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DiffOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIFF_OP_UNSPECIFIED: _ClassVar[DiffOp]
    DIFF_OP_ADDED: _ClassVar[DiffOp]
    DIFF_OP_REMOVED: _ClassVar[DiffOp]
    DIFF_OP_CHANGED: _ClassVar[DiffOp]
DIFF_OP_UNSPECIFIED: DiffOp
DIFF_OP_ADDED: DiffOp
DIFF_OP_REMOVED: DiffOp
DIFF_OP_CHANGED: DiffOp

class LineageRange(_message.Message):
    __slots__ = ("start_seq", "end_seq", "origin_run_id")
    START_SEQ_FIELD_NUMBER: _ClassVar[int]
    END_SEQ_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    start_seq: int
    end_seq: int
    origin_run_id: str
    def __init__(self, start_seq: _Optional[int] = ..., end_seq: _Optional[int] = ..., origin_run_id: _Optional[str] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("run_id", "workflow_id", "tags", "home_region", "created_at_us", "head", "terminal_seq", "fork", "lineage", "era", "record_bytes", "executed", "untranslatable_seq")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    HOME_REGION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_US_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_SEQ_FIELD_NUMBER: _ClassVar[int]
    FORK_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    RECORD_BYTES_FIELD_NUMBER: _ClassVar[int]
    EXECUTED_FIELD_NUMBER: _ClassVar[int]
    UNTRANSLATABLE_SEQ_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    workflow_id: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    home_region: str
    created_at_us: int
    head: _common_pb2.Position
    terminal_seq: int
    fork: ForkOrigin
    lineage: _containers.RepeatedCompositeFieldContainer[LineageRange]
    era: int
    record_bytes: int
    executed: bool
    untranslatable_seq: int
    def __init__(self, run_id: _Optional[str] = ..., workflow_id: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., home_region: _Optional[str] = ..., created_at_us: _Optional[int] = ..., head: _Optional[_Union[_common_pb2.Position, _Mapping]] = ..., terminal_seq: _Optional[int] = ..., fork: _Optional[_Union[ForkOrigin, _Mapping]] = ..., lineage: _Optional[_Iterable[_Union[LineageRange, _Mapping]]] = ..., era: _Optional[int] = ..., record_bytes: _Optional[int] = ..., executed: _Optional[bool] = ..., untranslatable_seq: _Optional[int] = ...) -> None: ...

class ForkOrigin(_message.Message):
    __slots__ = ("source_run_id", "from_seq", "prefix_digest", "mode", "run_options_overlay")
    SOURCE_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQ_FIELD_NUMBER: _ClassVar[int]
    PREFIX_DIGEST_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    RUN_OPTIONS_OVERLAY_FIELD_NUMBER: _ClassVar[int]
    source_run_id: str
    from_seq: int
    prefix_digest: bytes
    mode: _common_pb2.ForkMode
    run_options_overlay: bytes
    def __init__(self, source_run_id: _Optional[str] = ..., from_seq: _Optional[int] = ..., prefix_digest: _Optional[bytes] = ..., mode: _Optional[_Union[_common_pb2.ForkMode, str]] = ..., run_options_overlay: _Optional[bytes] = ...) -> None: ...

class CreateRunRequest(_message.Message):
    __slots__ = ("request_id", "workflow_id", "tags", "home_region", "executed")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    HOME_REGION_FIELD_NUMBER: _ClassVar[int]
    EXECUTED_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    workflow_id: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    home_region: str
    executed: bool
    def __init__(self, request_id: _Optional[str] = ..., workflow_id: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., home_region: _Optional[str] = ..., executed: _Optional[bool] = ...) -> None: ...

class CreateRunResponse(_message.Message):
    __slots__ = ("run", "repeated")
    RUN_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    run: Run
    repeated: bool
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., repeated: _Optional[bool] = ...) -> None: ...

class GetRunRequest(_message.Message):
    __slots__ = ("run_id", "freshness", "known")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FRESHNESS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    freshness: _common_pb2.Freshness
    known: _common_pb2.Position
    def __init__(self, run_id: _Optional[str] = ..., freshness: _Optional[_Union[_common_pb2.Freshness, str]] = ..., known: _Optional[_Union[_common_pb2.Position, _Mapping]] = ...) -> None: ...

class GetRunResponse(_message.Message):
    __slots__ = ("run", "source", "staleness_ms")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STALENESS_MS_FIELD_NUMBER: _ClassVar[int]
    run: Run
    source: _common_pb2.Source
    staleness_ms: int
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., source: _Optional[_Union[_common_pb2.Source, str]] = ..., staleness_ms: _Optional[int] = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "workflow_id")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    workflow_id: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., workflow_id: _Optional[str] = ...) -> None: ...

class ListRunsResponse(_message.Message):
    __slots__ = ("runs", "next_page_token")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    next_page_token: str
    def __init__(self, runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class NewEvent(_message.Message):
    __slots__ = ("content", "causation_id")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    CAUSATION_ID_FIELD_NUMBER: _ClassVar[int]
    content: _common_pb2.EventContent
    causation_id: str
    def __init__(self, content: _Optional[_Union[_common_pb2.EventContent, _Mapping]] = ..., causation_id: _Optional[str] = ...) -> None: ...

class AppendRequest(_message.Message):
    __slots__ = ("request_id", "run_id", "expected_seq", "events", "engine", "engine_seq", "lease_epoch")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_SEQ_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_SEQ_FIELD_NUMBER: _ClassVar[int]
    LEASE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    run_id: str
    expected_seq: int
    events: _containers.RepeatedCompositeFieldContainer[NewEvent]
    engine: str
    engine_seq: int
    lease_epoch: int
    def __init__(self, request_id: _Optional[str] = ..., run_id: _Optional[str] = ..., expected_seq: _Optional[int] = ..., events: _Optional[_Iterable[_Union[NewEvent, _Mapping]]] = ..., engine: _Optional[str] = ..., engine_seq: _Optional[int] = ..., lease_epoch: _Optional[int] = ...) -> None: ...

class AppendResponse(_message.Message):
    __slots__ = ("first_seq", "last", "repeated")
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    first_seq: int
    last: _common_pb2.Position
    repeated: bool
    def __init__(self, first_seq: _Optional[int] = ..., last: _Optional[_Union[_common_pb2.Position, _Mapping]] = ..., repeated: _Optional[bool] = ...) -> None: ...

class AppendManyRequest(_message.Message):
    __slots__ = ("appends",)
    APPENDS_FIELD_NUMBER: _ClassVar[int]
    appends: _containers.RepeatedCompositeFieldContainer[AppendRequest]
    def __init__(self, appends: _Optional[_Iterable[_Union[AppendRequest, _Mapping]]] = ...) -> None: ...

class AppendManyResponse(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[AppendStreamResponse]
    def __init__(self, answers: _Optional[_Iterable[_Union[AppendStreamResponse, _Mapping]]] = ...) -> None: ...

class AppendStreamRequest(_message.Message):
    __slots__ = ("append",)
    APPEND_FIELD_NUMBER: _ClassVar[int]
    append: AppendRequest
    def __init__(self, append: _Optional[_Union[AppendRequest, _Mapping]] = ...) -> None: ...

class AppendStreamResponse(_message.Message):
    __slots__ = ("request_id", "appended", "error")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    APPENDED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    appended: AppendResponse
    error: AppendError
    def __init__(self, request_id: _Optional[str] = ..., appended: _Optional[_Union[AppendResponse, _Mapping]] = ..., error: _Optional[_Union[AppendError, _Mapping]] = ...) -> None: ...

class AppendError(_message.Message):
    __slots__ = ("code", "message", "reason", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    reason: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., reason: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ReadEventsRequest(_message.Message):
    __slots__ = ("run_id", "from_seq", "until_seq", "freshness", "known")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQ_FIELD_NUMBER: _ClassVar[int]
    UNTIL_SEQ_FIELD_NUMBER: _ClassVar[int]
    FRESHNESS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    from_seq: int
    until_seq: int
    freshness: _common_pb2.Freshness
    known: _common_pb2.Position
    def __init__(self, run_id: _Optional[str] = ..., from_seq: _Optional[int] = ..., until_seq: _Optional[int] = ..., freshness: _Optional[_Union[_common_pb2.Freshness, str]] = ..., known: _Optional[_Union[_common_pb2.Position, _Mapping]] = ...) -> None: ...

class ReadEventsResponse(_message.Message):
    __slots__ = ("first_seq", "records", "before", "last", "source", "staleness_ms")
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STALENESS_MS_FIELD_NUMBER: _ClassVar[int]
    first_seq: int
    records: _containers.RepeatedScalarFieldContainer[bytes]
    before: _common_pb2.Position
    last: _common_pb2.Position
    source: _common_pb2.Source
    staleness_ms: int
    def __init__(self, first_seq: _Optional[int] = ..., records: _Optional[_Iterable[bytes]] = ..., before: _Optional[_Union[_common_pb2.Position, _Mapping]] = ..., last: _Optional[_Union[_common_pb2.Position, _Mapping]] = ..., source: _Optional[_Union[_common_pb2.Source, str]] = ..., staleness_ms: _Optional[int] = ...) -> None: ...

class TailEventsRequest(_message.Message):
    __slots__ = ("run_id", "from_seq", "known", "stop_at_terminal")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQ_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    STOP_AT_TERMINAL_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    from_seq: int
    known: _common_pb2.Position
    stop_at_terminal: bool
    def __init__(self, run_id: _Optional[str] = ..., from_seq: _Optional[int] = ..., known: _Optional[_Union[_common_pb2.Position, _Mapping]] = ..., stop_at_terminal: _Optional[bool] = ...) -> None: ...

class TailEventsResponse(_message.Message):
    __slots__ = ("page", "caught_up")
    PAGE_FIELD_NUMBER: _ClassVar[int]
    CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    page: ReadEventsResponse
    caught_up: bool
    def __init__(self, page: _Optional[_Union[ReadEventsResponse, _Mapping]] = ..., caught_up: _Optional[bool] = ...) -> None: ...

class GetStateRequest(_message.Message):
    __slots__ = ("run_id", "at_seq", "freshness", "known")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    AT_SEQ_FIELD_NUMBER: _ClassVar[int]
    FRESHNESS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    at_seq: int
    freshness: _common_pb2.Freshness
    known: _common_pb2.Position
    def __init__(self, run_id: _Optional[str] = ..., at_seq: _Optional[int] = ..., freshness: _Optional[_Union[_common_pb2.Freshness, str]] = ..., known: _Optional[_Union[_common_pb2.Position, _Mapping]] = ...) -> None: ...

class GetStateResponse(_message.Message):
    __slots__ = ("at_seq", "state", "state_digest", "prefix_digest", "source", "folded_events", "staleness_ms")
    AT_SEQ_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    PREFIX_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FOLDED_EVENTS_FIELD_NUMBER: _ClassVar[int]
    STALENESS_MS_FIELD_NUMBER: _ClassVar[int]
    at_seq: int
    state: bytes
    state_digest: bytes
    prefix_digest: bytes
    source: _common_pb2.Source
    folded_events: int
    staleness_ms: int
    def __init__(self, at_seq: _Optional[int] = ..., state: _Optional[bytes] = ..., state_digest: _Optional[bytes] = ..., prefix_digest: _Optional[bytes] = ..., source: _Optional[_Union[_common_pb2.Source, str]] = ..., folded_events: _Optional[int] = ..., staleness_ms: _Optional[int] = ...) -> None: ...

class GetPrefixRequest(_message.Message):
    __slots__ = ("run_id", "until_seq", "freshness", "recompute", "known")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    UNTIL_SEQ_FIELD_NUMBER: _ClassVar[int]
    FRESHNESS_FIELD_NUMBER: _ClassVar[int]
    RECOMPUTE_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    until_seq: int
    freshness: _common_pb2.Freshness
    recompute: bool
    known: _common_pb2.Position
    def __init__(self, run_id: _Optional[str] = ..., until_seq: _Optional[int] = ..., freshness: _Optional[_Union[_common_pb2.Freshness, str]] = ..., recompute: _Optional[bool] = ..., known: _Optional[_Union[_common_pb2.Position, _Mapping]] = ...) -> None: ...

class GetPrefixResponse(_message.Message):
    __slots__ = ("last", "source", "staleness_ms")
    LAST_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STALENESS_MS_FIELD_NUMBER: _ClassVar[int]
    last: _common_pb2.Position
    source: _common_pb2.Source
    staleness_ms: int
    def __init__(self, last: _Optional[_Union[_common_pb2.Position, _Mapping]] = ..., source: _Optional[_Union[_common_pb2.Source, str]] = ..., staleness_ms: _Optional[int] = ...) -> None: ...

class ForkRunRequest(_message.Message):
    __slots__ = ("request_id", "source_run_id", "from_seq", "mode", "run_options_overlay", "home_region", "expected_prefix_digest", "executed")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQ_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    RUN_OPTIONS_OVERLAY_FIELD_NUMBER: _ClassVar[int]
    HOME_REGION_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_PREFIX_DIGEST_FIELD_NUMBER: _ClassVar[int]
    EXECUTED_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    source_run_id: str
    from_seq: int
    mode: _common_pb2.ForkMode
    run_options_overlay: bytes
    home_region: str
    expected_prefix_digest: bytes
    executed: bool
    def __init__(self, request_id: _Optional[str] = ..., source_run_id: _Optional[str] = ..., from_seq: _Optional[int] = ..., mode: _Optional[_Union[_common_pb2.ForkMode, str]] = ..., run_options_overlay: _Optional[bytes] = ..., home_region: _Optional[str] = ..., expected_prefix_digest: _Optional[bytes] = ..., executed: _Optional[bool] = ...) -> None: ...

class ForkRunResponse(_message.Message):
    __slots__ = ("run", "repeated")
    RUN_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    run: Run
    repeated: bool
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., repeated: _Optional[bool] = ...) -> None: ...

class ImportRunRequest(_message.Message):
    __slots__ = ("header", "events")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    header: ImportHeader
    events: ImportEvents
    def __init__(self, header: _Optional[_Union[ImportHeader, _Mapping]] = ..., events: _Optional[_Union[ImportEvents, _Mapping]] = ...) -> None: ...

class ImportHeader(_message.Message):
    __slots__ = ("request_id", "workflow_id", "tags", "home_region", "content_digest", "subject", "check_only")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    HOME_REGION_FIELD_NUMBER: _ClassVar[int]
    CONTENT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    CHECK_ONLY_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    workflow_id: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    home_region: str
    content_digest: bytes
    subject: LegacySubject
    check_only: bool
    def __init__(self, request_id: _Optional[str] = ..., workflow_id: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., home_region: _Optional[str] = ..., content_digest: _Optional[bytes] = ..., subject: _Optional[_Union[LegacySubject, _Mapping]] = ..., check_only: _Optional[bool] = ...) -> None: ...

class LegacySubject(_message.Message):
    __slots__ = ("subject_id", "lane", "kind")
    SUBJECT_ID_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    subject_id: str
    lane: str
    kind: str
    def __init__(self, subject_id: _Optional[str] = ..., lane: _Optional[str] = ..., kind: _Optional[str] = ...) -> None: ...

class ImportEvents(_message.Message):
    __slots__ = ("documents",)
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    documents: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, documents: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ImportRunResponse(_message.Message):
    __slots__ = ("run", "repeated", "untranslatable_events", "untranslatable")
    RUN_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    UNTRANSLATABLE_EVENTS_FIELD_NUMBER: _ClassVar[int]
    UNTRANSLATABLE_FIELD_NUMBER: _ClassVar[int]
    run: Run
    repeated: bool
    untranslatable_events: int
    untranslatable: _containers.RepeatedCompositeFieldContainer[UntranslatableEvent]
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., repeated: _Optional[bool] = ..., untranslatable_events: _Optional[int] = ..., untranslatable: _Optional[_Iterable[_Union[UntranslatableEvent, _Mapping]]] = ...) -> None: ...

class UntranslatableEvent(_message.Message):
    __slots__ = ("seq", "reason", "message")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    seq: int
    reason: str
    message: str
    def __init__(self, seq: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class DiffRunsRequest(_message.Message):
    __slots__ = ("a_run_id", "b_run_id", "max_event_diffs")
    A_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    B_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_EVENT_DIFFS_FIELD_NUMBER: _ClassVar[int]
    a_run_id: str
    b_run_id: str
    max_event_diffs: int
    def __init__(self, a_run_id: _Optional[str] = ..., b_run_id: _Optional[str] = ..., max_event_diffs: _Optional[int] = ...) -> None: ...

class EventDiff(_message.Message):
    __slots__ = ("seq", "op", "a_event", "b_event")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    A_EVENT_FIELD_NUMBER: _ClassVar[int]
    B_EVENT_FIELD_NUMBER: _ClassVar[int]
    seq: int
    op: DiffOp
    a_event: _common_pb2.EventContent
    b_event: _common_pb2.EventContent
    def __init__(self, seq: _Optional[int] = ..., op: _Optional[_Union[DiffOp, str]] = ..., a_event: _Optional[_Union[_common_pb2.EventContent, _Mapping]] = ..., b_event: _Optional[_Union[_common_pb2.EventContent, _Mapping]] = ...) -> None: ...

class DiffRunsResponse(_message.Message):
    __slots__ = ("a_run_id", "b_run_id", "diverged_at_seq", "event_diffs", "state_diff", "truncated", "shared_events")
    A_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    B_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DIVERGED_AT_SEQ_FIELD_NUMBER: _ClassVar[int]
    EVENT_DIFFS_FIELD_NUMBER: _ClassVar[int]
    STATE_DIFF_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    SHARED_EVENTS_FIELD_NUMBER: _ClassVar[int]
    a_run_id: str
    b_run_id: str
    diverged_at_seq: int
    event_diffs: _containers.RepeatedCompositeFieldContainer[EventDiff]
    state_diff: bytes
    truncated: bool
    shared_events: int
    def __init__(self, a_run_id: _Optional[str] = ..., b_run_id: _Optional[str] = ..., diverged_at_seq: _Optional[int] = ..., event_diffs: _Optional[_Iterable[_Union[EventDiff, _Mapping]]] = ..., state_diff: _Optional[bytes] = ..., truncated: _Optional[bool] = ..., shared_events: _Optional[int] = ...) -> None: ...

class CompareForksRequest(_message.Message):
    __slots__ = ("a_run_id", "b_run_id")
    A_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    B_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    a_run_id: str
    b_run_id: str
    def __init__(self, a_run_id: _Optional[str] = ..., b_run_id: _Optional[str] = ...) -> None: ...

class CompareForksResponse(_message.Message):
    __slots__ = ("a_run_id", "b_run_id", "from_seq", "prefix_equal", "raw_suffix_equal", "masked_equal", "compared_events", "matched_events", "first_divergence_seq", "truncated")
    A_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    B_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQ_FIELD_NUMBER: _ClassVar[int]
    PREFIX_EQUAL_FIELD_NUMBER: _ClassVar[int]
    RAW_SUFFIX_EQUAL_FIELD_NUMBER: _ClassVar[int]
    MASKED_EQUAL_FIELD_NUMBER: _ClassVar[int]
    COMPARED_EVENTS_FIELD_NUMBER: _ClassVar[int]
    MATCHED_EVENTS_FIELD_NUMBER: _ClassVar[int]
    FIRST_DIVERGENCE_SEQ_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    a_run_id: str
    b_run_id: str
    from_seq: int
    prefix_equal: bool
    raw_suffix_equal: bool
    masked_equal: bool
    compared_events: int
    matched_events: int
    first_divergence_seq: int
    truncated: bool
    def __init__(self, a_run_id: _Optional[str] = ..., b_run_id: _Optional[str] = ..., from_seq: _Optional[int] = ..., prefix_equal: _Optional[bool] = ..., raw_suffix_equal: _Optional[bool] = ..., masked_equal: _Optional[bool] = ..., compared_events: _Optional[int] = ..., matched_events: _Optional[int] = ..., first_divergence_seq: _Optional[int] = ..., truncated: _Optional[bool] = ...) -> None: ...
