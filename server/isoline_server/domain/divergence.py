"""The events that say how a replay differs from its source (OpenWOP v2 replay.md, Divergence). Only the server makes them.

Belongs here: their payloads. Not here: what differs (``alignment``).
"""

from typing import Final

from isoline_server.domain.alignment import DIVERGED, DIVERGED_AT_REFUSAL, Difference, RefusalDifference
from isoline_server.domain.canonical import JsonObject, canonical
from isoline_server.domain.event import EventContent
from isoline_server.domain.payload import parse_payload

SERVER_MADE: Final = frozenset({DIVERGED, DIVERGED_AT_REFUSAL})

REFUSAL_CODE: Final = "replay_diverged_at_refusal"
_REPLAY_EVENT_ID: Final = "x-replay-event-id"
_KINDS: Final = ("valid", "refusal")


def diverged(source_run_id: str, difference: Difference, replay_event_id: str) -> EventContent:
    """``replay.diverged``. The replay's event id is fresh in every replay, so it is masked: two replays that differ alike are equal."""
    payload: JsonObject = {
        "sourceRunId": source_run_id,
        "atSequence": difference.at_seq,
        "divergenceKind": difference.kind,
        "divergencePoint": difference.point,
        _REPLAY_EVENT_ID: replay_event_id,
    }
    if difference.original is not None:
        payload["originalEventId"] = difference.original.event_id
    if difference.node_id:
        payload["x-isoline-node-id"] = difference.node_id
    return EventContent(
        type=DIVERGED, node_id=difference.node_id, payload=canonical(payload), masked=(f"/{_REPLAY_EVENT_ID}",)
    )


def diverged_at_refusal(source_run_id: str, difference: RefusalDifference) -> tuple[EventContent, EventContent]:
    """``replay.diverged-at-refusal``, and the ``run.failed`` that follows it at once."""
    payload: JsonObject = {
        "sourceRunId": source_run_id,
        "atSequence": difference.at_seq,
        "originalEventId": difference.original.event_id,
        "nodeId": difference.node_id,
        "originalEnvelopeKind": _KINDS[difference.source_refused],
        "replayEnvelopeKind": _KINDS[not difference.source_refused],
    }
    failed: JsonObject = {
        "error": {
            "code": REFUSAL_CODE,
            "message": f"node {difference.node_id}: the model refused in {'the source' if difference.source_refused else 'the replay'} only",
        },
        "failedNodeId": difference.node_id,
    }
    return (
        EventContent(type=DIVERGED_AT_REFUSAL, node_id=difference.node_id, payload=canonical(payload)),
        EventContent(type="run.failed", payload=canonical(failed)),
    )


def read_refusal(content: EventContent) -> bool:
    """Whether a ``replay.diverged-at-refusal`` says that it was the source that had the refusal."""
    return parse_payload(content.payload).get("originalEnvelopeKind") == _KINDS[True]
