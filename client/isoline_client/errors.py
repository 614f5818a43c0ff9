"""Every way a call can fail, one class for each fact the caller can act on, and how a gRPC error becomes one.

::

    IsolineError
    ├── Refused                 what was asked cannot be; repeating it does not help
    │   ├── InvalidRequest          a value breaks its rule (field, rule, got)
    │   ├── TooLarge                a size is over its limit (field, size, limit, unit)
    │   ├── Unauthenticated         no key, or an unknown one
    │   ├── PermissionDenied        the key may not do this
    │   │   ├── TenantMismatch          the id belongs to another tenant (field)
    │   │   └── ScopeMissing            the key lacks a scope (scope)
    │   ├── RunNotFound             no such run (run_id)
    │   ├── LeaseLost               the run was claimed anew, or the lease ended (run_id, lease_epoch)
    │   ├── EffectNotFound          no such effect in the run (run_id, effect_id)
    │   ├── EffectIdentityReused    the effect's id came before with another request (run_id, effect_id)
    │   ├── EffectTransitionRefused the effect may not go there from where it is (run_id, effect_id, state, attempt, to)
    │   ├── RunTerminal             the run has ended; this event may not follow (run_id, terminal_seq, type)
    │   ├── SeqOutOfRange           the range is not in the log (field, got, head_seq)
    │   ├── PrefixMismatch          the caller's position is not of this run (seq, expected_digest, actual_digest)
    │   ├── RequestIdReused         the request id came before with another body (request_id)
    │   ├── EngineGap               the engine's counter skips a number (engine, expected_engine_seq, got_engine_seq)
    │   ├── EngineCounterReused     the engine's counter was used for other events (the same three)
    │   ├── ForkPointInvalid        no fork may begin there (source_run_id, from_seq, last_seq, why)
    │   ├── EventTypeUnmapped       a v1 event has no v2 name (type, seq)
    │   ├── PayloadUnprojectable    a v1 payload has members that v2 has no seat for (type, keys, event_id, seq)
    │   ├── MemoryUnavailable       the log does not tell the run's memory as of from_seq (source_run_id, from_seq, gap_seq)
    │   ├── SummaryUnavailable      the log does not tell a summary that the run uses (source_run_id, from_seq, gap_seq)
    │   ├── ReplayDivergedAtRefusal the model refused in the replay or in its source only (run_id, seq, node_id, source_refused)
    │   └── LineageTooDeep          the fork would have too many ancestors (ranges, limit)
    ├── Raced                   another writer was faster: read again, then decide
    │   ├── SeqConflict             the next seq is another one (run_id, expected_seq, actual_seq)
    │   └── HeadContended           too many writers at once; nothing was done (run_id, losses)
    ├── Busy                    the call may be repeated later, with the same request id
    │   ├── TooManyWaiting          a queue of the server is full (what, limit)
    │   ├── Unavailable             no server carried the call out: unreachable, draining, or without its database
    │   ├── DeadlineExceeded        no answer in time; nothing was to be changed
    │   └── OutcomeUnknown          no answer in time; the change may have landed (request_id: repeat with it to learn)
    ├── Damaged                 bytes do not fit together; nothing unverified was handed out
    │   ├── ChainBroken             the server found it (run_id, seq, source)
    │   └── VerificationFailed      the client found it (seq, what, expected, actual)
    ├── NotWritten              an earlier batch of the same writer failed, so this event was not sent
    ├── ClientClosed            the client was closed before or during the call
    └── ServerError             anything else a server says (reason, metadata, code)

``reason``, ``metadata`` and ``code`` keep what the server said, also where the class already tells.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self

import grpc
from google.rpc import error_details_pb2, status_pb2

from isoline.v1 import log_service_pb2 as log_pb

DOMAIN: Final = "isoline.dev"
_STATUS_KEY: Final = "grpc-status-details-bin"
_CODE_NAMES: Final = {code.value[0]: code.name for code in grpc.StatusCode}
_NOT_CONNECTED: Final = "failed to connect to all addresses"


@dataclass(eq=False, kw_only=True)
class IsolineError(Exception):
    """Base of every error of the client. ``code`` names the gRPC status; it is empty when the client itself raised."""

    message: str = ""
    reason: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    code: str = ""
    retry_after_s: float = 0.0

    def __str__(self) -> str:
        return self.message or self.reason or type(self).__name__

    @classmethod
    def from_answer(cls, *, metadata: Mapping[str, str], **base: Any) -> Self:
        """Build the error from what the server said; a number it did not say is -1, a text is empty."""
        own = [each for each in fields(cls) if each.name not in _BASE_FIELDS and each.name in metadata]
        values: dict[str, Any] = {each.name: _value(metadata[each.name], each.type is int) for each in own}
        return cls(metadata=dict(metadata), **base, **values)


_BASE_FIELDS: Final = frozenset(each.name for each in fields(IsolineError))


def _value(text: str, number: bool) -> str | int:
    if not number:
        return text
    try:
        return int(text)
    except ValueError:
        return -1


class Refused(IsolineError):
    """What was asked cannot be; repeating it gives the same answer."""


class Raced(IsolineError):
    """Another writer was faster."""


class Busy(IsolineError):
    """The call may be repeated later, with the same request id."""


class Damaged(IsolineError):
    """Bytes do not fit together."""


@dataclass(eq=False, kw_only=True)
class InvalidRequest(Refused):
    field: str = ""
    rule: str = ""
    got: str = ""


@dataclass(eq=False, kw_only=True)
class TooLarge(Refused):
    field: str = ""
    size: int = -1
    limit: int = -1
    unit: str = ""


class Unauthenticated(Refused):
    """The server takes no call without a key it knows."""


class PermissionDenied(Refused):
    """The key is known, and may not do this."""


@dataclass(eq=False, kw_only=True)
class TenantMismatch(PermissionDenied):
    field: str = ""


@dataclass(eq=False, kw_only=True)
class ScopeMissing(PermissionDenied):
    scope: str = ""


@dataclass(eq=False, kw_only=True)
class RunNotFound(Refused):
    run_id: str = ""


@dataclass(eq=False, kw_only=True)
class RunTerminal(Refused):
    run_id: str = ""
    terminal_seq: int = -1
    type: str = ""


@dataclass(eq=False, kw_only=True)
class LeaseLost(Refused):
    run_id: str = ""
    lease_epoch: int = -1


@dataclass(eq=False, kw_only=True)
class EffectNotFound(Refused):
    run_id: str = ""
    effect_id: str = ""


@dataclass(eq=False, kw_only=True)
class EffectIdentityReused(Refused):
    run_id: str = ""
    effect_id: str = ""


@dataclass(eq=False, kw_only=True)
class EffectTransitionRefused(Refused):
    run_id: str = ""
    effect_id: str = ""
    state: str = ""
    attempt: int = -1
    to: str = ""


@dataclass(eq=False, kw_only=True)
class SeqOutOfRange(Refused):
    field: str = ""
    got: int = -1
    head_seq: int = -1


@dataclass(eq=False, kw_only=True)
class PrefixMismatch(Refused):
    seq: int = -1
    expected_digest: str = ""
    actual_digest: str = ""


@dataclass(eq=False, kw_only=True)
class RequestIdReused(Refused):
    request_id: str = ""


@dataclass(eq=False, kw_only=True)
class EngineGap(Refused):
    engine: str = ""
    expected_engine_seq: int = -1
    got_engine_seq: int = -1


@dataclass(eq=False, kw_only=True)
class EngineCounterReused(Refused):
    engine: str = ""
    expected_engine_seq: int = -1
    got_engine_seq: int = -1


@dataclass(eq=False, kw_only=True)
class ForkPointInvalid(Refused):
    source_run_id: str = ""
    from_seq: int = -1
    last_seq: int = -1
    why: str = ""


@dataclass(eq=False, kw_only=True)
class EventTypeUnmapped(Refused):
    type: str = ""
    seq: int = -1


@dataclass(eq=False, kw_only=True)
class PayloadUnprojectable(Refused):
    type: str = ""
    keys: str = ""
    event_id: str = ""
    seq: int = -1


@dataclass(eq=False, kw_only=True)
class MemoryUnavailable(Refused):
    source_run_id: str = ""
    from_seq: int = -1
    gap_seq: int = -1


@dataclass(eq=False, kw_only=True)
class SummaryUnavailable(Refused):
    source_run_id: str = ""
    from_seq: int = -1
    gap_seq: int = -1


@dataclass(eq=False, kw_only=True)
class ReplayDivergedAtRefusal(Refused):
    """The replay has failed: what was appended ended it, at the seq behind ``seq``."""

    run_id: str = ""
    seq: int = -1
    node_id: str = ""
    source_refused: str = ""


@dataclass(eq=False, kw_only=True)
class LineageTooDeep(Refused):
    ranges: int = -1
    limit: int = -1


@dataclass(eq=False, kw_only=True)
class SeqConflict(Raced):
    run_id: str = ""
    expected_seq: int = -1
    actual_seq: int = -1


@dataclass(eq=False, kw_only=True)
class HeadContended(Raced):
    run_id: str = ""
    losses: int = -1


@dataclass(eq=False, kw_only=True)
class TooManyWaiting(Busy):
    what: str = ""
    limit: int = -1


class Unavailable(Busy):
    """No server carried the call out."""


class DeadlineExceeded(Busy):
    """No answer in time."""


@dataclass(eq=False, kw_only=True)
class OutcomeUnknown(Busy):
    request_id: str = ""


@dataclass(eq=False, kw_only=True)
class ChainBroken(Damaged):
    run_id: str = ""
    seq: int = -1
    source: str = ""


@dataclass(eq=False, kw_only=True)
class VerificationFailed(Damaged):
    """``what`` did not hold at ``seq``; digests are in hexadecimal."""

    seq: int = -1
    what: str = ""
    expected: str = ""
    actual: str = ""

    def __str__(self) -> str:
        return f"seq {self.seq}: {self.what} (expected {self.expected}, got {self.actual})"


class NotWritten(IsolineError):
    """An earlier batch of the same writer failed; its error is the cause."""


class ClientClosed(IsolineError):
    """The client was closed before or during the call."""


class ServerError(IsolineError):
    """What this version of the client has no class for."""

    @property
    def retryable(self) -> bool:
        """Whether the server says that the same call may help later."""
        return self.metadata.get("retryable") == "true"


REASONS: Final[Mapping[str, type[IsolineError]]] = {
    "VALIDATION_ERROR": InvalidRequest,
    "OVERLAY_NOT_ALLOWED": InvalidRequest,
    "PAGE_TOKEN_INVALID": InvalidRequest,
    "PAYLOAD_TOO_LARGE": TooLarge,
    "STATE_TOO_LARGE": TooLarge,
    "UNAUTHENTICATED": Unauthenticated,
    "ID_TENANT_MISMATCH": TenantMismatch,
    "FORBIDDEN": ScopeMissing,
    "NOT_FOUND": RunNotFound,
    "LEASE_LOST": LeaseLost,
    "EFFECT_NOT_FOUND": EffectNotFound,
    "EFFECT_IDENTITY_REUSED": EffectIdentityReused,
    "EFFECT_TRANSITION_REFUSED": EffectTransitionRefused,
    "RUN_TERMINAL": RunTerminal,
    "SEQ_OUT_OF_RANGE": SeqOutOfRange,
    "PREFIX_MISMATCH": PrefixMismatch,
    "IDEMPOTENCY_KEY_MISMATCH": RequestIdReused,
    "ENGINE_GAP": EngineGap,
    "ENGINE_COUNTER_REUSED": EngineCounterReused,
    "FORK_POINT_INVALID": ForkPointInvalid,
    "REPLAY_MEMORY_SNAPSHOT_UNAVAILABLE": MemoryUnavailable,
    "REPLAY_CONTEXT_SUMMARY_UNAVAILABLE": SummaryUnavailable,
    "REPLAY_DIVERGED_AT_REFUSAL": ReplayDivergedAtRefusal,
    "LINEAGE_TOO_DEEP": LineageTooDeep,
    "EVENT_TYPE_UNMAPPED": EventTypeUnmapped,
    "PAYLOAD_UNPROJECTABLE": PayloadUnprojectable,
    "SEQ_CONFLICT": SeqConflict,
    "HEAD_CONTENDED": HeadContended,
    "TOO_MANY_WAITING": TooManyWaiting,
    "DRAINING": Unavailable,
    "STORE_UNAVAILABLE": Unavailable,
    "OUTCOME_UNKNOWN": OutcomeUnknown,
    "CHAIN_BROKEN": ChainBroken,
    "DAMAGED": Damaged,
}
"""What each reason of the server becomes."""

_CODES: Final[Mapping[str, type[IsolineError]]] = {
    "UNAVAILABLE": Unavailable,
    "CANCELLED": Unavailable,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
    "UNAUTHENTICATED": Unauthenticated,
    "PERMISSION_DENIED": PermissionDenied,
}
"""What a status becomes that comes without a known reason: from gRPC itself, a proxy, or a newer server."""


def from_rpc_error(failure: grpc.RpcError) -> IsolineError:
    """Turn what gRPC raised into an error of this module."""
    assert isinstance(failure, grpc.aio.AioRpcError | grpc.Call)
    code = failure.code().name
    text = failure.details() or code
    status = _status(failure.trailing_metadata() or ())
    info, retry_after_s = _details(status)
    if info is None and "RST_STREAM" in text:
        code = "UNAVAILABLE"  # a proxy or a dying server broke the stream off; gRPC calls some of these INTERNAL
    return _classify(
        reason=info.reason if info else "",
        metadata=dict(info.metadata) if info else {},
        message=text,
        code=code,
        retry_after_s=retry_after_s,
    )


def from_append_error(error: log_pb.AppendError) -> IsolineError:
    """Turn what a server says of one append among several into an error of this module."""
    return _classify(
        reason=error.reason,
        metadata=dict(error.metadata),
        message=error.message,
        code=_CODE_NAMES.get(error.code, "UNKNOWN"),
    )


def surely_not_carried_out(error: IsolineError) -> bool:
    """Whether the error proves that nothing was changed by the try that raised it."""
    match error:
        case OutcomeUnknown() | DeadlineExceeded() | ClientClosed():
            return False
        case Unavailable():
            return error.reason == "DRAINING" or error.message.startswith(_NOT_CONNECTED)
        case ServerError():
            return error.code not in {"INTERNAL", "UNKNOWN"}
        case _:
            return True


def _classify(*, reason: str, metadata: Mapping[str, str], code: str, **base: Any) -> IsolineError:
    kind = REASONS.get(reason) or _CODES.get(code, ServerError)
    return kind.from_answer(reason=reason, metadata=metadata, code=code, **base)


def _status(trailers: Any) -> status_pb2.Status:
    for key, value in trailers:
        if key == _STATUS_KEY:
            return status_pb2.Status.FromString(value)
    return status_pb2.Status()


def _details(status: status_pb2.Status) -> tuple[error_details_pb2.ErrorInfo | None, float]:
    found, retry_after_s = None, 0.0
    for detail in status.details:
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        if detail.Unpack(info) and info.domain == DOMAIN:
            found = info
        elif detail.Unpack(retry):
            retry_after_s = retry.retry_delay.ToTimedelta().total_seconds()
    return found, retry_after_s
