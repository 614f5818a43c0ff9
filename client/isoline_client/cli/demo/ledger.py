"""The books: what was sent and what was acknowledged, and afterwards the account of it against what stands in the logs.

The account is pure: told seqs and found events in, numbers out. Events are known by what they say (type, node, payload), so recorded
histories are accounted as they are; one that says the same several times must be there as many times.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from isoline_client.events import Event, NewEvent
from isoline_client.run import Run
from isoline_client.values import Appended

Key = bytes
"""What an event says, as a digest."""

Logs = Mapping[str, Sequence[tuple[int, Key]]]
"""By run id, the seq and key of every event found, in the order in which they were read."""


def key_of(event: NewEvent | Event) -> Key:
    """What an event says: equal for the event that was sent and the one that was read."""
    parts = (event.type.encode(), event.node_id.encode(), event.payload_bytes)
    return sha256(b"".join(len(part).to_bytes(8) + part for part in parts)).digest()


@dataclass(frozen=True, slots=True)
class Told:
    """One acknowledgement: the event of ``key`` stands at ``seq`` of the run."""

    run_id: str
    seq: int
    key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The result. All but ``acknowledged`` must be 0.

    ``lost``: acknowledged, and not in the log as often as acknowledged. ``duplicates``: in the log more often than sent. ``misplaced``: in
    the log, at another seq than told. ``unknown``: in the log, and sent by nobody. ``gaps``: seqs that are not one more than the one before.
    """

    acknowledged: int
    lost: int
    duplicates: int
    misplaced: int
    unknown: int
    gaps: int

    @property
    def balanced(self) -> bool:
        return not (self.lost or self.duplicates or self.misplaced or self.unknown or self.gaps)


class Ledger:
    """Keeps the books while events are appended. ``repeated`` counts events whose first acknowledgement was lost on the way."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.sent: Counter[tuple[str, Key]] = Counter()
        self.repeated = 0

    async def append(self, run: Run, events: Sequence[NewEvent]) -> Appended:
        """Append, with both sides booked."""
        keys = [key_of(event) for event in events]
        self.sent.update((run.run_id, key) for key in keys)
        appended = await run.append(events)
        self.told += [Told(run.run_id, seq, key) for seq, key in enumerate(keys, start=appended.first_seq)]
        self.repeated += len(events) if appended.repeated else 0
        return appended

    def account(self, logs: Logs) -> Account:
        """Compare with what was read back."""
        return account(self.told, self.sent, logs)


def account(told: Iterable[Told], sent: Mapping[tuple[str, Key], int], logs: Logs) -> Account:
    """Compare what was acknowledged, and what was sent, with what stands in the logs."""
    acknowledged = Counter(told)
    stands = Counter(Told(run_id, seq, key) for run_id, log in logs.items() for seq, key in log)
    found = _wherever(stands)
    lost = _wherever(acknowledged) - found
    not_there = acknowledged - stands
    return Account(
        acknowledged=acknowledged.total(),
        lost=lost.total(),
        duplicates=sum(max(0, count - sent[event]) for event, count in found.items() if event in sent),
        misplaced=not_there.total() - lost.total(),
        unknown=sum(count for event, count in found.items() if event not in sent),
        gaps=sum(seq != place for log in logs.values() for place, (seq, _) in enumerate(log)),
    )


def _wherever(events: Mapping[Told, int]) -> Counter[tuple[str, Key]]:
    """How often each event is there, at whatever seq."""
    counted: Counter[tuple[str, Key]] = Counter()
    for each, count in events.items():
        counted[each.run_id, each.key] += count
    return counted
