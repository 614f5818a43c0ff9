"""A service that keeps every promise, simulated: concurrent clients in three regions, lost answers, lagging replicas, forks. Its histories are
what the checker must be content with, and what faults are planted into.

A deed begins at its place in the list and takes effect, and is answered, some ticks later: so deeds overlap.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from hypothesis import strategies as st

from isoline_drill.checker_findings import FinalLogs
from isoline_drill.history import Append, Create, Entry, Fork, Operation, Prefix, Read, State, TailPage

REGIONS = ("eu", "us", "ap")
STEP_US = 10
Fate = Literal["ok", "landed", "lost", "refused"]


@dataclass(frozen=True, kw_only=True)
class Deed:
    """What a client begins. ``run`` and ``part`` are taken modulo what there is."""

    client: int = 0
    run: int = 0
    effect_after: int = 1
    answer_after: int = 1


@dataclass(frozen=True, kw_only=True)
class Make(Deed):
    pass


@dataclass(frozen=True, kw_only=True)
class Write(Deed):
    """``landed`` and ``lost`` are unknown to the client; ``refused`` is not written."""

    fate: Fate = "ok"
    many: int = 1
    expects: bool = False


@dataclass(frozen=True, kw_only=True)
class Again(Deed):
    """Repeat the ``part``-th request so far with its id."""

    part: int = 0


@dataclass(frozen=True, kw_only=True)
class See(Deed):
    """``lag`` events are not shown, unless the leader answers. ``beyond`` asks for more than there is."""

    how: Literal["read", "range", "prefix", "state", "beyond", "tail"] = "read"
    source: Literal["local", "leader", "stale"] = "leader"
    lag: int = 0
    part: int = 0


@dataclass(frozen=True, kw_only=True)
class Split(Deed):
    part: int = 0


@dataclass(frozen=True, kw_only=True)
class SeeNothing(Deed):
    """Ask for a run that is made later, or never."""


AnyDeed: TypeAlias = Make | Write | Again | See | Split | SeeNothing

_TIME = {"effect_after": st.integers(1, 60), "answer_after": st.integers(1, 60)}
_WHO = {"client": st.integers(0, 2), "run": st.integers(0, 9), **_TIME}
_PART = st.integers(0, 99)
DEEDS = st.lists(
    st.one_of(
        st.builds(Make, **_WHO),
        st.builds(
            Write,
            **_WHO,
            fate=st.sampled_from(["ok", "ok", "landed", "lost", "refused"]),
            many=st.integers(1, 4),
            expects=st.booleans(),
        ),
        st.builds(Again, **_WHO, part=_PART),
        st.builds(
            See,
            **_WHO,
            how=st.sampled_from(["read", "range", "prefix", "state", "beyond", "tail"]),
            source=st.sampled_from(["local", "leader", "stale"]),
            lag=st.integers(0, 5),
            part=_PART,
        ),
        st.builds(Split, **_WHO, part=_PART),
        st.builds(SeeNothing, **_WHO),
    ),
    max_size=60,
)


@dataclass
class Service:
    """The logs, and the history as it is told. Run 0 is there from the beginning, with one event."""

    logs: dict[str, list[Entry]] = field(default_factory=dict)
    operations: list[Any] = field(default_factory=list)
    receipts: dict[str, Append] = field(default_factory=dict)
    asked: list[Append] = field(default_factory=list)
    tails: dict[tuple[str, str], int] = field(default_factory=dict)
    markers: int = 0
    tail_pages: int = 0
    now_us: int = 0

    @property
    def final(self) -> FinalLogs:
        leader = {run: tuple(log) for run, log in self.logs.items()}
        return FinalLogs(leader=leader, regions={region: dict(leader) for region in REGIONS})

    def live(self, deeds: Sequence[AnyDeed]) -> None:
        """Begin the deeds, one a step, and let all of them end."""
        begun: list[tuple[int, int, Deed, Operation]] = []
        for place, deed in enumerate(deeds):
            self.now_us += STEP_US
            self._carry_out(begun, until_us=self.now_us)
            operation = self._begin(deed)
            if operation is not None:
                heapq.heappush(begun, (self.now_us + deed.effect_after, place, deed, operation))
        self._carry_out(begun, until_us=None)
        self.now_us += 200
        self.operations.sort(key=lambda operation: operation.invoked_us)

    def _carry_out(self, begun: list[tuple[int, int, Deed, Operation]], until_us: int | None) -> None:
        while begun and (until_us is None or begun[0][0] <= until_us):
            effect_us, _, deed, operation = heapq.heappop(begun)
            self.operations.append(self._effect(deed, operation, effect_us + deed.answer_after))

    def _run(self, number: int) -> str:
        return list(self.logs)[number % len(self.logs)]

    def _marker(self) -> str:
        self.markers += 1
        return f"m{self.markers}"

    def _begin(self, deed: Deed) -> Any:
        who = {
            "client": f"c{deed.client}",
            "region": REGIONS[deed.client],
            "op": len(self.operations) + 1000 * self.now_us,
            "invoked_us": self.now_us,
            "completed_us": None,
            "outcome": "unknown",
        }
        request = f"q{self.now_us}"
        if isinstance(deed, Make) or not self.logs:
            return Create(**who, request_id=request)
        run = self._run(deed.run)
        match deed:
            case Write():
                markers = tuple(self._marker() for _ in range(deed.many))
                expected = len(self.logs[run]) if deed.expects else None
                made = Append(**who, run=run, request_id=request, expected_seq=expected, markers=markers)
                self.asked.append(made)
                return made
            case Again():
                if not self.asked:
                    return None
                first = self.asked[deed.part % len(self.asked)]
                return changed(first, **who)
            case Split():
                return Fork(**who, request_id=request, source=run, from_seq=deed.part % (len(self.logs[run]) + 1))
            case SeeNothing():
                return Read(**who, run=f"run-{len(self.logs)}", freshness="latest", from_seq=0, until_seq=None)
            case See():
                return self._look(deed, who, run)
        raise AssertionError(deed)

    def _look(self, deed: See, who: dict[str, Any], run: str) -> Any:
        asked = {**who, "run": run, "freshness": "local" if deed.source == "local" else "latest"}
        length = len(self.logs[run])
        match deed.how:
            case "read":
                return Read(**asked, from_seq=0, until_seq=None)
            case "range":
                from_seq = deed.part % (length + 1)
                return Read(**asked, from_seq=from_seq, until_seq=length)
            case "beyond":
                return Read(**asked, from_seq=0, until_seq=length + 1 + deed.part)
            case "prefix":
                return Prefix(**asked, until_seq=None)
            case "state":
                return State(**asked, until_seq=None)
            case "tail":
                return TailPage(**asked, from_seq=self.tails.get((who["client"], run), 0))

    def _effect(self, deed: Any, operation: Any, answered_us: int) -> Operation:
        ok = {"completed_us": answered_us, "outcome": "ok"}
        match operation:
            case Create():
                run = f"run-{len(self.logs)}"
                self.logs[run] = []
                return changed(operation, **ok, run=run)
            case Fork():
                run = f"run-{len(self.logs)}"
                shared = self.logs[operation.source][: operation.from_seq]
                self.logs[run] = list(shared)
                return changed(operation, **ok, run=run, prefix_digest=shared[-1].digest if shared else "")
            case Append():
                return self._append(operation, deed.fate if isinstance(deed, Write) else "ok", answered_us)
            case _:
                return self._answer(deed, operation, ok)

    def _append(self, append: Append, fate: Fate, answered_us: int) -> Append:
        ended = {"completed_us": answered_us}
        if fate == "lost":
            return changed(append, **ended, outcome="unknown", error="OUTCOME_UNKNOWN")
        receipt = self.receipts.get(append.request_id)
        if receipt is None:
            if fate == "refused" or append.expected_seq not in (None, len(self.logs[append.run])):
                return changed(append, **ended, outcome="failed", error="SEQ_CONFLICT")
            receipt = self._written(append)
        else:
            receipt = changed(receipt, repeated=True)
        if fate == "landed":
            return changed(append, **ended, outcome="unknown", error="OUTCOME_UNKNOWN")
        told = {name: getattr(receipt, name) for name in ("first_seq", "last_seq", "digest", "repeated")}
        return changed(append, **ended, outcome="ok", **told)

    def _written(self, append: Append) -> Append:
        log = self.logs[append.run]
        first_seq = len(log)
        for marker in append.markers:
            write(log, marker)
        receipt = changed(append, first_seq=first_seq, last_seq=len(log) - 1, digest=log[-1].digest)
        self.receipts[append.request_id] = receipt
        return receipt

    def _answer(self, deed: Any, look: Any, ok: dict[str, Any]) -> Operation:
        whole = self.logs.get(look.run)
        if whole is None:
            return changed(look, **ok, source="leader", absent="run", absent_from=0)
        source = getattr(deed, "source", "leader")
        shown = whole[: max(0, len(whole) - deed.lag)] if source != "leader" and isinstance(deed, See) else whole
        match look:
            case Read():
                until = len(shown) if look.until_seq is None else look.until_seq
                if until > len(whole):
                    return changed(look, **ok, source="leader", absent="seq", absent_from=len(whole))
                return changed(look, **ok, source=source, events=tuple(whole[look.from_seq : until]))
            case TailPage():
                reached = self.tails.get((look.client, look.run), 0)
                events = tuple(shown[reached:])
                self.tails[look.client, look.run] = reached + len(events)
                self.tail_pages += 1  # pages are numbered as they come
                return changed(look, **ok, op=10**9 + self.tail_pages, source=source, from_seq=reached, events=events)
            case State():
                digest = shown[-1].digest if shown else ""
                state = {"seq": len(shown) - 1, "digest": digest, "state_digest": f"state of {digest}"}
                return changed(look, **ok, source=source, **state)
            case Prefix():
                return changed(look, **ok, source=source, seq=len(shown) - 1, digest=shown[-1].digest if shown else "")
        raise AssertionError(look)


def write(log: list[Entry], marker: str) -> None:
    """Add an event and its digest."""
    before = log[-1].digest if log else "start"
    log.append(Entry(len(log), marker, sha256(f"{before}{marker}".encode()).hexdigest()[:16]))


def changed(operation: Any, **fields: Any) -> Any:
    """The operation with other values."""
    return replace(operation, **fields)
