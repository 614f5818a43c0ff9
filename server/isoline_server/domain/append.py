"""The decision to append: given the head, what the new records and the new head are, or why not (guarantees G1, G2, G8).

Pure: the same head, command and stamping give the same bytes. Whether the head still is the head is decided by the database's
compare-and-set, not here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from isoline_server.domain.errors import EngineCounterReused, EngineGap, LeaseLost, RunTerminal, SeqConflict
from isoline_server.domain.event import TERMINAL_TYPES, EventContent, EventStamp, may_follow_terminal
from isoline_server.domain.ids import RunId, Tenant
from isoline_server.domain.run import Head

Encode = Callable[[EventContent, EventStamp], bytes]
"""Makes the bytes of one event. The only maker of hashed bytes; injected, so that the domain does not know the wire format."""


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
    """What an append came to. ``repeated``: an earlier call with the same request id did it."""

    first_seq: int
    last_seq: int
    digest: bytes
    repeated: bool


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
    digest, size = head.digest, head.record_bytes
    records: list[bytes] = []
    digests: list[bytes] = []
    end_bytes: list[int] = []
    for index, content in enumerate(command.contents):
        record = encode(content, _stamp(command, stamping, index))
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
        ),
    )


def _stamp(command: AppendCommand, stamping: Stamping, index: int) -> EventStamp:
    return EventStamp(
        event_id=(stamping.first_event_id + index).to_bytes(16, "big"),
        recorded_at_us=stamping.recorded_at_us,
        region=stamping.region,
        causation_id=command.causation_ids[index],
        engine=command.engine,
        engine_seq=command.engine_seq + index if command.engine else 0,
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
