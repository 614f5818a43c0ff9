"""The state of a run as a pure left fold of its events (guarantee G4): status, variables, channels.

Belongs here: what each event type does to the state, and the bytes of a state. Not here: reading events, keeping states, deciding who may
append what. The fold knows no clock, no region and no run id, so equal prefixes have byte-equal states wherever they are folded.

Three rules make it total, whatever a tenant appended:

1. A type that is not in ``_STEPS`` changes nothing (OpenWOP v2 events.md: fold what is understood, ignore the rest).
2. Members are read one by one; one of the wrong shape counts as absent. An event without a member that its step needs changes nothing.
   Members that the step does not read are not looked at: a ``run.completed`` without ``outputs`` still ends the run.
3. The first terminal event decides. Behind it the status stands still, while variables and channels go on.

What the specification leaves open, and the choice made here:

* Variables are the inputs of the first ``run.started``, changed by ``variable.changed``; without ``next`` the variable goes. A node's
  outputs become variables only when the engine says so with ``variable.changed``: nothing here can tell which of them shall survive.
* A node waits from the event that suspends it until one that resolves it, resumes it or ends it; nodes are told apart by ``nodeId``. Of
  several waiting nodes the one that began last names the status. ``approval.received`` is a vote, and ends no wait.
* ``run.resumed`` and ``run.resume-started`` lift a pause and nothing else, so a run that waited before the pause waits again.
* No registered event says that a cancel was asked for, so no fold gives ``cancelling``.
* A channel folds with the reducer that each write names (OpenWOP channels-and-reducers.md). ``maxSize`` and ``ttlMs`` are in the workflow
  definition, which the log does not hold: they are not applied. An unknown reducer replaces.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Final, Literal, TypeAlias, cast, get_args

from isoline_server.domain import limits
from isoline_server.domain.canonical import Json, JsonObject, canonical, digest_of
from isoline_server.domain.errors import Damaged, StateTooLarge
from isoline_server.domain.event import EventContent
from isoline_server.domain.payload import parse_payload

Phase: TypeAlias = Literal["pending", "running", "completed", "failed", "cancelled"]
Wait: TypeAlias = Literal["waiting-approval", "waiting-input", "waiting-external"]
Status: TypeAlias = Phase | Wait | Literal["paused", "cancelling"]
"""The status words of OpenWOP v2 runs.md."""

FORMAT: Final = 1
"""Version of ``to_canonical``'s bytes. A new version gets a new number, and the old ones stay readable."""

_SAFE: Final = limits.SAFE_INTEGER_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The fold of ``[0, at_seq)``. Nobody changes what it holds, so states may share parts.

    ``status``, ``variables`` and ``channels`` are what others see. The rest is what the fold needs in order to go on from here.
    """

    at_seq: int = 0
    phase: Phase = "pending"
    paused: bool = False
    waits: tuple[tuple[str, Wait], ...] = ()
    """Nodes that hold an open interrupt, in the order in which they began to wait."""
    variables: Mapping[str, Json] = field(default_factory=dict)
    channels: Mapping[str, Json] = field(default_factory=dict)

    @property
    def status(self) -> Status:
        """The status word. An end beats a pause, a pause beats a wait: only a resume or an end leaves ``paused`` (runs.md)."""
        if self.phase not in ("pending", "running"):
            return self.phase
        if self.paused:
            return "paused"
        return self.waits[-1][1] if self.waits else self.phase

    @property
    def waiting_node(self) -> str | None:
        """The node whose interrupt names the status: ``currentNodeId`` of the snapshot (run-snapshot.schema.json)."""
        return self.waits[-1][0] if self.waits else None


EMPTY_STATE: Final = RunState()
"""The state of the empty prefix."""


def apply(state: RunState, content: EventContent) -> RunState:
    """The state one event later. For more than one event use ``fold`` or ``Fold``: each call copies the tables of names."""
    return fold(state, (content,))


def fold(state: RunState, contents: Iterable[EventContent]) -> RunState:
    """The state behind ``contents``. Wherever a log is cut, folding the parts in turn gives the same state, also across ``to_canonical``."""
    running = Fold(state)
    for content in contents:
        running.add(content)
    return running.result()


def unpaused(state: RunState) -> RunState:
    """The same state with a pause lifted: a replay folds ``run.paused`` and ``run.resumed`` as no-ops (runs.md, pause and resume)."""
    return replace(state, paused=False)


def observable(state: RunState) -> JsonObject:
    """What everybody sees, and what must be equal everywhere: status, variables, channels."""
    return {"channels": dict(state.channels), "status": state.status, "variables": dict(state.variables)}


def observable_bytes(state: RunState) -> bytes:
    """``observable`` as canonical JSON. Raise ``StateTooLarge`` when it is over the limit: no reader gets a part of it."""
    data = canonical(observable(state))
    if len(data) > limits.STATE_BYTES_MAX:
        raise StateTooLarge(len(data), limits.STATE_BYTES_MAX)
    return data


def state_digest(state: RunState) -> bytes:
    """SHA-256 of ``observable_bytes``."""
    return digest_of(observable_bytes(state))


def to_canonical(state: RunState) -> bytes:
    """The whole state as a snapshot: canonical JSON, ``FORMAT`` 1. ``from_canonical`` reads it."""
    return canonical(
        {
            "at_seq": state.at_seq,
            "channels": dict(state.channels),
            "format": FORMAT,
            "paused": state.paused,
            "phase": state.phase,
            "variables": dict(state.variables),
            "waits": [[node, wait] for node, wait in state.waits],
        }
    )


def from_canonical(snapshot: bytes) -> RunState:
    """The state in a snapshot; raise ``Damaged`` when it is none of ours."""
    try:
        stored = _SNAPSHOT_DECODER.decode(snapshot.decode())
    except (ValueError, RecursionError) as error:
        raise Damaged(f"a stored state is not JSON ({error})") from None
    if not _is_snapshot(stored):
        raise Damaged(f"a stored state has not the shape of format {FORMAT}")
    return RunState(
        at_seq=stored["at_seq"],
        phase=stored["phase"],
        paused=stored["paused"],
        waits=tuple((node, wait) for node, wait in stored["waits"]),
        variables=stored["variables"],
        channels=stored["channels"],
    )


def _is_snapshot(stored: object) -> bool:
    if not isinstance(stored, dict):
        return False
    version, at_seq, waits = stored.get("format"), stored.get("at_seq"), stored.get("waits")
    return (
        type(version) is int
        and version == FORMAT
        and type(at_seq) is int
        and at_seq >= 0
        and stored.get("phase") in get_args(Phase)
        and type(stored.get("paused")) is bool
        and isinstance(stored.get("variables"), dict)
        and isinstance(stored.get("channels"), dict)
        and isinstance(waits, list)
        and all(_is_wait(pair) for pair in waits)
    )


def _is_wait(pair: object) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and pair[1] in get_args(Wait)


def _whole_number(digits: str) -> int | float:
    """RFC 8785 writes the double 1e20 as an integer; read back, it must be that double again."""
    return int(digits) if len(digits) <= 17 and -_SAFE <= int(digits) <= _SAFE else float(digits)


_SNAPSHOT_DECODER: Final = json.JSONDecoder(parse_int=_whole_number)


class Fold:
    """A fold under way, for many events. ``add`` changes it in place; ``result`` gives a state that later ``add`` calls leave alone."""

    def __init__(self, state: RunState = EMPTY_STATE) -> None:
        self._draft = _Draft(state)

    def heeds(self, event_type: str) -> bool:
        """Whether an event of this type may change the state as it is now. One that may not can be passed over unread."""
        step = _STEPS.get(event_type)
        return step is not None and (step is not _end_wait or bool(self._draft.waits))

    def pass_over(self) -> None:
        """Take the next event, of a type that this fold does not heed."""
        self._draft.at_seq += 1

    def add(self, content: EventContent) -> None:
        """Take the next event. Raise ``Damaged`` when its payload is unreadable, ``StateTooLarge`` when the state outgrows its limit."""
        draft = self._draft
        step = _STEPS.get(content.type)
        if step is not None:
            try:
                step(draft, content)
            except Damaged as error:
                raise Damaged(f"seq {draft.at_seq}: {error}") from None
            if draft.read_bytes > _MEASURE_AFTER_BYTES:
                self._measure()
        draft.at_seq += 1

    def result(self) -> RunState:
        """The state of what was added so far."""
        draft = self._draft
        return RunState(
            at_seq=draft.at_seq,
            phase=draft.phase,
            paused=draft.paused,
            waits=tuple(draft.waits.items()),
            variables=dict(draft.variables),
            channels={name: _settled(channel) for name, channel in draft.channels.items()},
        )

    def _measure(self) -> None:
        """Keep memory bounded: a tenant could append without end to one channel. Measured only after as many bytes were read again."""
        size = len(to_canonical(self.result()))
        if size > limits.STATE_BYTES_MAX:
            raise StateTooLarge(size, limits.STATE_BYTES_MAX)
        self._draft.read_bytes = size


_MEASURE_AFTER_BYTES: Final = 2 * limits.STATE_BYTES_MAX


class _Draft:
    """A state under construction. It owns its tables, and every list and object that it changes."""

    __slots__ = ("at_seq", "channels", "paused", "phase", "read_bytes", "variables", "waits")

    def __init__(self, state: RunState) -> None:
        self.at_seq = state.at_seq
        self.phase: Phase = state.phase
        self.paused = state.paused
        self.waits: dict[str, Wait] = dict(state.waits)
        self.variables: dict[str, Json] = dict(state.variables)
        self.channels: dict[str, _Channel] = dict(state.channels)
        self.read_bytes = 0

    def read(self, content: EventContent) -> JsonObject:
        self.read_bytes += len(content.payload)
        return parse_payload(content.payload)

    def ended(self) -> bool:
        return self.phase not in ("pending", "running")


# --- steps: one for each event type that changes the state -------------------------------------------------------------------------


def _start(draft: _Draft, content: EventContent) -> None:
    if draft.phase == "pending":
        draft.phase = "running"
        inputs = draft.read(content).get("inputs")
        if isinstance(inputs, dict):
            draft.variables.update(inputs)


def _pause(draft: _Draft, _content: EventContent) -> None:
    draft.paused = not draft.ended()


def _resume(draft: _Draft, _content: EventContent) -> None:
    draft.paused = False


def _end(draft: _Draft, content: EventContent) -> None:
    """A terminal event closes every interrupt (OpenWOP v2 interrupt.md: a token dies with its run)."""
    if not draft.ended():
        draft.phase = cast("Phase", content.type.removeprefix("run."))
        draft.paused = False
        draft.waits.clear()


def _begin_wait(draft: _Draft, content: EventContent) -> None:
    """Up to three events tell of one interrupt (the request, its older twin, the suspended node), some without its kind."""
    if draft.ended():
        return
    payload = draft.read(content)
    node, kind = _node_of(payload, content), payload.get("kind")
    if not node:
        return
    if isinstance(kind, str):
        draft.waits[node] = _wait_for(kind)
    else:
        draft.waits.setdefault(
            node, "waiting-input" if content.type == "clarification.requested" else "waiting-approval"
        )


def _end_wait(draft: _Draft, content: EventContent) -> None:
    if draft.waits:
        draft.waits.pop(_node_of(draft.read(content), content), None)


def _node_of(payload: JsonObject, content: EventContent) -> str:
    node = payload.get("nodeId")
    return node if isinstance(node, str) and node else content.node_id


def _wait_for(kind: str) -> Wait:
    """The wait that an interrupt kind asks for. Only ``external-event`` and ``clarification`` are fixed by OpenWOP v2 interrupt.md."""
    if kind == "external-event":
        return "waiting-external"
    if kind in ("clarification", "credential") or kind.startswith("conversation."):
        return "waiting-input"
    return "waiting-approval"


def _change_variable(draft: _Draft, content: EventContent) -> None:
    payload = draft.read(content)
    name = payload.get("name")
    if not isinstance(name, str) or not name:
        return
    if "next" in payload:
        draft.variables[name] = payload["next"]
    else:
        draft.variables.pop(name, None)


def _write_channel(draft: _Draft, content: EventContent) -> None:
    payload = draft.read(content)
    name, reducer = payload.get("channel"), payload.get("reducer")
    if not isinstance(name, str) or not name or "value" not in payload:
        return
    fits, reduce = _REDUCERS.get(reducer, _REPLACE) if isinstance(reducer, str) else _REPLACE
    if fits(payload["value"]):
        draft.channels[name] = reduce(draft.channels.get(name), payload["value"])


_STEPS: Final[dict[str, Callable[[_Draft, EventContent], None]]] = {
    "run.started": _start,
    "run.paused": _pause,
    "run.resumed": _resume,
    "run.resume-started": _resume,
    "run.completed": _end,
    "run.failed": _end,
    "run.cancelled": _end,
    "node.suspended": _begin_wait,
    "interrupt.requested": _begin_wait,
    "approval.requested": _begin_wait,
    "clarification.requested": _begin_wait,
    "interrupt.resolved": _end_wait,
    "approval.granted": _end_wait,
    "approval.rejected": _end_wait,
    "approval.overridden": _end_wait,
    "clarification.resolved": _end_wait,
    "node.resumed": _end_wait,
    "node.suspend-failed": _end_wait,
    "node.completed": _end_wait,
    "node.failed": _end_wait,
    "node.skipped": _end_wait,
    "node.cancelled": _end_wait,
    "variable.changed": _change_variable,
    "channel.written": _write_channel,
}


# --- channels: a write's value and the reducer it names (OpenWOP channels-and-reducers.md) -------------------------------------------


class _Entries:
    """A list under construction. It finds entries by their name without a walk, so that no tenant can make a fold quadratic."""

    __slots__ = ("_next", "_rows", "_tables")

    def __init__(self, values: Iterable[Json] = ()) -> None:
        self._rows: dict[int, Json] = dict(enumerate(values))
        self._next = len(self._rows)
        self._tables: dict[_Namer, dict[str, set[int]]] = {}

    def add(self, value: Json) -> None:
        for namer in self._tables:
            self._note(namer, self._next, value)
        self._rows[self._next] = value
        self._next += 1

    def holds(self, namer: "_Namer", name: str) -> bool:
        return bool(self._table(namer).get(name))

    def remove(self, namer: "_Namer", name: str) -> None:
        for row in tuple(self._table(namer).get(name, ())):
            value = self._rows.pop(row)
            for other, table in self._tables.items():
                table.get(other(value) or "", set()).discard(row)

    def settled(self) -> list[Json]:
        return list(self._rows.values())

    def _table(self, namer: "_Namer") -> dict[str, set[int]]:
        if namer not in self._tables:
            self._tables[namer] = {}
            for row, value in self._rows.items():
                self._note(namer, row, value)
        return self._tables[namer]

    def _note(self, namer: "_Namer", row: int, value: Json) -> None:
        name = namer(value)
        if name:
            self._tables[namer].setdefault(name, set()).add(row)


class _Members:
    """An object under construction."""

    __slots__ = ("members",)

    def __init__(self, members: JsonObject | None = None) -> None:
        self.members: JsonObject = dict(members or {})

    def settled(self) -> JsonObject:
        return dict(self.members)


_Channel: TypeAlias = Json | _Entries | _Members
_Namer: TypeAlias = Callable[[Json], str | None]
_Reducer: TypeAlias = tuple[Callable[[Json], bool], Callable[[_Channel, Json], _Channel]]
"""Which values fit, and the channel behind a write. A channel whose present value does not fit the reducer begins anew."""


def _settled(channel: _Channel) -> Json:
    return channel.settled() if isinstance(channel, _Entries | _Members) else channel


def _anything(_value: Json) -> bool:
    return True


def _replace(_current: _Channel, value: Json) -> _Channel:
    return value


def _append(current: _Channel, value: Json) -> _Channel:
    entries = _entries(current)
    entries.add(value)
    return entries


def _entries(current: _Channel) -> _Entries:
    if isinstance(current, _Entries):
        return current
    return _Entries(current if isinstance(current, list) else ())


def _is_object(value: Json) -> bool:
    return isinstance(value, dict)


def _merge(current: _Channel, value: Json) -> _Channel:
    if not isinstance(current, _Members):
        current = _Members(current if isinstance(current, dict) else None)
    current.members.update(cast("JsonObject", value))
    return current


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(current: _Channel, value: Json) -> _Channel:
    """Add as doubles do, whichever of them came back from canonical JSON as integers. A sum beyond every double changes nothing."""
    before = cast("float", current) if _is_number(current) else 0
    total = before + cast("float", value)
    if isinstance(total, int) and not -_SAFE <= total <= _SAFE:
        return float(total)
    return total if isfinite(total) else before


def _voter(value: Json) -> str | None:
    """The two texts on channels name the member differently: ``voter`` and ``userId``."""
    return _text(value, "voter") or _text(value, "userId")


def _message(value: Json) -> str | None:
    return _text(value, "messageId")


def _text(value: Json, member: str) -> str | None:
    text = value.get(member) if isinstance(value, dict) else None
    return text if isinstance(text, str) and text else None


def _has_voter(value: Json) -> bool:
    return _voter(value) is not None


def _vote(current: _Channel, value: Json) -> _Channel:
    """A voter's new vote takes the place of the old one, at the end."""
    entries = _entries(current)
    entries.remove(_voter, cast("str", _voter(value)))
    entries.add(value)
    return entries


def _has_message(value: Json) -> bool:
    return _message(value) is not None


def _log_message(current: _Channel, value: Json) -> _Channel:
    """The same message id a second time changes nothing."""
    entries = _entries(current)
    if not entries.holds(_message, cast("str", _message(value))):
        entries.add(value)
    return entries


_REPLACE: Final[_Reducer] = (_anything, _replace)
_REDUCERS: Final[dict[str, _Reducer]] = {
    "replace": _REPLACE,
    "append": (_anything, _append),
    "feedback": (_anything, _append),
    "merge": (_is_object, _merge),
    "counter": (_is_number, _count),
    "votes": (_has_voter, _vote),
    "message": (_has_message, _log_message),
}
