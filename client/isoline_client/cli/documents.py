"""What values look like in JSON: names in camelCase, digests in hexadecimal, times in RFC 3339, and payloads and states as the bytes they are.

Absent members are left out where the input of ``append`` has them too, so that what ``read`` prints can be appended elsewhere; everywhere
else they are null. No printing here.
"""

import json
from datetime import datetime
from typing import Any, Final

from isoline_client.events import Event, EventContent
from isoline_client.values import Capabilities, Comparison, Diff, EventDiff, RegionStatus, RunInfo, State

_dumps: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_LINE_ENDS: Final = str.maketrans("\r\n", "  ")


class Verbatim(str):
    """JSON text that is written as it is: numbers and order of keys stay as the writer spelled them."""

    __slots__ = ()


def verbatim(data: bytes) -> Verbatim:
    """Stored JSON for a line of output. In JSON a raw line end can only be white space, so a blank says the same."""
    return Verbatim(data.decode().translate(_LINE_ENDS))


def spell(value: Any) -> str:
    """Write JSON on one line, with ``Verbatim`` texts as they are. Containers are ``dict`` and ``list``: it runs once an event."""
    kind = type(value)
    if kind is dict:
        return "{" + ",".join([f"{_dumps(name)}:{spell(member)}" for name, member in value.items()]) + "}"
    if kind is Verbatim:
        return str(value)
    if kind is list:
        return "[" + ",".join([spell(member) for member in value]) + "]"
    return _dumps(value)


def time_text(value: datetime) -> str:
    """A time to the microsecond, in UTC."""
    return f"{value.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def source_text(source: str, staleness_ms: int | None) -> str:
    """Where an answer was read; of a stale one, how old it may be."""
    if source != "stale":
        return source
    return "stale, age unknown" if staleness_ms is None else f"stale, at most {staleness_ms / 1000:.1f} s old"


def event_document(event: Event) -> dict[str, Any]:
    """An event that was read. The members up to ``causationId`` are what ``append`` takes; it ignores the others."""
    stamp: dict[str, Any] = {
        "eventId": event.event_id,
        "recordedAt": time_text(event.recorded_at),
        "region": event.region,
    }
    if event.engine:
        stamp |= {"engine": event.engine, "engineSeq": event.engine_seq}
    made = {"seq": event.seq, **content_document(event.content)}
    if event.causation_id:
        made["causationId"] = event.causation_id
    return made | {"stamp": stamp, "digest": None if event.digest is None else event.digest.hex()}


def content_document(content: EventContent) -> dict[str, Any]:
    made: dict[str, Any] = {"type": content.type}
    if content.node_id:
        made["nodeId"] = content.node_id
    made["payload"] = verbatim(content.payload_bytes)
    if content.masked:
        made["masked"] = list(content.masked)
    if content.schema_version != 1:
        made["schemaVersion"] = content.schema_version
    if content.engine_version:
        made["engineVersion"] = content.engine_version
    return made


def run_document(info: RunInfo) -> dict[str, Any]:
    fork = info.fork
    return {
        "runId": info.run_id,
        "workflowId": info.workflow_id,
        "tags": list(info.tags),
        "homeRegion": info.home_region,
        "createdAt": time_text(info.created_at),
        "head": {"seq": info.head.seq, "digest": info.head.digest.hex()},
        "terminalSeq": info.terminal_seq,
        "recordBytes": info.record_bytes,
        "era": info.era,
        "untranslatableSeq": info.untranslatable_seq,
        "fork": None
        if fork is None
        else {
            "sourceRunId": fork.source_run_id,
            "fromSeq": fork.from_seq,
            "mode": fork.mode,
            "prefixDigest": fork.prefix_digest.hex(),
            "overlay": verbatim(fork.overlay) if fork.overlay else None,
        },
        "lineage": [
            {"startSeq": part.start_seq, "endSeq": part.end_seq, "originRunId": part.origin_run_id}
            for part in info.lineage
        ],
        "source": info.source or None,
        "stalenessMs": info.staleness_ms,
    }


def state_document(run_id: str, state: State) -> dict[str, Any]:
    return {
        "runId": run_id,
        "atSeq": state.at_seq,
        "state": verbatim(state.canonical),
        "stateDigest": state.digest.hex(),
        "prefixDigest": state.prefix_digest.hex(),
        "source": state.source or None,
        "stalenessMs": state.staleness_ms,
        "foldedEvents": state.folded_events,
    }


def diff_document(diff: Diff, *, equal: bool) -> dict[str, Any]:
    return {
        "aRunId": diff.a_run_id,
        "bRunId": diff.b_run_id,
        "equal": equal,
        "divergedAtSeq": diff.diverged_at_seq,
        "sharedEvents": diff.shared_events,
        "truncated": diff.truncated,
        "eventDiffs": [_event_diff_document(each) for each in diff.event_diffs],
        "stateDiff": verbatim(diff.state_diff or b"{}"),
    }


def comparison_document(found: Comparison) -> dict[str, Any]:
    return {
        "aRunId": found.a_run_id,
        "bRunId": found.b_run_id,
        "fromSeq": found.from_seq,
        "equal": found.equal,
        "prefixEqual": found.prefix_equal,
        "rawSuffixEqual": found.raw_suffix_equal,
        "maskedEqual": found.masked_equal,
        "comparedEvents": found.compared_events,
        "matchedEvents": found.matched_events,
        "score": found.score,
        "firstDivergenceSeq": found.first_divergence_seq,
        "truncated": found.truncated,
    }


def _event_diff_document(diff: EventDiff) -> dict[str, Any]:
    return {
        "seq": diff.seq,
        "op": diff.op,
        "a": None if diff.a_event is None else content_document(diff.a_event),
        "b": None if diff.b_event is None else content_document(diff.b_event),
    }


def region_document(status: RegionStatus) -> dict[str, Any]:
    return {
        "region": status.region,
        "topology": status.topology or None,
        "leaderReachable": status.leader_reachable,
        "leaderRegion": status.leader_region or None,
        "localReachable": status.local_reachable,
        "localIsLeader": status.local_is_leader,
        "lagBytes": status.lag_bytes,
        "lagMs": status.lag_ms,
        "draining": status.draining,
    }


def capabilities_document(found: Capabilities) -> dict[str, Any]:
    return {
        "version": found.version,
        "api": found.api,
        "digestAlgorithm": found.digest_algorithm,
        "chainStart": found.chain_start.hex(),
        "forkModes": list(found.fork_modes),
        "era": found.era,
        "regions": list(found.regions),
        "limits": dict(sorted(found.limits.items())),
    }
