"""The decision to append: given the head, what the new records and the new head are, or why not (guarantees G1, G2, G8).

Pure: the same head, command and stamping give the same bytes. Whether the head still is the head is decided by the database's
compare-and-set, not here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from isoline_server.domain.alignment import RefusalDifference
from isoline_server.domain.errors import EngineCounterReused, EngineGap, LeaseLost, RunTerminal, SeqConflict
from isoline_server.domain.event import TERMINAL_TYPES, EventContent, EventStamp, may_follow_terminal
from isoline_server.domain.gaps import MEMORY_MEMBER, SUMMARY_MEMBER, lacks
from isoline_server.domain.ids import RunId, Tenant
from isoline_server.domain.run import Head

Encode = Callable[[EventContent, EventStamp], bytes]
"""Makes the bytes of one event. The only maker of hashed bytes; injected, so that the domain does not know the wire format."""

SpellV1 = Callable[[bytes], bytes]
"""How an era-2 run stores the bytes of an event: under its v1 name. Digests and counts stay those of the event. Raises ``InvalidField``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendCommand:
    """A request to append, checked for shape. ``causation_ids`` runs beside ``contents``. ``engine_seq`` is the first event's counter.
    ``lease_epoch`` is that of the lease it is written under; 0: it comes from outside, and wakes a run that executors run."""

    tenant: Tenant
    run_id: RunId
    request_id: str
    contents: tuple[EventContent, ...]
    causation_ids: tuple[str, ...]
    expected_seq: int | None = None
    engine: str = ""
    engine_seq: int = 0
    lease_epoch: int = 0

    @property
    def payload_bytes(self) -> int:
        return sum(len(content.payload) for content in self.contents)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What is written in a command's stead, with its row of event ids; receipts stay those of the command that was asked.

    ``divergences`` are the kinds of those that were written into it; ``refusal`` is what its caller is told once it is written.
    """

    command: AppendCommand
    first_event_id: int
    divergences: tuple[str, ...] = ()
    refusal: RefusalDifference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamping:
    """What the accepting server adds: its clock, its region, and the first of a row of fresh event ids (ULIDs as numbers)."""

    recorded_at_us: int
    region: str
    first_event_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The new records with the digest and the byte count behind each, and the head behind them all."""

    first_seq: int
    records: tuple[bytes, ...]
    digests: tuple[bytes, ...]
    end_bytes: tuple[int, ...]
    head: Head


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an append came to. ``repeated``: an earlier call with the same request id did it. ``divergences``: kinds of those it brought."""

    first_seq: int
    last_seq: int
    digest: bytes
    repeated: bool
    divergences: tuple[str, ...] = ()


def decide_append(
    head: Head, last_engine_seq: int, command: AppendCommand, stamping: Stamping, encode: Encode
) -> Accepted:
    """Give the events their seqs, make their bytes and extend the chain; raise ``LeaseLost``, ``SeqConflict``, ``RunTerminal``, ``EngineGap``
    or ``EngineCounterReused`` when the head does not allow it."""
    if command.lease_epoch and command.lease_epoch != head.lease_epoch:
        raise LeaseLost(command.run_id, command.lease_epoch)
    if command.engine:
        _check_engine(last_engine_seq, command)
    if command.expected_seq is not None and command.expected_seq != head.seq + 1:
        raise SeqConflict(command.run_id, command.expected_seq, head.seq + 1)
    terminal_seq = _terminal_seq(head, command)
    gaps = gap_seqs(head, command.contents)
    digest, size = head.digest, head.record_bytes
    records: list[bytes] = []
    digests: list[bytes] = []
    end_bytes: list[int] = []
    for index, content in enumerate(command.contents):
        # In place and positional, for every event makes one.
        stamp = EventStamp(
            (stamping.first_event_id + index).to_bytes(16, "big"),
            stamping.recorded_at_us,
            stamping.region,
            command.causation_ids[index],
            command.engine,
            command.engine_seq + index if command.engine else 0,
        )
        record = encode(content, stamp)
        digest = sha256(digest + record).digest()
        size += len(record)
        records.append(record)
        digests.append(digest)
        end_bytes.append(size)
    return Accepted(
        first_seq=head.seq + 1,
        records=tuple(records),
        digests=tuple(digests),
        end_bytes=tuple(end_bytes),
        head=Head(
            seq=head.seq + len(records),
            digest=digest,
            record_bytes=size,
            terminal_seq=terminal_seq,
            lease_epoch=head.lease_epoch,
            mode=head.mode,
            memory_gap_seq=gaps[0],
            summary_gap_seq=gaps[1],
            era=head.era,
        ),
    )


def _check_engine(last_engine_seq: int, command: AppendCommand) -> None:
    expected = last_engine_seq + 1
    if command.engine_seq > expected:
        raise EngineGap(command.engine, expected, command.engine_seq)
    if command.engine_seq < expected:
        raise EngineCounterReused(command.engine, expected, command.engine_seq)


def _terminal_seq(head: Head, command: AppendCommand) -> int | None:
    """The run's terminal seq behind these events; raise ``RunTerminal`` when one of them may not stand where it would."""
    terminal = head.terminal_seq
    for seq, content in enumerate(command.contents, start=head.seq + 1):
        if terminal is not None and not may_follow_terminal(content.type):
            raise RunTerminal(command.run_id, terminal, content.type)
        if content.type in TERMINAL_TYPES:
            terminal = seq
    return terminal


def gap_seqs(head: Head, contents: Sequence[EventContent]) -> tuple[int | None, int | None]:
    """The first seqs that a memory, or a summary, is not told at; an event that is one is rare, so each costs two look-ups."""
    memory, summary = head.memory_gap_seq, head.summary_gap_seq
    for seq, content in enumerate(contents, start=head.seq + 1):
        if memory is None and content.type in MEMORY_MEMBER and lacks(content, MEMORY_MEMBER):
            memory = seq
        if summary is None and content.type in SUMMARY_MEMBER and lacks(content, SUMMARY_MEMBER):
            summary = seq
    return memory, summary
