"""What must be true of the appends to one run, held against its final log: each acknowledged one stands once, where it was said, in an order
that respects real time; each unknown one once or not at all; and nothing else stands there.

Operations with one request id are one append: it was invoked with the first of them, and is acknowledged when one of them is.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from isoline_drill.checker_findings import Fault, Finding, Log
from isoline_drill.history import Append, Outcome


@dataclass(slots=True, kw_only=True)
class Request:
    """One append, however often it was asked for."""

    operations: list[Append] = field(default_factory=list)

    @property
    def markers(self) -> tuple[str, ...]:
        return self.operations[0].markers

    @property
    def acknowledged(self) -> list[Append]:
        return [operation for operation in self.operations if operation.outcome == "ok"]

    @property
    def outcome(self) -> Outcome:
        """Of the whole: acknowledged once is acknowledged; refused, only when every time."""
        outcomes = {operation.outcome for operation in self.operations}
        return "ok" if "ok" in outcomes else "unknown" if "unknown" in outcomes else "failed"

    @property
    def invoked_us(self) -> int:
        return min(operation.invoked_us for operation in self.operations)

    @property
    def acknowledged_us(self) -> float:
        """When it was known to stand; never, for one that is not acknowledged."""
        return min((each.completed_us for each in self.acknowledged if each.completed_us is not None), default=math.inf)


def requests_of(appends: Iterable[Append]) -> list[Request]:
    """Put the operations of each append together."""
    found: dict[tuple[str, str], Request] = {}
    for append in appends:
        found.setdefault((append.run, append.request_id), Request()).operations.append(append)
    return list(found.values())


def check_appends(run: str, requests: Sequence[Request], log: Log, own_from: int) -> Iterator[Finding]:
    """Judge one run, whose events before ``own_from`` are inherited."""
    yield from check_dense(run, log, "the final log")
    places: dict[str, list[int]] = {}
    for entry in log:
        places.setdefault(entry.marker, []).append(entry.seq)
    yield from _duplicates(run, requests, log)
    digests = {entry.seq: entry.digest for entry in log}
    for request in requests:
        yield from _lost(request, places)
        for append in request.acknowledged:
            yield from _where_said(append, places, digests)
        if request.outcome == "unknown":
            yield from _unknown(request, places)
    yield from _phantoms(run, requests, log, own_from)
    yield from _reordered(run, requests, places)


def check_dense(run: str, log: Log, what: str, first_seq: int = 0) -> Iterator[Finding]:
    """Seqs go up by one from ``first_seq``; the first place where they do not is the finding."""
    for expected, entry in enumerate(log, start=first_seq):
        if entry.seq != expected:
            yield Finding(fault=Fault.GAP, run=run, seq=expected, what=f"{what} goes on with seq {entry.seq}")
            return


def _duplicates(run: str, requests: Sequence[Request], log: Log) -> Iterator[Finding]:
    times = Counter(entry.marker for entry in log)
    twice = {marker for marker, count in times.items() if count > 1}
    if not twice:
        return
    owners = {marker: request for request in requests for marker in request.markers}
    for marker in twice:
        seqs = [entry.seq for entry in log if entry.marker == marker]
        shown = tuple(owners[marker].operations) if marker in owners else ()
        what = f"{marker} stands at {', '.join(map(str, seqs))}"
        yield Finding(fault=Fault.DUPLICATE, run=run, seq=seqs[1], what=what, operations=shown, events=len(seqs) - 1)


def _lost(request: Request, places: dict[str, list[int]]) -> Iterator[Finding]:
    gone = [place for place, marker in enumerate(request.markers) if marker not in places]
    if gone and request.acknowledged:
        what = f"{len(gone)} of {len(request.markers)} acknowledged events are not in the final log"
        first_seq = request.acknowledged[0].first_seq
        seq = None if first_seq is None else first_seq + gone[0]
        yield _about(request, Fault.LOST, seq, what, events=len(gone))


def _where_said(append: Append, places: dict[str, list[int]], digests: dict[int, str]) -> Iterator[Finding]:
    """Every acknowledgement of an append is held against the log, also those of repeats."""
    first_seq = -1 if append.first_seq is None else append.first_seq
    said = [(seq, places.get(marker, [])) for seq, marker in enumerate(append.markers, start=first_seq)]
    moved = [(seq, stands) for seq, stands in said if stands and seq not in stands]
    if moved:
        seq, stands = moved[0]
        what = f"acknowledged here, stands at {stands[0]}"
        yield Finding(
            fault=Fault.WRONG_PLACE, run=append.run, seq=seq, what=what, operations=(append,), events=len(moved)
        )
    elif all(stands for _, stands in said):
        yield from _said_places(append, said[-1][0], digests)


def _said_places(append: Append, last_seq: int, digests: dict[int, str]) -> Iterator[Finding]:
    """What else the answer says, of an append that stands where it says."""
    if append.last_seq != last_seq or append.expected_seq not in (None, append.first_seq):
        what = f"[{append.first_seq}, {append.last_seq}] for {len(append.markers)} events expected at {append.expected_seq}"
        yield Finding(fault=Fault.WRONG_PLACE, run=append.run, seq=append.first_seq, what=what, operations=(append,))
    elif digests.get(last_seq) != append.digest:
        what = f"acknowledged with {append.digest}, in the final log {digests.get(last_seq)}"
        yield Finding(fault=Fault.DIGEST_MISMATCH, run=append.run, seq=last_seq, what=what, operations=(append,))


def _unknown(request: Request, places: dict[str, list[int]]) -> Iterator[Finding]:
    """It may be there or not, but whole, in one piece, and where it was to be."""
    first = request.operations[0]
    stands = [places[marker][0] for marker in request.markers if marker in places]
    if not stands:
        return
    if len(stands) < len(request.markers) or stands != list(range(stands[0], stands[0] + len(stands))):
        what = f"of {len(request.markers)} events of one append these seqs are in the final log: {stands}"
        yield _about(request, Fault.TORN, stands[0], what)
    elif first.expected_seq not in (None, stands[0]):
        what = f"was to stand at {first.expected_seq} or nowhere"
        yield _about(request, Fault.WRONG_PLACE, stands[0], what)


def _phantoms(run: str, requests: Sequence[Request], log: Log, own_from: int) -> Iterator[Finding]:
    owners = {marker: request for request in requests for marker in request.markers}
    for entry in log:
        if entry.seq < own_from:
            continue
        owner = owners.get(entry.marker)
        if owner is None:
            what = f"nobody appended {entry.marker!r} to this run"
            yield Finding(fault=Fault.PHANTOM, run=run, seq=entry.seq, what=what)
        elif owner.outcome == "failed":
            what = f"{entry.marker!r} was refused with {owner.operations[-1].error}"
            yield _about(owner, Fault.PHANTOM, entry.seq, what)


def _reordered(run: str, requests: Sequence[Request], places: dict[str, list[int]]) -> Iterator[Finding]:
    """Go through the log from its end, with the append behind that was acknowledged first: nothing before it may have begun after that."""
    standing = [(places[request.markers[-1]][0], request) for request in requests if request.markers[-1] in places]
    earliest: Request | None = None
    for seq, request in sorted(standing, key=lambda each: each[0], reverse=True):
        if earliest is not None and earliest.acknowledged_us < request.invoked_us:
            what = f"stands before {earliest.markers[0]}, which was acknowledged before this began"
            shown = (*earliest.operations, *request.operations)
            yield Finding(fault=Fault.REORDER, run=run, seq=seq, what=what, operations=shown)
        if earliest is None or request.acknowledged_us < earliest.acknowledged_us:
            earliest = request


def _about(request: Request, fault: Fault, seq: int | None, what: str, events: int = 1) -> Finding:
    shown = tuple(request.operations)
    return Finding(fault=fault, run=shown[0].run, seq=seq, what=what, operations=shown, events=events)
