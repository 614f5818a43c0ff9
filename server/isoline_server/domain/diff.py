"""What two runs differ in: their events by seq and their states (OpenWOP RFC 0054; runs.md, diff). A pure function of the two logs.

Belongs here: when two events count as the same, what a difference is, what may be shown of a differing value. Not here: reading the logs,
knowing which prefix two runs share by lineage (start behind it), deciding who may compare what.

Two events count as the same when they have one type and one payload. A payload is compared as canonical JSON, without the top-level members
that no two runs share (``_EXCLUDED``): RFC 0054 pins that key, so ``nodeId`` and the versions outside the payload are not in it, and ids
inside the payload (``memoryId``, ``childRunId``) are. Nothing else is forgiven, unless the caller names a ``masked_from``: from that seq on
the masked forms are compared instead, for runs that were executed twice (guarantee G7); before it, nothing is masked.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from isoline_server.domain import limits
from isoline_server.domain.canonical import Json, JsonObject, canonical, digest_of
from isoline_server.domain.event import EventContent
from isoline_server.domain.payload import masked_form, parse_payload
from isoline_server.domain.state import RunState

Op: TypeAlias = Literal["added", "removed", "changed"]
Row: TypeAlias = tuple[int, EventContent]

_EXCLUDED: Final = frozenset(
    {"eventId", "runId", "causationId", "correlationId", "timestamp", "ts", "traceparent", "tracestate"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDiff:
    """One seq at which the logs differ: ``added`` stands only in b, ``removed`` only in a."""

    seq: int
    a: EventContent | None
    b: EventContent | None

    @property
    def op(self) -> Op:
        if self.a is None:
            return "added"
        return "removed" if self.b is None else "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDiff:
    """The differences in order of seq. ``truncated``: there are more than these, or a log is still open and only its prefix was compared."""

    events: tuple[EventDiff, ...] = ()
    truncated: bool = False

    @property
    def diverged_at_seq(self) -> int | None:
        return self.events[0].seq if self.events else None


class Differ:
    """A comparison under way, for callers that read page by page. It holds the differences found, never the logs."""

    def __init__(self, *, limit: int = limits.DIFF_EVENTS_MAX, masked_from: int | None = None) -> None:
        assert 0 < limit <= limits.DIFF_EVENTS_MAX
        self._limit = limit
        self._masked_from = masked_from
        self._found: list[EventDiff] = []
        self.full = False
        """One difference more than the limit was met: whatever comes cannot change the answer, so reading may stop."""

    def compare(self, seq: int, a: EventContent | None, b: EventContent | None) -> None:
        """Take both logs' event at ``seq``, in order of seq; None is for a log that has ended before."""
        assert a is not None or b is not None
        if a is not None and b is not None and self._same(seq, a, b):
            return
        if len(self._found) < self._limit:
            self._found.append(EventDiff(seq=seq, a=a, b=b))
        else:
            self.full = True

    def result(self, *, still_open: bool = False) -> LogDiff:
        """What was found so far. ``still_open``: a run has no terminal event yet, so a prefix was compared (OpenWOP runs.md)."""
        return LogDiff(events=tuple(self._found), truncated=self.full or still_open)

    def _same(self, seq: int, a: EventContent, b: EventContent) -> bool:
        if self._masked_from is not None and seq >= self._masked_from:
            return same_masked(a, b)
        return same_event(a, b)


def diff_logs(
    a: Iterable[Row],
    b: Iterable[Row],
    *,
    a_open: bool = False,
    b_open: bool = False,
    limit: int = limits.DIFF_EVENTS_MAX,
    masked_from: int | None = None,
) -> LogDiff:
    """Compare two logs, read in lock-step from one seq on; start both behind the prefix that they share by lineage.

    An open log has not said what follows: where it ends the comparison ends, and the rest of the other log is no difference.
    """
    differ = Differ(limit=limit, masked_from=masked_from)
    rows_a, rows_b = iter(a), iter(b)
    row_a, row_b = next(rows_a, None), next(rows_b, None)
    while (row_a is not None or row_b is not None) and not differ.full:
        if (row_a is None and a_open) or (row_b is None and b_open):
            break
        seq = min(row[0] for row in (row_a, row_b) if row is not None)
        event_a = event_b = None
        if row_a is not None and row_a[0] == seq:
            event_a, row_a = row_a[1], next(rows_a, None)
        if row_b is not None and row_b[0] == seq:
            event_b, row_b = row_b[1], next(rows_b, None)
        differ.compare(seq, event_a, event_b)
    return differ.result(still_open=a_open or b_open)


def same_event(a: EventContent, b: EventContent) -> bool:
    """Whether two events count as the same to the diff of RFC 0054. Equal bytes need no parsing."""
    if a.type != b.type:
        return False
    return a.payload == b.payload or _compared(a.payload) == _compared(b.payload)


def same_masked(a: EventContent, b: EventContent) -> bool:
    """Whether two events are the same but for their declared clock and entropy values, everything else in them included."""
    return a == b or (a.type == b.type and masked_form(a) == masked_form(b))


def _compared(payload: bytes) -> bytes:
    value = parse_payload(payload)
    return canonical({key: member for key, member in value.items() if key not in _EXCLUDED})


# --- states ------------------------------------------------------------------------------------------------------------------------

_VALUE_BYTES_MAX: Final = 1_024
"""A longer value is shown as its size and digest: a diff is for reading, and the state itself is one call away."""

_CREDENTIAL_LIKE: Final = re.compile(
    r"\bsk-|api[_-]?key|secret|bearer\s|password|passwd|private[ _-]?key|authorization|credential|"
    r"(?:access|refresh|auth|id|session|api)[_-]?token",
    re.IGNORECASE,
)


def state_diff(a: RunState, b: RunState) -> JsonObject:
    """What differs in status, variables and channels; ``{}`` when nothing does. At most ``DIFF_EVENTS_MAX`` names, else ``truncated``.

    Diffs are pasted into tickets, so nothing that looks like a credential is in one (run-diff-response.schema.json: redaction-safe).
    An entry with such a name is only counted, in ``redacted``; a value with such text in it is ``{"redacted": true}``. Any other value is
    ``{"value": …}`` or, when it is long, ``{"bytes": …, "sha256": …}``.
    """
    diff: JsonObject = {}
    if a.status != b.status:
        diff["status"] = {"a": a.status, "b": b.status}
    shown = _Shown()
    for part, left, right in (("variables", a.variables, b.variables), ("channels", a.channels, b.channels)):
        names = _name_diff(left, right, shown)
        if names:
            diff[part] = names
    if shown.redacted:
        diff["redacted"] = shown.redacted
    if shown.left < 0:
        diff["truncated"] = True
    return diff


@dataclass(slots=True)
class _Shown:
    """How many names may still be shown, and how many were not to be."""

    left: int = limits.DIFF_EVENTS_MAX
    redacted: int = 0


def _name_diff(a: Mapping[str, Json], b: Mapping[str, Json], shown: _Shown) -> JsonObject:
    groups: dict[Op, JsonObject] = {"added": {}, "removed": {}, "changed": {}}
    for name in sorted(a.keys() | b.keys()):
        op, entry = _entry(name, a, b)
        if op is None:
            continue
        if _CREDENTIAL_LIKE.search(name):
            shown.redacted += 1
            continue
        shown.left -= 1
        if shown.left < 0:
            break
        groups[op][name] = entry
    return {op: group for op, group in groups.items() if group}


def _entry(name: str, a: Mapping[str, Json], b: Mapping[str, Json]) -> tuple[Op | None, Json]:
    if name not in a:
        return "added", _show(canonical(b[name]), b[name])
    if name not in b:
        return "removed", _show(canonical(a[name]), a[name])
    bytes_a, bytes_b = canonical(a[name]), canonical(b[name])
    if bytes_a == bytes_b:
        return None, None
    return "changed", {"a": _show(bytes_a, a[name]), "b": _show(bytes_b, b[name])}


def _show(spelled: bytes, value: Json) -> Json:
    if _CREDENTIAL_LIKE.search(spelled.decode()):
        return {"redacted": True}
    if len(spelled) > _VALUE_BYTES_MAX:
        return {"bytes": len(spelled), "sha256": digest_of(spelled).hex()}
    return {"value": value}
