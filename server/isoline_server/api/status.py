"""One table: which error is which gRPC status, and whether a repeat can help. ``tests/api/test_status.py`` proves it complete.

The reason in ``google.rpc.ErrorInfo`` is the OpenWOP code where one exists, else the class name, in upper snake case; the metadata are the
error's own values. Internal errors never leak SQL, paths or other tenants' ids.
"""

import re
from dataclasses import dataclass
from typing import Final

from google.protobuf.any_pb2 import Any
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode

from isoline_server.domain import errors

DOMAIN: Final = "isoline.dev"


@dataclass(frozen=True, slots=True)
class Mapped:
    """A gRPC code, the reason, and whether the same call may be repeated later."""

    code: StatusCode
    reason: str
    retryable: bool = False


STATUS: Final[dict[type[errors.IsolineError], Mapped]] = {
    errors.InvalidField: Mapped(StatusCode.INVALID_ARGUMENT, "VALIDATION_ERROR"),
    errors.TooLarge: Mapped(StatusCode.INVALID_ARGUMENT, "PAYLOAD_TOO_LARGE"),
    errors.TenantMismatch: Mapped(StatusCode.PERMISSION_DENIED, "ID_TENANT_MISMATCH"),
    errors.ScopeMissing: Mapped(StatusCode.PERMISSION_DENIED, "FORBIDDEN"),
    errors.Unauthenticated: Mapped(StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED"),
    errors.RunNotFound: Mapped(StatusCode.NOT_FOUND, "NOT_FOUND"),
    errors.LeaseLost: Mapped(StatusCode.FAILED_PRECONDITION, "LEASE_LOST"),
    errors.EffectNotFound: Mapped(StatusCode.NOT_FOUND, "EFFECT_NOT_FOUND"),
    errors.EffectIdentityReused: Mapped(StatusCode.ALREADY_EXISTS, "EFFECT_IDENTITY_REUSED"),
    errors.EffectTransitionRefused: Mapped(StatusCode.FAILED_PRECONDITION, "EFFECT_TRANSITION_REFUSED"),
    errors.RunTerminal: Mapped(StatusCode.FAILED_PRECONDITION, "RUN_TERMINAL"),
    errors.SeqOutOfRange: Mapped(StatusCode.OUT_OF_RANGE, "SEQ_OUT_OF_RANGE"),
    errors.PrefixMismatch: Mapped(StatusCode.FAILED_PRECONDITION, "PREFIX_MISMATCH"),
    errors.RequestIdReused: Mapped(StatusCode.ALREADY_EXISTS, "IDEMPOTENCY_KEY_MISMATCH"),
    errors.EngineGap: Mapped(StatusCode.FAILED_PRECONDITION, "ENGINE_GAP"),
    errors.EngineCounterReused: Mapped(StatusCode.ALREADY_EXISTS, "ENGINE_COUNTER_REUSED"),
    errors.ForkPointInvalid: Mapped(StatusCode.FAILED_PRECONDITION, "FORK_POINT_INVALID"),
    errors.MemoryUnavailable: Mapped(StatusCode.FAILED_PRECONDITION, "REPLAY_MEMORY_SNAPSHOT_UNAVAILABLE"),
    errors.SummaryUnavailable: Mapped(StatusCode.FAILED_PRECONDITION, "REPLAY_CONTEXT_SUMMARY_UNAVAILABLE"),
    errors.ReplayDivergedAtRefusal: Mapped(StatusCode.FAILED_PRECONDITION, "REPLAY_DIVERGED_AT_REFUSAL"),
    errors.OverlayNotAllowed: Mapped(StatusCode.INVALID_ARGUMENT, "OVERLAY_NOT_ALLOWED"),
    errors.LineageTooDeep: Mapped(StatusCode.FAILED_PRECONDITION, "LINEAGE_TOO_DEEP"),
    errors.PageTokenInvalid: Mapped(StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"),
    errors.StateTooLarge: Mapped(StatusCode.FAILED_PRECONDITION, "STATE_TOO_LARGE"),
    errors.SeqConflict: Mapped(StatusCode.ABORTED, "SEQ_CONFLICT"),
    errors.HeadContended: Mapped(StatusCode.ABORTED, "HEAD_CONTENDED", retryable=True),
    errors.TooManyWaiting: Mapped(StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_WAITING", retryable=True),
    errors.Draining: Mapped(StatusCode.UNAVAILABLE, "DRAINING", retryable=True),
    errors.StoreUnavailable: Mapped(StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE", retryable=True),
    errors.OutcomeUnknown: Mapped(StatusCode.UNAVAILABLE, "OUTCOME_UNKNOWN", retryable=True),
    # HTTP 500 in OpenWOP, final in both: not DATA_LOSS, which is an auditor's alarm. Nothing is lost; the original is there.
    errors.EventTypeUnmapped: Mapped(StatusCode.INTERNAL, "EVENT_TYPE_UNMAPPED"),
    errors.PayloadUnprojectable: Mapped(StatusCode.INTERNAL, "PAYLOAD_UNPROJECTABLE"),
    errors.ChainBroken: Mapped(StatusCode.DATA_LOSS, "CHAIN_BROKEN"),
    errors.Damaged: Mapped(StatusCode.DATA_LOSS, "DAMAGED"),
}

INTERNAL: Final = Mapped(StatusCode.INTERNAL, "INTERNAL_ERROR", retryable=True)
_GRPC_STATUS_CODE: Final = {code: code.value[0] for code in StatusCode}


@dataclass(frozen=True, slots=True)
class ErrorOnTheWire:
    """An error as the wire tells it."""

    code: StatusCode
    message: str
    reason: str
    metadata: dict[str, str]

    def to_status(self) -> status_pb2.Status:
        """As ``google.rpc.Status`` with ``ErrorInfo``."""
        info = Any()
        info.Pack(error_details_pb2.ErrorInfo(reason=self.reason, domain=DOMAIN, metadata=self.metadata))
        return status_pb2.Status(code=_GRPC_STATUS_CODE[self.code], message=self.message, details=[info])


def on_the_wire(error: Exception) -> ErrorOnTheWire:
    """How the wire tells ``error``. What is not one of ours is an internal error, told without its text."""
    if not isinstance(error, errors.IsolineError):
        return ErrorOnTheWire(
            INTERNAL.code, "internal error; the server's log has the details", INTERNAL.reason, {"retryable": "true"}
        )
    mapped = STATUS[type(error)]
    metadata = error.details() | {"retryable": str(mapped.retryable).lower(), "error": _snake(type(error).__name__)}
    return ErrorOnTheWire(mapped.code, str(error), mapped.reason, metadata)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
