from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EffectState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EFFECT_STATE_UNSPECIFIED: _ClassVar[EffectState]
    EFFECT_STATE_CLAIMED: _ClassVar[EffectState]
    EFFECT_STATE_OUTBOUND: _ClassVar[EffectState]
    EFFECT_STATE_COMPLETED: _ClassVar[EffectState]
    EFFECT_STATE_FAILED: _ClassVar[EffectState]
    EFFECT_STATE_IN_DOUBT: _ClassVar[EffectState]

class EnvelopeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENVELOPE_KIND_UNSPECIFIED: _ClassVar[EnvelopeKind]
    ENVELOPE_KIND_VALID: _ClassVar[EnvelopeKind]
    ENVELOPE_KIND_REFUSAL: _ClassVar[EnvelopeKind]
EFFECT_STATE_UNSPECIFIED: EffectState
EFFECT_STATE_CLAIMED: EffectState
EFFECT_STATE_OUTBOUND: EffectState
EFFECT_STATE_COMPLETED: EffectState
EFFECT_STATE_FAILED: EffectState
EFFECT_STATE_IN_DOUBT: EffectState
ENVELOPE_KIND_UNSPECIFIED: EnvelopeKind
ENVELOPE_KIND_VALID: EnvelopeKind
ENVELOPE_KIND_REFUSAL: EnvelopeKind

class Lease(_message.Message):
    __slots__ = ("run_id", "workflow_id", "epoch", "expires_at_us", "ttl_ms")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_US_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    workflow_id: str
    epoch: int
    expires_at_us: int
    ttl_ms: int
    def __init__(self, run_id: _Optional[str] = ..., workflow_id: _Optional[str] = ..., epoch: _Optional[int] = ..., expires_at_us: _Optional[int] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class ClaimRunsRequest(_message.Message):
    __slots__ = ("region", "owner", "workflow_ids", "max_runs", "lease_ttl_ms")
    REGION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_IDS_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNS_FIELD_NUMBER: _ClassVar[int]
    LEASE_TTL_MS_FIELD_NUMBER: _ClassVar[int]
    region: str
    owner: str
    workflow_ids: _containers.RepeatedScalarFieldContainer[str]
    max_runs: int
    lease_ttl_ms: int
    def __init__(self, region: _Optional[str] = ..., owner: _Optional[str] = ..., workflow_ids: _Optional[_Iterable[str]] = ..., max_runs: _Optional[int] = ..., lease_ttl_ms: _Optional[int] = ...) -> None: ...

class ClaimRunsResponse(_message.Message):
    __slots__ = ("leases", "next_wake_at_us")
    LEASES_FIELD_NUMBER: _ClassVar[int]
    NEXT_WAKE_AT_US_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[Lease]
    next_wake_at_us: int
    def __init__(self, leases: _Optional[_Iterable[_Union[Lease, _Mapping]]] = ..., next_wake_at_us: _Optional[int] = ...) -> None: ...

class LeaseRef(_message.Message):
    __slots__ = ("run_id", "epoch")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    epoch: int
    def __init__(self, run_id: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class RenewLeasesRequest(_message.Message):
    __slots__ = ("leases", "lease_ttl_ms")
    LEASES_FIELD_NUMBER: _ClassVar[int]
    LEASE_TTL_MS_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[LeaseRef]
    lease_ttl_ms: int
    def __init__(self, leases: _Optional[_Iterable[_Union[LeaseRef, _Mapping]]] = ..., lease_ttl_ms: _Optional[int] = ...) -> None: ...

class RenewLeasesResponse(_message.Message):
    __slots__ = ("renewed", "lost_run_ids")
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    LOST_RUN_IDS_FIELD_NUMBER: _ClassVar[int]
    renewed: _containers.RepeatedCompositeFieldContainer[Lease]
    lost_run_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, renewed: _Optional[_Iterable[_Union[Lease, _Mapping]]] = ..., lost_run_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ReleaseRunRequest(_message.Message):
    __slots__ = ("run_id", "epoch", "seen_head_seq", "wake_in_ms")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEEN_HEAD_SEQ_FIELD_NUMBER: _ClassVar[int]
    WAKE_IN_MS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    epoch: int
    seen_head_seq: int
    wake_in_ms: int
    def __init__(self, run_id: _Optional[str] = ..., epoch: _Optional[int] = ..., seen_head_seq: _Optional[int] = ..., wake_in_ms: _Optional[int] = ...) -> None: ...

class ReleaseRunResponse(_message.Message):
    __slots__ = ("released",)
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    released: bool
    def __init__(self, released: _Optional[bool] = ...) -> None: ...

class Effect(_message.Message):
    __slots__ = ("run_id", "effect_id", "node_id", "visit", "ordinal", "seam", "provider_key", "request_digest", "state", "attempt", "lease_epoch", "draws", "outcome", "cost", "claimed_at_us", "outbound_at_us", "ended_at_us", "resolved_by")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EFFECT_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    VISIT_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    SEAM_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_KEY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LEASE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    DRAWS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_AT_US_FIELD_NUMBER: _ClassVar[int]
    OUTBOUND_AT_US_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_US_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_BY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    effect_id: str
    node_id: str
    visit: int
    ordinal: int
    seam: str
    provider_key: str
    request_digest: bytes
    state: EffectState
    attempt: int
    lease_epoch: int
    draws: bytes
    outcome: bytes
    cost: bytes
    claimed_at_us: int
    outbound_at_us: int
    ended_at_us: int
    resolved_by: str
    def __init__(self, run_id: _Optional[str] = ..., effect_id: _Optional[str] = ..., node_id: _Optional[str] = ..., visit: _Optional[int] = ..., ordinal: _Optional[int] = ..., seam: _Optional[str] = ..., provider_key: _Optional[str] = ..., request_digest: _Optional[bytes] = ..., state: _Optional[_Union[EffectState, str]] = ..., attempt: _Optional[int] = ..., lease_epoch: _Optional[int] = ..., draws: _Optional[bytes] = ..., outcome: _Optional[bytes] = ..., cost: _Optional[bytes] = ..., claimed_at_us: _Optional[int] = ..., outbound_at_us: _Optional[int] = ..., ended_at_us: _Optional[int] = ..., resolved_by: _Optional[str] = ...) -> None: ...

class ClaimEffectRequest(_message.Message):
    __slots__ = ("run_id", "lease_epoch", "effect_id", "node_id", "visit", "ordinal", "seam", "provider_key", "request_digest", "draws")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    EFFECT_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    VISIT_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    SEAM_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_KEY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    DRAWS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    lease_epoch: int
    effect_id: str
    node_id: str
    visit: int
    ordinal: int
    seam: str
    provider_key: str
    request_digest: bytes
    draws: bytes
    def __init__(self, run_id: _Optional[str] = ..., lease_epoch: _Optional[int] = ..., effect_id: _Optional[str] = ..., node_id: _Optional[str] = ..., visit: _Optional[int] = ..., ordinal: _Optional[int] = ..., seam: _Optional[str] = ..., provider_key: _Optional[str] = ..., request_digest: _Optional[bytes] = ..., draws: _Optional[bytes] = ...) -> None: ...

class ClaimEffectResponse(_message.Message):
    __slots__ = ("granted", "effect")
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    granted: bool
    effect: Effect
    def __init__(self, granted: _Optional[bool] = ..., effect: _Optional[_Union[Effect, _Mapping]] = ...) -> None: ...

class AdvanceEffectRequest(_message.Message):
    __slots__ = ("run_id", "lease_epoch", "effect_id", "attempt", "to", "outcome", "cost")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    EFFECT_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    lease_epoch: int
    effect_id: str
    attempt: int
    to: EffectState
    outcome: bytes
    cost: bytes
    def __init__(self, run_id: _Optional[str] = ..., lease_epoch: _Optional[int] = ..., effect_id: _Optional[str] = ..., attempt: _Optional[int] = ..., to: _Optional[_Union[EffectState, str]] = ..., outcome: _Optional[bytes] = ..., cost: _Optional[bytes] = ...) -> None: ...

class AdvanceEffectResponse(_message.Message):
    __slots__ = ("effect",)
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    effect: Effect
    def __init__(self, effect: _Optional[_Union[Effect, _Mapping]] = ...) -> None: ...

class ListEffectsRequest(_message.Message):
    __slots__ = ("run_id", "states", "node_id", "page_size", "page_token")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    states: _containers.RepeatedScalarFieldContainer[EffectState]
    node_id: str
    page_size: int
    page_token: str
    def __init__(self, run_id: _Optional[str] = ..., states: _Optional[_Iterable[_Union[EffectState, str]]] = ..., node_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListEffectsResponse(_message.Message):
    __slots__ = ("effects", "next_page_token")
    EFFECTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    effects: _containers.RepeatedCompositeFieldContainer[Effect]
    next_page_token: str
    def __init__(self, effects: _Optional[_Iterable[_Union[Effect, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ResolveEffectRequest(_message.Message):
    __slots__ = ("run_id", "effect_id", "to", "outcome", "resolved_by")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EFFECT_ID_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_BY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    effect_id: str
    to: EffectState
    outcome: bytes
    resolved_by: str
    def __init__(self, run_id: _Optional[str] = ..., effect_id: _Optional[str] = ..., to: _Optional[_Union[EffectState, str]] = ..., outcome: _Optional[bytes] = ..., resolved_by: _Optional[str] = ...) -> None: ...

class ResolveEffectResponse(_message.Message):
    __slots__ = ("effect",)
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    effect: Effect
    def __init__(self, effect: _Optional[_Union[Effect, _Mapping]] = ...) -> None: ...

class Invocation(_message.Message):
    __slots__ = ("run_id", "node_id", "execution", "key", "repetition", "kind", "response", "cost")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    REPETITION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    node_id: str
    execution: int
    key: str
    repetition: int
    kind: EnvelopeKind
    response: bytes
    cost: bytes
    def __init__(self, run_id: _Optional[str] = ..., node_id: _Optional[str] = ..., execution: _Optional[int] = ..., key: _Optional[str] = ..., repetition: _Optional[int] = ..., kind: _Optional[_Union[EnvelopeKind, str]] = ..., response: _Optional[bytes] = ..., cost: _Optional[bytes] = ...) -> None: ...

class PutInvocationRequest(_message.Message):
    __slots__ = ("lease_epoch", "invocation")
    LEASE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    INVOCATION_FIELD_NUMBER: _ClassVar[int]
    lease_epoch: int
    invocation: Invocation
    def __init__(self, lease_epoch: _Optional[int] = ..., invocation: _Optional[_Union[Invocation, _Mapping]] = ...) -> None: ...

class PutInvocationResponse(_message.Message):
    __slots__ = ("invocation", "repeated")
    INVOCATION_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    invocation: Invocation
    repeated: bool
    def __init__(self, invocation: _Optional[_Union[Invocation, _Mapping]] = ..., repeated: _Optional[bool] = ...) -> None: ...

class GetInvocationRequest(_message.Message):
    __slots__ = ("run_id", "node_id", "execution", "key", "repetition", "follow_sources")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    REPETITION_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_SOURCES_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    node_id: str
    execution: int
    key: str
    repetition: int
    follow_sources: bool
    def __init__(self, run_id: _Optional[str] = ..., node_id: _Optional[str] = ..., execution: _Optional[int] = ..., key: _Optional[str] = ..., repetition: _Optional[int] = ..., follow_sources: _Optional[bool] = ...) -> None: ...

class GetInvocationResponse(_message.Message):
    __slots__ = ("invocation",)
    INVOCATION_FIELD_NUMBER: _ClassVar[int]
    invocation: Invocation
    def __init__(self, invocation: _Optional[_Union[Invocation, _Mapping]] = ...) -> None: ...
