"""What must be true of every run, and the proof of it for everything a history hears.

A ``Log`` knows which event was acknowledged at which seq, and the bytes it was first seen with. Whatever is read later, from any region,
is held against that. Nothing here uses the code that is tested: the chain is computed from hashlib, the state from ``folding``.

Each proof names what it proves, so that a failure says which guarantee fell:

* ``dense order``: the seqs given to a run's appends are 0, 1, 2, … without a gap or a number given twice; each engine's own order is kept;
* ``exactly once``: what was acknowledged stands where that was said, with the bytes that were sent, and nothing else stands in the log;
* ``first answer``: a repeat gets the first outcome, marked; another body under the same id gets a refusal;
* ``same prefix``: all reads of a seq, from whichever region and whenever, give the same bytes, and reach as far as they must;
* ``fork prefix``: below its boundary a fork has its parent's bytes;
* ``chain``: every digest told is the SHA-256 chain over the bytes that were read;
* ``state``: the state is the fold of the prefix;
* ``refusal``: what was refused had a reason, and what had a reason was refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate
from typing import Any, Final

from isoline.v1 import common_pb2 as pb
from isoline_client import TERMINAL_TYPES, Appended, Client, NewEvent, Page, Position, State
from isoline_client import Run as Handle
from property.events import FORBIDDEN_BEHIND_THE_END
from property.folding import fold

CHAIN_START: Final = sha256(b"isoline.v1 digest chain").digest()


class Broken(AssertionError):
    """A guarantee does not hold."""


def prove(guarantee: str, condition: object, *what: object) -> None:
    """Raise ``Broken`` unless the condition holds. ``what`` is put together only then: an event may be long."""
    if not condition:
        raise Broken(f"{guarantee}: {' '.join(map(str, what))}"[:4000])


# -- changes: requests that are made once and may be sent often ------------------------------------------------------------------------


@dataclass(eq=False, kw_only=True)
class Append:
    """One request to append. ``answer`` is the first outcome; ``regions`` are those it was sent through."""

    request_id: str
    log: "Log"
    events: tuple[NewEvent, ...]
    expected_seq: int | None = None
    engine: str = ""
    engine_seq: int = 0
    answer: Appended | None = None
    regions: set[str] = field(default_factory=set)

    async def send(self, client: Client, timeout_s: float) -> Appended:
        return await client.run(self.log.run_id).append(
            self.events,
            expected_seq=self.expected_seq,
            engine=self.engine,
            engine_seq=self.engine_seq,
            request_id=self.request_id,
            timeout_s=timeout_s,
        )


@dataclass(eq=False, kw_only=True)
class Creation:
    """One request to make an empty run."""

    request_id: str
    home: str
    workflow_id: str = "history"
    regions: set[str] = field(default_factory=set)

    async def send(self, client: Client, timeout_s: float) -> Handle:
        return await client.create_run(
            self.workflow_id, home_region=self.home, request_id=self.request_id, timeout_s=timeout_s
        )


@dataclass(eq=False, kw_only=True)
class Fork:
    """One request to fork. ``pin``: the digest that the caller believes the prefix has."""

    request_id: str
    source: "Log"
    from_seq: int | None
    mode: Any
    home: str = ""
    pin: bytes | None = None
    regions: set[str] = field(default_factory=set)

    async def send(self, client: Client, timeout_s: float) -> Handle:
        return await client.run(self.source.run_id).fork(
            self.from_seq,
            mode=self.mode,
            home_region=self.home,
            expected_prefix_digest=self.pin,
            request_id=self.request_id,
            timeout_s=timeout_s,
        )


# -- what was heard --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A range that was read. It must reach ``at_least`` (exclusive): what had been acknowledged when the read began, or was asked for.
    It may not reach beyond ``at_most``: what was asked for."""

    region: str
    from_seq: int
    pages: Sequence[Page]
    at_least: int = 0
    at_most: int | None = None

    @property
    def stale(self) -> bool:
        """Whether the answer says that it may be behind a leader who was out of reach."""
        return any(page.source == "stale" for page in self.pages)


class Log:
    """One run as it must be: its own events from ``from_seq`` on, and below that its parent's."""

    def __init__(self, name: str, making: Creation | Fork, made: Handle) -> None:
        self.name = name
        self.making = making
        self.run_id = made.run_id
        self.parent = making.source if isinstance(making, Fork) else None
        self.from_seq = (making.from_seq or 0) if isinstance(making, Fork) else 0
        self.engines: dict[str, int] = {}
        """The counter of each engine's newest acknowledged event."""
        self.terminal_seq: int | None = None
        """The first terminal event. A fork begins before its source's."""
        self._given: dict[int, tuple[Append, int]] = {}
        self._told: dict[int, bytes] = {}
        self._records: list[bytes] = []
        self._digests: list[bytes] = []
        self._engines_seen: dict[str, int] = {}
        self._state = (-1, b"")

    def __repr__(self) -> str:
        return self.name

    # -- what is known -----------------------------------------------------------------------------------------------------------------

    @property
    def next_seq(self) -> int:
        """Where the next event goes, by what was acknowledged."""
        return self.from_seq + len(self._given)

    @property
    def seen_seq(self) -> int:
        """The first seq whose bytes are not known yet."""
        return self.from_seq + len(self._records)

    def owner(self, seq: int) -> "Log":
        """The run in whose log the event at ``seq`` was written."""
        return self if seq >= self.from_seq or self.parent is None else self.parent.owner(seq)

    def ranges(self, until_seq: int) -> list[tuple[int, int, str]]:
        """Which run's log holds which part of ``[0, until_seq)``."""
        below = [] if self.parent is None else self.parent.ranges(min(until_seq, self.from_seq))
        return [*below, (self.from_seq, until_seq, self.run_id)] if until_seq > self.from_seq else below

    def record(self, seq: int) -> bytes:
        owner = self.owner(seq)
        return owner._records[seq - owner.from_seq]

    def digest(self, seq: int) -> bytes:
        """The digest of the prefix up to and including ``seq``."""
        if seq < 0:
            return CHAIN_START
        owner = self.owner(seq)
        return owner._digests[seq - owner.from_seq]

    def position(self, seq: int) -> Position:
        return Position(seq, self.digest(seq))

    def state(self, at_seq: int) -> bytes:
        """The canonical state of ``[0, at_seq)``. Asked of every region, so the newest is kept."""
        if self._state[0] != at_seq:
            self._state = at_seq, fold(self.owner(seq)._event(seq) for seq in range(at_seq))
        return self._state[1]

    def _event(self, seq: int) -> NewEvent:
        append, place = self._given[seq]
        return append.events[place]

    # -- outcomes ----------------------------------------------------------------------------------------------------------------------

    def take(self, append: Append, answer: Appended) -> None:
        """An append was acknowledged: for the first time, or once more."""
        if append.answer is not None:
            self._prove_repeat(append, answer)
            return
        append.answer = answer
        prove(
            "refusal",
            append.expected_seq in (None, answer.first_seq),
            f"{self}: expected {append.expected_seq}, and got {answer}",
        )
        for place in range(len(append.events)):
            seq = answer.first_seq + place
            prove("dense order", seq not in self._given and seq >= self.from_seq, f"{self}: seq {seq} was given twice")
            self._given[seq] = (append, place)
            if append.events[place].type in TERMINAL_TYPES:
                self.terminal_seq = seq if self.terminal_seq is None else min(seq, self.terminal_seq)
        if append.engine:
            self.engines[append.engine] = append.engine_seq + len(append.events) - 1
        self._told[answer.last.seq] = answer.last.digest

    def _prove_repeat(self, append: Append, answer: Appended) -> None:
        first = append.answer
        assert first is not None
        same = (answer.first_seq, answer.last) == (first.first_seq, first.last)
        prove("first answer", same, f"{self}: {append.request_id} got {first}, and later {answer}")
        prove(
            "first answer",
            answer.repeated or first.repeated,
            f"{self}: {append.request_id} twice for the first time: {first}, {answer}",
        )

    def prove_dense(self) -> None:
        """The seqs given so far have no gap."""
        missing = [seq for seq in range(self.from_seq, self.next_seq) if seq not in self._given]
        prove("dense order", not missing, f"{self}: no append was told that it has", missing, "of", self._given.keys())

    # -- first sight -------------------------------------------------------------------------------------------------------------------

    def absorb(self, seen: Seen) -> None:
        """Take the records behind ``seen_seq``, read to the end: everything that was acknowledged is there, and nothing else."""
        where = f"{self}: {seen.region}"
        for page in seen.pages:
            prove("chain", page.before == self.position(self.seen_seq - 1), where, "extends", page.before)
            digests = list(accumulate(page.records, _extended, initial=page.before.digest))
            prove(
                "chain", page.last == (self.seen_seq + len(page.records) - 1, digests[-1]), where, "ends at", page.last
            )
            for record, digest in zip(page.records, digests[1:], strict=True):
                self._prove_sent(seen.region, record, digest)
                self._records.append(record)
                self._digests.append(digest)
        prove(
            "exactly once", self.seen_seq == self.next_seq, where, f"has [0, {self.seen_seq}) of [0, {self.next_seq})"
        )

    def _prove_sent(self, region: str, record: bytes, digest: bytes) -> None:
        seq, event = self.seen_seq, pb.Event.FromString(record)
        where = f"{self}: seq {seq}, read from {region},"
        prove("exactly once", seq in self._given, where, "is no acknowledged event:", event)
        append, place = self._given[seq]
        prove("exactly once", _content(event) == _sent(append.events[place]), where, "is not what was sent:", event)
        prove("exactly once", event.stamp.region in append.regions, f"{where} was accepted in {event.stamp.region}")
        prove("chain", self._told.get(seq, digest) == digest, where, "was acknowledged with another digest")
        prove("refusal", not self._ended_before(seq, event), where, "may not stand behind the terminal event:", event)
        if event.stamp.engine:
            expected = (append.engine, self._engines_seen.get(append.engine, 0) + 1)
            prove(
                "dense order",
                (event.stamp.engine, event.stamp.engine_seq) == expected,
                f"{where} should be {expected}",
            )
            self._engines_seen[append.engine] = expected[1]

    def _ended_before(self, seq: int, event: pb.Event) -> bool:
        ended = self.terminal_seq
        return ended is not None and ended < seq and event.content.type in FORBIDDEN_BEHIND_THE_END

    # -- every later sight -------------------------------------------------------------------------------------------------------------

    def prove_same(self, seen: Seen) -> None:
        """A read gave the bytes that are known, from where it began to where it had to reach, and not beyond."""
        seq = seen.from_seq
        for page in seen.pages:
            prove(
                "same prefix",
                page.first_seq == seq,
                f"{self}: {seen.region} goes on at {page.first_seq} instead of {seq}",
            )
            reached, bound = seq + len(page.records), self.next_seq if seen.at_most is None else seen.at_most
            prove(
                "same prefix",
                reached <= bound,
                f"{self}: {seen.region} has seq {reached - 1}, and {bound} is the bound",
            )
            self._prove_position(page.before, seq - 1, seen.region)
            for record in page.records:
                self._prove_record(seq, record, seen.region)
                seq += 1
            self._prove_position(page.last, seq - 1, seen.region)
        reaches = seq >= seen.at_least or seen.stale
        prove(
            "same prefix",
            reaches,
            f"{self}: {seen.region} has [{seen.from_seq}, {seq}), and {seen.at_least} was to be reached",
        )

    def _prove_record(self, seq: int, record: bytes, region: str) -> None:
        guarantee = "same prefix" if self.owner(seq) is self else "fork prefix"
        prove(
            guarantee,
            record == self.record(seq),
            f"{self}: seq {seq} read from {region} has not the bytes it had before",
        )

    def _prove_position(self, position: Position, seq: int, region: str) -> None:
        prove(
            "chain", position == self.position(seq), f"{self}: {region} says {position}, and it is {self.position(seq)}"
        )

    def prove_state(self, state: State, region: str) -> None:
        where, due = f"{self}: the state at {state.at_seq} from {region}", self.state(state.at_seq)
        prove("state", state.canonical == due, where, "is", state.canonical, "not", due)
        prove("state", state.digest == sha256(state.canonical).digest(), where, "has not its digest")
        prove("chain", state.prefix_digest == self.digest(state.at_seq - 1), where, "is of another prefix")


def _extended(digest: bytes, record: bytes) -> bytes:
    return sha256(digest + record).digest()


def _content(event: pb.Event) -> tuple[object, ...]:
    content, stamp = event.content, event.stamp
    versions = content.schema_version or 1, content.engine_version
    return content.type, content.payload, content.node_id, tuple(content.masked), *versions, stamp.causation_id


def _sent(event: NewEvent) -> tuple[object, ...]:
    versions = event.schema_version, event.engine_version
    return event.type, event.payload_bytes, event.node_id, event.masked, *versions, event.causation_id
