"""A replay beside its source: which of its events differ, and where (OpenWOP v2 replay.md, Divergence).

Pure: an alignment is a fold of the source's events from ``from_seq`` on and of the fork's own events, so any server that reads the two logs
comes to the same. Belongs here: what counts as the same place, what is passed over, what is reported. Not here: reading logs, writing events.

The two logs are walked side by side. An event of the fork is looked for at the cursor in the source; where it is not, a bounded stretch ahead
says whether the source has it later (then what stands between is missing, until it turns up) or not at all (then it is extra). An event
belongs to its node's execution, so a search for one never crosses the start or the end of that node. A stretch of differing events is
reported once, at its first. What only says that an execution was interrupted or went on, and what came from outside, may be absent from
a replay; a node that was started again because its attempt was cut may have been started any number of times.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from isoline_server.domain import limits
from isoline_server.domain.diff import same_masked
from isoline_server.domain.errors import ReplayDivergedAtRefusal
from isoline_server.domain.event import TERMINAL_TYPES, EventContent

Kind: TypeAlias = Literal["output", "missing", "extra", "type-mismatch"]

DIVERGED: Final = "replay.diverged"
DIVERGED_AT_REFUSAL: Final = "replay.diverged-at-refusal"

_STARTED: Final = "node.started"
_REFUSAL: Final = "envelope.refusal"
_COMPLETED: Final = "run.completed"
_CANCEL_REQUESTED: Final = "example.cancel-requested"
_CLOSING: Final = frozenset({"node.completed", "node.failed", "node.cancelled", "node.skipped", "node.retried"})
"""Behind one of these a node's attempt is over: the next ``node.started`` of the node is another one."""

_STEERING: Final = frozenset({"run.paused", "run.resumed", "run.resume-started"})
"""Made by people while a run goes on, and no matter of its code: in a fork they are never a difference."""

_NOT_COMPARED: Final = _STEERING | {DIVERGED, DIVERGED_AT_REFUSAL}

_PASSED_OVER: Final = _NOT_COMPARED | {
    "interrupt.requested",
    "interrupt.resolved",
    "node.suspended",
    "node.resumed",
    "approval.requested",
    "approval.received",
    "approval.granted",
    "approval.rejected",
    "approval.overridden",
    "clarification.requested",
    "clarification.resolved",
    _CANCEL_REQUESTED,
}
"""A source may hold these and its replay not: an interrupt is answered from the log at once, and nobody pauses a replay as its source was."""

_ASIDES_MAX: Final = 64
"""Events of one kind about one node that are kept aside. More would be a loop over interrupts, of which the newest will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEvent:
    """An event of the source. ``event_id`` is the id as readers see it."""

    seq: int
    event_id: str
    content: EventContent


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first of a stretch of differing events. ``original`` stands at this place in the source; None behind its end.

    ``point`` and ``node_id`` are of the differing event: the source's where the fork lacks it, else the fork's.
    """

    kind: Kind
    at_seq: int
    original: SourceEvent | None
    point: str
    node_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalDifference:
    """One of the two has a refusal where the other has a valid envelope: the replay must fail."""

    at_seq: int
    original: SourceEvent
    node_id: str
    source_refused: bool

    def failed(self, run_id: str, last_seq: int) -> ReplayDivergedAtRefusal:
        """What the caller is told: the replay ended at ``last_seq``, behind the event that says why."""
        return ReplayDivergedAtRefusal(run_id, last_seq - 1, self.node_id, self.source_refused)


Verdict: TypeAlias = Difference | RefusalDifference | None


@dataclass(eq=False, slots=True)
class _Item:
    """An event of the source that lies ahead. ``optional``: a start beside others of one execution."""

    event: SourceEvent
    place: int
    optional: bool = False

    @property
    def content(self) -> EventContent:
        return self.event.content


class Alignment:
    """The fold. ``feed`` the source's events in order while ``hungry``, then ``step`` with each event of the fork in order."""

    def __init__(self, from_seq: int) -> None:
        self._next_source_seq = from_seq
        self._items: dict[int, _Item] = {}
        self._cursor = 0
        self._end = 0
        self._bytes_ahead = 0
        self._places: dict[Hashable, deque[int]] = {}
        self._moved: dict[Hashable, deque[_Item]] = {}
        self._moved_order: deque[_Item] = deque()
        self._asides: dict[Hashable, deque[_Item]] = {}
        self._source_open: dict[str, _Item] = {}
        self._own_open: set[str] = set()
        self._source_ended = False
        self._source_read_out = False
        self._diverging = False
        self._reported = False
        self._over = False
        self.ahead = False
        """The fork has gone beyond an open source: nothing more can be said until the source has grown, and this fold is of no more use."""

    # -- the source ------------------------------------------------------------------------------------------------------------------

    @property
    def hungry(self) -> bool:
        """Whether more of the source is wanted before the next step."""
        if self._source_ended or self._source_read_out or self._over:
            return False
        return (
            self._end - self._cursor < limits.REPLAY_LOOK_AHEAD_EVENTS
            and self._bytes_ahead < limits.REPLAY_LOOK_AHEAD_BYTES
        )

    @property
    def next_source_seq(self) -> int:
        """The seq of the source that is to be fed next."""
        return self._next_source_seq

    @property
    def starving(self) -> bool:
        """Whether nothing of an open source is left to compare with, though it was read out."""
        return self._source_read_out and self._cursor == self._end and not (self._source_ended or self._over)

    def read_out(self) -> None:
        """The source holds no more at the moment."""
        self._source_read_out = True

    def feed(self, event: SourceEvent) -> None:
        """Take the source's next event. What stands behind its terminal event is not compared."""
        self._next_source_seq = event.seq + 1
        self._source_read_out = False
        if self._source_ended:
            return
        content = event.content
        item = _Item(event, self._end)
        if content.type in _PASSED_OVER:
            self._asides.setdefault(_key(content), deque(maxlen=_ASIDES_MAX)).append(item)
            return
        self._note_start(item)
        self._items[item.place] = item
        self._end += 1
        self._bytes_ahead += len(content.payload)
        for key in _keys(content):
            self._places.setdefault(key, deque()).append(item.place)
        self._source_ended = content.type in TERMINAL_TYPES

    def _note_start(self, item: _Item) -> None:
        """A start that follows another of the same node, with no end between, belongs to the same execution: any one of them will do."""
        node_id = item.content.node_id
        if item.content.type == _STARTED:
            before = self._source_open.get(node_id)
            if before is not None:
                before.optional = item.optional = True
            self._source_open[node_id] = item
        elif item.content.type in _CLOSING:
            self._source_open.pop(node_id, None)

    # -- the fork --------------------------------------------------------------------------------------------------------------------

    def step(self, content: EventContent) -> Verdict:
        """Take the fork's next event; say what differs when it is the first of a stretch that does."""
        if self._over or self.ahead or content.type in _NOT_COMPARED:
            return None
        if content.type in _PASSED_OVER:
            return self._step_aside(content)
        again = content.node_id in self._own_open
        self._note_own(content)
        if self._matches_at_cursor(content):
            self._diverging = False
            return None
        if self._is_ahead():
            return None
        verdict = self._search(content, started_again=again and content.type == _STARTED)
        self._over = self._over or content.type in TERMINAL_TYPES
        return verdict

    def _note_own(self, content: EventContent) -> None:
        if content.type == _STARTED:
            self._own_open.add(content.node_id)
        elif content.type in _CLOSING:
            self._own_open.discard(content.node_id)

    def _step_aside(self, content: EventContent) -> Verdict:
        """An event that a replay need not make. When it makes one, the source should have had it too."""
        asides = self._asides.get(_key(content), deque())
        if any(same_masked(aside.content, content) for aside in asides):
            while not same_masked(asides.popleft().content, content):
                pass
            return None
        if content.type == _CANCEL_REQUESTED:
            self._over = True  # somebody stops the replay: it has no end of its own to compare
            return None
        if self._is_ahead():
            return None
        return (
            self._differs("output", content, asides[-1])
            if asides
            else self._differs("extra", content, self._first_required())
        )

    def _is_ahead(self) -> bool:
        """The source is open, and the fork has come to its end."""
        self.ahead = self.ahead or (self._cursor == self._end and not self._source_ended)
        return self.ahead

    def _matches_at_cursor(self, content: EventContent) -> bool:
        for place in range(self._cursor, self._end):
            item = self._items[place]
            if _key(item.content) == _key(content) and same_masked(item.content, content):
                self._pass_to(place + 1)
                if content.type in TERMINAL_TYPES:
                    self._over = True
                return True
            if not item.optional:
                break
        return False

    def _search(self, content: EventContent, *, started_again: bool) -> Verdict:
        """The event is not the one at the cursor: find out why."""
        moved = self._moved.get(_moved_key(content))
        if moved and same_masked(moved[0].content, content):
            self._take_moved(content)
            return None
        first = self._first_required()
        if first is not None and content.node_id and _key(first.content) == _key(content):
            return self._output(content, first.place)
        if started_again:
            return None
        if moved:
            return self._differs("output", content, self._take_moved(content))
        boundary = self._boundary(content.node_id, of_start=content.type == _STARTED)
        in_execution = boundary is not None and boundary.content.type != _STARTED
        if content.type == _STARTED and in_execution:
            return None  # the source was inside this execution at the boundary of the fork; the replay begins it anew
        place = self._ahead(content, boundary)
        if place is not None:
            return self._jump(content, place)
        if content.type == _REFUSAL and boundary is not None and in_execution:
            return self._refusal(boundary, source_refused=False)
        if content.type in _CLOSING and boundary is not None and in_execution:
            return self._mismatch(content, boundary)
        if content.type in TERMINAL_TYPES:
            return self._differs("type-mismatch", content, first)
        if first is not None and not content.node_id and _key(first.content) == _key(content):
            return self._output(content, first.place)
        return self._differs("extra", content, first)

    def _first_required(self) -> _Item | None:
        """What the fork should have come to: the first event that no other can stand for."""
        ahead = (self._items[place] for place in range(self._cursor, self._end))
        return next((item for item in ahead if not item.optional), None)

    def _boundary(self, node_id: str, *, of_start: bool) -> _Item | None:
        """The source's next start or end of the node's execution. Other starts of an execution that the fork is in are no boundary to it."""
        places = self._places.get(_boundary_key(node_id), ()) if node_id else ()
        return next((item for item in map(self._items.__getitem__, places) if of_start or not item.optional), None)

    def _ahead(self, content: EventContent, boundary: _Item | None) -> int | None:
        """Where the source has the event later, within the same execution, or, for a start and for the run's own events, anywhere ahead."""
        as_it_is = not content.node_id and content.type not in TERMINAL_TYPES
        places = self._places.get(content if as_it_is else _key(content))
        if not places:
            return None
        within = content.type == _STARTED or not content.node_id
        return places[0] if within or (boundary is not None and places[0] <= boundary.place) else None

    def _jump(self, content: EventContent, place: int) -> Verdict:
        """The source has the event later: what stands between is missing, or comes later in the fork."""
        item = self._items[place]
        skipped = self._pass_to(place)
        self._pass_to(place + 1)
        refusal = _refusal_among(skipped, content.node_id)
        if refusal is not None:
            return self._refusal(refusal, source_refused=True)
        self._keep_moved(skipped)
        if skipped:
            return self._differs("missing", skipped[0].content, skipped[0])
        return None if same_masked(item.content, content) else self._changed(content, item)

    def _mismatch(self, content: EventContent, boundary: _Item) -> Verdict:
        """The node's execution ended otherwise than in the source."""
        skipped = self._pass_to(boundary.place)
        self._pass_to(boundary.place + 1)
        refusal = _refusal_among(skipped, content.node_id)
        if refusal is not None:
            return self._refusal(refusal, source_refused=True)
        self._keep_moved([item for item in skipped if item.content.node_id != content.node_id])
        return self._differs("type-mismatch", content, boundary)

    def _output(self, content: EventContent, place: int) -> Verdict:
        """The same event with another payload."""
        item = self._items[place]
        self._pass_to(place + 1)
        if not content.node_id and content.type not in TERMINAL_TYPES:
            self._keep_moved([item])  # events about no node have no identity but their payload: this one may still come
        return self._changed(content, item)

    def _changed(self, content: EventContent, item: _Item) -> Difference | None:
        if content.type == _COMPLETED and self._reported:
            return None  # a run's outputs are made of its nodes', and that these differ was reported
        return self._differs("output", content, item)

    def _refusal(self, original: _Item, *, source_refused: bool) -> RefusalDifference:
        self._over = True
        return RefusalDifference(
            at_seq=original.event.seq,
            original=original.event,
            node_id=original.content.node_id,
            source_refused=source_refused,
        )

    def _differs(self, kind: Kind, differing: EventContent, item: _Item | None) -> Difference | None:
        """Report, unless the stretch was reported already."""
        if self._diverging:
            return None
        self._diverging = self._reported = True
        original = None if item is None else item.event
        return Difference(
            kind=kind,
            at_seq=self._next_source_seq if original is None else original.seq,
            original=original,
            point=differing.type,
            node_id=differing.node_id,
        )

    # -- the stretch ahead, and what was left behind -----------------------------------------------------------------------------------

    def _pass_to(self, place: int) -> list[_Item]:
        """Move the cursor; return the events it passed that the fork should have had."""
        passed: list[_Item] = []
        for each in range(self._cursor, place):
            item = self._items.pop(each)
            self._bytes_ahead -= len(item.content.payload)
            for key in _keys(item.content):
                places = self._places[key]
                places.popleft()
                if not places:
                    del self._places[key]
            if not item.optional:
                passed.append(item)
        self._cursor = max(self._cursor, place)
        return passed

    def _keep_moved(self, items: list[_Item]) -> None:
        for item in items:
            self._moved.setdefault(_moved_key(item.content), deque()).append(item)
            self._moved_order.append(item)
        while len(self._moved_order) > limits.REPLAY_LOOK_AHEAD_EVENTS:
            oldest = self._moved_order.popleft()
            kept = self._moved.get(_moved_key(oldest.content))
            if kept and kept[0] is oldest:
                self._take_moved(oldest.content)

    def _take_moved(self, content: EventContent) -> _Item:
        key = _moved_key(content)
        kept = self._moved[key]
        item = kept.popleft()
        if not kept:
            del self._moved[key]
        return item


def _key(content: EventContent) -> tuple[str, str]:
    """What makes two events the same event, whatever they say."""
    return (content.type, content.node_id)


def _moved_key(content: EventContent) -> Hashable:
    return _key(content) if content.node_id else content


def _boundary_key(node_id: str) -> Hashable:
    return ("", node_id)


def _keys(content: EventContent) -> tuple[Hashable, ...]:
    """By what an event is found ahead: its identity; about no node, also as it is; a start or an end, also as its node's boundary."""
    if not content.node_id:
        return (_key(content), content)
    if content.type == _STARTED or content.type in _CLOSING:
        return (_key(content), _boundary_key(content.node_id))
    return (_key(content),)


def _refusal_among(items: list[_Item], node_id: str) -> _Item | None:
    return next(
        (item for item in items if node_id and item.content.type == _REFUSAL and item.content.node_id == node_id), None
    )
