from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Source(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SOURCE_UNSPECIFIED: _ClassVar[Source]
    SOURCE_LOCAL: _ClassVar[Source]
    SOURCE_LEADER: _ClassVar[Source]
    SOURCE_STALE: _ClassVar[Source]

class Freshness(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FRESHNESS_UNSPECIFIED: _ClassVar[Freshness]
    FRESHNESS_LATEST: _ClassVar[Freshness]
    FRESHNESS_LOCAL: _ClassVar[Freshness]

class ForkMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FORK_MODE_UNSPECIFIED: _ClassVar[ForkMode]
    FORK_MODE_REPLAY: _ClassVar[ForkMode]
    FORK_MODE_BRANCH: _ClassVar[ForkMode]
SOURCE_UNSPECIFIED: Source
SOURCE_LOCAL: Source
SOURCE_LEADER: Source
SOURCE_STALE: Source
FRESHNESS_UNSPECIFIED: Freshness
FRESHNESS_LATEST: Freshness
FRESHNESS_LOCAL: Freshness
FORK_MODE_UNSPECIFIED: ForkMode
FORK_MODE_REPLAY: ForkMode
FORK_MODE_BRANCH: ForkMode

class EventContent(_message.Message):
    __slots__ = ("type", "node_id", "schema_version", "engine_version", "payload", "masked")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENGINE_VERSION_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    MASKED_FIELD_NUMBER: _ClassVar[int]
    type: str
    node_id: str
    schema_version: int
    engine_version: int
    payload: bytes
    masked: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, type: _Optional[str] = ..., node_id: _Optional[str] = ..., schema_version: _Optional[int] = ..., engine_version: _Optional[int] = ..., payload: _Optional[bytes] = ..., masked: _Optional[_Iterable[str]] = ...) -> None: ...

class EventStamp(_message.Message):
    __slots__ = ("event_id", "causation_id", "recorded_at_us", "region", "engine", "engine_seq", "legacy_event_id", "legacy_digest")
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    CAUSATION_ID_FIELD_NUMBER: _ClassVar[int]
    RECORDED_AT_US_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_SEQ_FIELD_NUMBER: _ClassVar[int]
    LEGACY_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    LEGACY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    event_id: bytes
    causation_id: str
    recorded_at_us: int
    region: str
    engine: str
    engine_seq: int
    legacy_event_id: str
    legacy_digest: bytes
    def __init__(self, event_id: _Optional[bytes] = ..., causation_id: _Optional[str] = ..., recorded_at_us: _Optional[int] = ..., region: _Optional[str] = ..., engine: _Optional[str] = ..., engine_seq: _Optional[int] = ..., legacy_event_id: _Optional[str] = ..., legacy_digest: _Optional[bytes] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("content", "stamp")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    STAMP_FIELD_NUMBER: _ClassVar[int]
    content: EventContent
    stamp: EventStamp
    def __init__(self, content: _Optional[_Union[EventContent, _Mapping]] = ..., stamp: _Optional[_Union[EventStamp, _Mapping]] = ...) -> None: ...

class StoredLegacyEvent(_message.Message):
    __slots__ = ("document", "owner", "appended")
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    APPENDED_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    owner: bytes
    appended: Event
    def __init__(self, document: _Optional[bytes] = ..., owner: _Optional[bytes] = ..., appended: _Optional[_Union[Event, _Mapping]] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("seq", "digest")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    seq: int
    digest: bytes
    def __init__(self, seq: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...
