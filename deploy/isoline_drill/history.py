"""The history of a drill: what every client asked, when, and what it was told. Values, and their form as JSON lines.

What belongs here: one frozen value for each kind of operation, and reading and writing them. What does not: how they are recorded, which is
``load``'s, and what must be true of them, which is ``checker``'s. Nothing here reads a clock or opens a file.

Times are microseconds of one clock that all processes of a machine share (``CLOCK_MONOTONIC``), so operations of different files compare. The
first line of a file says what to add to them to get the wall clock.

An operation that changes something is written twice: before it is sent, with the outcome unknown and no end, and when its answer is there. The
later line with the same ``(client, op)`` counts. So a client that is killed leaves what it had under way, and no event that nobody appended.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints

VERSION: Final = 1
"""Of the form of the lines."""

Outcome = Literal["ok", "failed", "unknown"]
"""``ok``: answered. ``failed``: surely did not happen (a read: gave nothing). ``unknown``: may have happened, now or later, or not at all."""

Freshness = Literal["latest", "local"]
Source = Literal["", "local", "leader", "stale"]
"""Where an answer was read, as it says itself; empty when it does not say."""

Absent = Literal["", "run", "seq"]
"""What an answer denies: nothing, that the run exists, or that its log reaches the seq that was asked for."""


class Entry(NamedTuple):
    """One event of a log: where it stands, the unique marker in its payload, the digest (hexadecimal) of the prefix that it ends."""

    seq: int
    marker: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What all have. ``op`` numbers a client's operations; ``completed_us`` is None while there is no answer. ``error`` is the reason for an
    outcome that is not ok: the name of the client's error class, a colon, and what it says."""

    client: str
    op: int
    region: str
    invoked_us: int
    completed_us: int | None
    outcome: Outcome
    error: str = ""

    @property
    def error_name(self) -> str:
        return self.error.partition(":")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Create(Operation):
    """Make an empty run; ``run`` is its id, once known."""

    request_id: str
    run: str = ""
    repeated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork(Operation):
    """Make a run that shares ``[0, from_seq)`` of ``source``, whose digest the answer pins."""

    request_id: str
    source: str
    from_seq: int
    run: str = ""
    prefix_digest: str = ""
    repeated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Operation):
    """Append the events with these markers, all or none. All tries with one request id until the client gave up are one operation."""

    run: str
    request_id: str
    expected_seq: int | None
    markers: tuple[str, ...]
    first_seq: int | None = None
    last_seq: int | None = None
    digest: str = ""
    repeated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Look(Operation):
    """What all reads have. An answer that denies something is ``ok`` and has ``absent`` set; ``absent_from`` is then the first seq which the log
    does not hold, as the answer says (0 for a run). ``staleness_ms`` is None when the answer does not say it."""

    run: str
    freshness: Freshness
    source: Source = ""
    staleness_ms: int | None = None
    absent: Absent = ""
    absent_from: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(Look):
    """Read ``[from_seq, until_seq)``; without an end, to the head as ``freshness`` sees it."""

    from_seq: int
    until_seq: int | None
    events: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TailPage(Look):
    """One page that a tail gave, from ``from_seq`` on."""

    from_seq: int
    events: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix(Look):
    """The digest of ``[0, until_seq)``, of everything without it. The answer is the token ``(seq, digest)``; ``seq`` is -1 of an empty log."""

    until_seq: int | None
    seq: int | None = None
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class State(Prefix):
    """The fold of ``[0, until_seq)``, whose own digest stands beside the prefix's."""

    state_digest: str = ""


KINDS: Final[Mapping[str, type[Operation]]] = MappingProxyType(
    {
        "create": Create,
        "fork": Fork,
        "append": Append,
        "read": Read,
        "tail": TailPage,
        "prefix": Prefix,
        "state": State,
    }
)
_KIND_OF: Final = {kind: name for name, kind in KINDS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first line of a file. ``wall_offset_us`` added to a time of the file gives microseconds since 1970 (UTC)."""

    client: str
    region: str
    wall_offset_us: int


class HistoryError(ValueError):
    """A line is not of the form; ``line`` counts from 1."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line = line
        self.what = what


# -- writing -------------------------------------------------------------------------------------------------------------------------------


def header_line(header: Header) -> str:
    """The first line of a file, with its line feed."""
    return _line({"history": VERSION, **_values(header)})


def operation_line(operation: Operation) -> str:
    """One operation as a line, with its line feed."""
    return _line({"kind": _KIND_OF[type(operation)], **_values(operation)})


def _values(value: Header | Operation) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def _line(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"


# -- reading -------------------------------------------------------------------------------------------------------------------------------


class HistoryReader:
    """Takes a file as it grows: ``feed`` it what was added. Raises ``HistoryError`` for a line that is not of the form.

    ``header`` is None until its line was fed.
    """

    def __init__(self) -> None:
        self.header: Header | None = None
        self._rest = ""
        self._lines = 0
        self._found: dict[tuple[str, int], Operation] = {}

    def feed(self, text: str) -> list[Operation]:
        """What the new lines say, in order. A line counts once its line feed is there: what a killed client did not finish never does."""
        *lines, self._rest = (self._rest + text).split("\n")
        new: list[Operation] = []
        for line in lines:
            self._lines += 1
            document = _document(self._lines, line)
            if self.header is None:
                self.header = _header(self._lines, document)
            else:
                new.append(_operation(self._lines, document))
        self._found.update(((each.client, each.op), each) for each in new)
        return new

    @property
    def operations(self) -> list[Operation]:
        """Every operation, as its newest line says, in order of invocation."""
        return sorted(self._found.values(), key=lambda operation: operation.invoked_us)


def read_history(lines: Iterable[str]) -> tuple[Header, list[Operation]]:
    """Take a whole file; as ``HistoryReader`` does. Raises ``HistoryError`` also when there is not even a header."""
    reader = HistoryReader()
    for line in lines:
        reader.feed(line)
    if reader.header is None:
        raise HistoryError(1, "no header")
    return reader.header, reader.operations


def _operation(number: int, document: dict[str, Any]) -> Operation:
    name = document.pop("kind", None)
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise HistoryError(number, f"kind: {name!r} is none of {', '.join(KINDS)}")
    operation: Operation = _made(number, kind, document)
    return operation


def _document(number: int, line: str) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise HistoryError(number, f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise HistoryError(number, "not a JSON object")
    return document


def _header(number: int, document: dict[str, Any]) -> Header:
    version = document.pop("history", None)
    if version != VERSION:
        raise HistoryError(number, f"history: version {VERSION} is understood, not {version!r}")
    header: Header = _made(number, Header, document)
    return header


def _made(number: int, kind: type[Any], document: Mapping[str, Any]) -> Any:
    takers = _TAKERS[kind]
    unknown = document.keys() - takers.keys()
    if unknown:
        raise HistoryError(number, f"{min(unknown)}: no such field")
    values = {name: _taken(number, name, takers[name], value) for name, value in document.items()}
    missing = [each.name for each in fields(kind) if each.default is MISSING and each.name not in document]
    if missing:
        raise HistoryError(number, f"{missing[0]}: is missing")
    return kind(**values)


def _taken(number: int, name: str, take: "_Taker", value: Any) -> Any:
    try:
        return take(value)
    except _NotOfTheForm as error:
        raise HistoryError(number, f"{name}: {error}") from None


class _NotOfTheForm(ValueError):
    """A value is not of its field's type."""

    def __init__(self, value: object, wanted: str) -> None:
        super().__init__(f"{wanted} is wanted, not {value!r}"[:200])


_Taker: TypeAlias = Callable[[Any], Any]


def _taker(hint: Any) -> _Taker:
    """What turns JSON into a value of this type, or raises ``_NotOfTheForm``."""
    if get_origin(hint) is Literal:
        return _one_of(get_args(hint))
    return _PLAIN[hint]


def _one_of(names: Sequence[str]) -> _Taker:
    def take(value: Any) -> Any:
        if value not in names:
            raise _NotOfTheForm(value, f"one of {', '.join(map(repr, names))}")
        return value

    return take


def _exactly(kind: type[Any], wanted: str) -> _Taker:
    def take(value: Any) -> Any:
        if type(value) is not kind:  # a bool is an int to isinstance
            raise _NotOfTheForm(value, wanted)
        return value

    return take


_take_int: Final = _exactly(int, "a whole number")
_take_str: Final = _exactly(str, "text")


def _int_or_none(value: Any) -> int | None:
    if value is None:
        return None
    number: int = _take_int(value)
    return number


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _NotOfTheForm(value, "a list of texts")
    return tuple(value)


def _entries(value: Any) -> tuple[Entry, ...]:
    if not isinstance(value, list) or not all(_is_entry(each) for each in value):
        raise _NotOfTheForm(value, "a list of [seq, marker, digest]")
    return tuple(Entry(*each) for each in value)


def _is_entry(value: Any) -> bool:
    return isinstance(value, list) and [type(each) for each in value] == [int, str, str]


_PLAIN: Final[Mapping[Any, _Taker]] = {
    int: _take_int,
    int | None: _int_or_none,
    str: _take_str,
    bool: _exactly(bool, "true or false"),
    tuple[str, ...]: _texts,
    tuple[Entry, ...]: _entries,
}
_TAKERS: Final = {
    kind: {name: _taker(hint) for name, hint in get_type_hints(kind).items()} for kind in (Header, *KINDS.values())
}
