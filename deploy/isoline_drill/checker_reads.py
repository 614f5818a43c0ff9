"""What must be true of the answers about one run: each shows a prefix of the final log, whichever region gave it and however old it is; and
an answer that says it is fresh, or denies something, knows what had been acknowledged before it was asked for.

Time is swept once: what had been acknowledged when a read began is looked up, not searched for.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from isoline_drill.checker_appends import check_dense
from isoline_drill.checker_findings import Fault, Finding, Log
from isoline_drill.history import Append, Create, Entry, Fork, Look, Operation, Prefix, Read, State, TailPage

Change: TypeAlias = Create | Fork | Append
EMPTY: Final = -1
"""The seq of the last event of an empty log."""
_DAMAGE: Final = frozenset({"ChainBroken", "Damaged", "PrefixMismatch", "VerificationFailed"})


def check_reads(run: str, looks: Sequence[Look], changes: Iterable[Change], log: Log) -> Iterator[Finding]:
    """Judge every answer about one run. ``changes`` are those of this run."""
    answered = [look for look in looks if look.outcome == "ok"]
    changes = list(changes)
    known = _Known(changes)
    yield from _damage(run, [*looks, *changes])
    yield from _refused_as_absent(changes, known)
    for look in answered:
        if look.absent:
            yield from _absence(look, known)
        else:
            yield from _shown(look, log)
    behind = list(_backwards(run, answered))
    yield from behind
    yield from _short(answered, known, {_name(finding.operations[-1]) for finding in behind})
    yield from _tails(run, answered)
    yield from _states(run, answered)


def _damage(run: str, operations: Iterable[Operation]) -> Iterator[Finding]:
    for operation in operations:
        if operation.error_name in _DAMAGE:
            yield Finding(fault=Fault.DAMAGE, run=run, seq=None, what=operation.error, operations=(operation,))


def check_region(region: str, run: str, copy: Log, log: Log) -> Iterator[Finding]:
    """A region's final log of a run is the leader's."""
    where = f"the final log in {region}"
    yield from check_dense(run, copy, where)
    yield from _conflict(run, copy, log, where, ())
    ends, leader_ends = (each[-1].seq if each else EMPTY for each in (copy, log))
    if ends < leader_ends:
        what = f"{where} ends here, the leader's at seq {leader_ends}"
        yield Finding(fault=Fault.REGION_BEHIND, run=run, seq=ends, what=what, events=leader_ends - ends)


# -- what is shown is a prefix ---------------------------------------------------------------------------------------------------------------


def _shown(look: Look, log: Log) -> Iterator[Finding]:
    match look:
        case Read() | TailPage():
            yield from _conflict(look.run, look.events, log, "the read", (look,))
            yield from _complete(look)
        case Prefix() if look.seq is not None and look.seq > EMPTY:
            yield from _token(look, look.seq, log)


def _conflict(run: str, shown: Log, log: Log, where: str, by: tuple[Operation, ...]) -> Iterator[Finding]:
    """The first event that is not in the final log, or has another digest there."""
    for entry in shown:
        final = _at(log, entry.seq)
        if final == entry:
            continue
        if final is None or final.marker != entry.marker:
            there = "nothing" if final is None else final.marker
            what = f"{where} shows {entry.marker}, and the final log has {there}"
            yield Finding(fault=Fault.FORKED_SUFFIX, run=run, seq=entry.seq, what=what, operations=by)
        else:
            what = f"{where} has {entry.digest}, the final log {final.digest}"
            yield Finding(fault=Fault.DIGEST_MISMATCH, run=run, seq=entry.seq, what=what, operations=by)
        return


def _at(log: Log, seq: int) -> Entry | None:
    """The event of a seq; a log with gaps is searched, for then places are not seqs."""
    if 0 <= seq < len(log) and log[seq].seq == seq:
        return log[seq]
    place = bisect_left(log, seq, key=lambda entry: entry.seq)
    return log[place] if place < len(log) and log[place].seq == seq else None


def _complete(look: Read | TailPage) -> Iterator[Finding]:
    """No event is left out between the first and the last, nor before the end that was asked for."""
    for gap in check_dense(look.run, look.events, "the read", look.from_seq):
        yield Finding(fault=gap.fault, run=gap.run, seq=gap.seq, what=gap.what, operations=(look,))
        return
    end = look.until_seq if isinstance(look, Read) else None
    if end is not None and look.from_seq + len(look.events) != end:
        what = f"asked for up to {end}, the read has {len(look.events)} events from {look.from_seq}"
        seq = look.from_seq + len(look.events)
        yield Finding(fault=Fault.GAP, run=look.run, seq=seq, what=what, operations=(look,))


def _token(look: Prefix, seq: int, log: Log) -> Iterator[Finding]:
    final = _at(log, seq)
    if final is None:
        what = f"a token of {look.digest}, and the final log has nothing there"
        yield Finding(fault=Fault.FORKED_SUFFIX, run=look.run, seq=seq, what=what, operations=(look,))
    elif final.digest != look.digest:
        what = f"a token of {look.digest}, and the final log has {final.digest}"
        yield Finding(fault=Fault.DIGEST_MISMATCH, run=look.run, seq=seq, what=what, operations=(look,))


def _tails(run: str, answered: Sequence[Look]) -> Iterator[Finding]:
    """A client's tail of a run goes on where its last page ended."""
    last: dict[str, TailPage] = {}
    for page in sorted((look for look in answered if isinstance(look, TailPage)), key=lambda look: look.op):
        before = last.get(page.client)
        if before is not None and page.from_seq not in (0, before.from_seq + len(before.events)):
            what = f"the tail had reached {before.from_seq + len(before.events)}"
            yield Finding(fault=Fault.GAP, run=run, seq=page.from_seq, what=what, operations=(before, page))
        last[page.client] = page


def _states(run: str, answered: Sequence[Look]) -> Iterator[Finding]:
    """One seq, one state."""
    first: dict[int | None, State] = {}
    for state in (look for look in answered if isinstance(look, State) and not look.absent):
        other = first.setdefault(state.seq, state)
        if other.state_digest != state.state_digest:
            what = f"two states: {other.state_digest} and {state.state_digest}"
            yield Finding(fault=Fault.DIGEST_MISMATCH, run=run, seq=state.seq, what=what, operations=(other, state))


# -- real time -------------------------------------------------------------------------------------------------------------------------------


class _Known:
    """How far a run was acknowledged to reach, by time."""

    def __init__(self, changes: Iterable[Change]) -> None:
        acknowledged = [(_end_us(each), _reaches(each), each) for each in changes if each.outcome == "ok"]
        self._times: list[int] = []
        self._best: list[tuple[int, Change]] = []
        for time_us, seq, change in sorted(acknowledged, key=lambda each: each[0]):
            best = (seq, change) if not self._best or seq > self._best[-1][0] else self._best[-1]
            self._times.append(time_us)
            self._best.append(best)

    def before(self, time_us: int) -> tuple[int, Change] | None:
        """The furthest seq that had been acknowledged before then, and what says so; None when the run was not known to exist."""
        place = bisect_left(self._times, time_us)
        return self._best[place - 1] if place else None


def _name(operation: Operation) -> tuple[str, int]:
    return operation.client, operation.op


def _reaches(change: Change) -> int:
    match change:
        case Append():
            return EMPTY if change.last_seq is None else change.last_seq
        case Fork():
            return change.from_seq - 1
        case Create():
            return EMPTY


def _end_us(operation: Operation) -> int:
    assert operation.completed_us is not None, "what is ok has an end"
    return operation.completed_us


def _absence(look: Look, known: _Known) -> Iterator[Finding]:
    proof = known.before(look.invoked_us)
    if proof is None:
        return
    seq, change = proof
    denied = 0 if look.absent_from is None else look.absent_from
    if look.absent == "run" or seq >= denied:
        what = (
            "denies the run, which had been made" if look.absent == "run" else f"denies seq {denied}, had been at {seq}"
        )
        yield Finding(fault=Fault.STALE_ABSENCE, run=look.run, seq=denied, what=what, operations=(change, look))


def _refused_as_absent(changes: Iterable[Change], known: _Known) -> Iterator[Finding]:
    """An append that is refused because there is no such run denies it as a read does."""
    for change in changes:
        if isinstance(change, Append) and change.error_name == "RunNotFound":
            proof = known.before(change.invoked_us)
            if proof is not None:
                what = "denies the run, which had been made"
                shown = (proof[1], change)
                yield Finding(fault=Fault.STALE_ABSENCE, run=change.run, seq=0, what=what, operations=shown)


def _reached(look: Look) -> int | None:
    """The last seq of an answer that says it shows the whole log as the leader has it; None of any other."""
    if look.freshness != "latest" or look.source == "stale" or look.absent:
        return None
    match look:
        case Read() if look.until_seq is None:
            return look.from_seq + len(look.events) - 1
        case Prefix() if look.until_seq is None:
            return look.seq
    return None


def _short(answered: Sequence[Look], known: _Known, told: set[tuple[str, int]]) -> Iterator[Finding]:
    for look in answered:
        reached, proof = _reached(look), known.before(look.invoked_us)
        if reached is None or proof is None or _name(look) in told:
            continue
        seq, change = proof
        if reached < seq:
            what = f"ends here, though seq {seq} had been acknowledged before it began"
            yield Finding(fault=Fault.STALE_READ, run=look.run, seq=reached, what=what, operations=(change, look))


def _backwards(run: str, answered: Sequence[Look]) -> Iterator[Finding]:
    """Sweep the beginnings of each client's fresh answers beside their ends."""
    fresh: dict[str, list[tuple[Look, int]]] = {}
    for look in answered:
        reached = _reached(look)
        if reached is not None:
            fresh.setdefault(look.client, []).append((look, reached))
    for answers in fresh.values():
        yield from _backwards_of_one(run, answers)


def _backwards_of_one(run: str, answers: Sequence[tuple[Look, int]]) -> Iterator[Finding]:
    ended = sorted(answers, key=lambda answer: _end_us(answer[0]))
    best: tuple[Look, int] | None = None
    place = 0
    for look, reached in sorted(answers, key=lambda answer: answer[0].invoked_us):
        while place < len(ended) and _end_us(ended[place][0]) < look.invoked_us:
            if best is None or ended[place][1] > best[1]:
                best = ended[place]
            place += 1
        if best is not None and reached < best[1]:
            what = f"a fresh token, and the same client had been at {best[1]}"
            yield Finding(fault=Fault.BACKWARDS, run=run, seq=reached, what=what, operations=(best[0], look))
