"""Traces and metrics over the OpenTelemetry API: names as constants, helpers for spans and counters. The SDK is set up by ``bootstrap``.

Names follow the rpc and db semantic conventions (opentelemetry.io, semantic conventions 1.45) where one exists.
"""

from typing import Final

from opentelemetry import metrics, trace

tracer = trace.get_tracer("isoline_server")
_meter = metrics.get_meter("isoline_server")

RPC_SYSTEM: Final = "rpc.system.name"
RPC_METHOD: Final = "rpc.method"
RPC_STATUS: Final = "rpc.response.status_code"
SOURCE: Final = "isoline.source"
REGION: Final = "isoline.region"

REPLAY_DIVERGED: Final = "openwop.replay.diverged"
"""The attribute that OpenWOP v2 replay.md names, on the span of the append that diverged."""

DIVERGENCE_KIND: Final = "isoline.replay.divergence_kind"

DB_SYSTEM: Final = "db.system.name"
DB_OPERATION: Final = "db.operation.name"
ERROR_TYPE: Final = "error.type"

statement_duration_s = _meter.create_histogram(
    "db.client.operation.duration", unit="s", description="Duration of a statement"
)
call_duration_s = _meter.create_histogram("rpc.server.call.duration", unit="s", description="Duration of a call")
chain_breaks = _meter.create_counter(
    "isoline.chain.breaks", description="Records that did not extend their chain, by where they were read"
)
replay_divergences = _meter.create_counter(
    "isoline.replay.divergences", description="Places at which a replay differed from its source, by kind"
)


def note_divergence(kind: str) -> None:
    """Count a divergence, and mark the span of the call that brought it."""
    replay_divergences.add(1, {DIVERGENCE_KIND: kind})
    trace.get_current_span().set_attribute(REPLAY_DIVERGED, value=True)
