"""What a client does next, drawn from a seed and from what it knows of the runs. Pure but for the dice that are handed in."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, TypeAlias

from isoline_client import Position
from isoline_drill.history import Append, Freshness

WEIGHTS: Final = {"append": 56, "repeat": 4, "read": 22, "prefix": 10, "state": 7, "fork": 1}
"""Of a hundred operations."""
MANY_MAX: Final = 10
"""Events of one append."""
BACK_MAX: Final = 40
"""Events before the newest known one at which a read begins: what is read stays small however long the run grows."""
FORKS_MAX: Final = 3
"""Newest forks that are written and read like own runs; older ones are left as they are."""
REPEATABLE_MAX: Final = 50
"""Newest appends whose request id may be sent again."""


@dataclass(eq=False, slots=True)
class KnownRun:
    """A run, and the furthest position of it that this client was shown or told."""

    run_id: str
    last: Position | None = None

    @property
    def next_seq(self) -> int:
        return 0 if self.last is None else self.last.seq + 1

    def learn(self, position: Position) -> None:
        """Keep the furthest."""
        if position.seq >= self.next_seq:
            self.last = position


@dataclass(slots=True)
class Ground:
    """What a client knows."""

    runs: list[KnownRun] = field(default_factory=list)
    forks: deque[KnownRun] = field(default_factory=lambda: deque(maxlen=FORKS_MAX))
    repeatable: deque[Append] = field(default_factory=lambda: deque(maxlen=REPEATABLE_MAX))


@dataclass(frozen=True, slots=True)
class Write:
    known: KnownRun
    many: int
    expected_seq: int | None


@dataclass(frozen=True, slots=True)
class Repeat:
    """Send an earlier append again, on purpose."""

    append: Append


@dataclass(frozen=True, slots=True)
class See:
    """Read ``[from_seq, until_seq)``. ``extends``: what is known right before it, which the answer must extend."""

    known: KnownRun
    freshness: Freshness
    from_seq: int
    until_seq: int | None
    extends: Position | None


@dataclass(frozen=True, slots=True)
class Sum:
    """The digest or the state of ``[0, until_seq)``."""

    known: KnownRun
    what: Literal["prefix", "state"]
    freshness: Freshness
    until_seq: int | None


@dataclass(frozen=True, slots=True)
class Split:
    known: KnownRun
    from_seq: int


Deed: TypeAlias = Write | Repeat | See | Sum | Split


def next_deed(dice: Random, ground: Ground) -> Deed:
    """Draw what to do. Where what was drawn is not possible yet, it is an append."""
    known = _any_run(dice, ground)
    match dice.choices(_NAMES, _SHARES)[0]:
        case "repeat" if ground.repeatable:
            return Repeat(dice.choice(ground.repeatable))
        case "read":
            return _see(dice, known)
        case "prefix":
            return Sum(known, "prefix", _freshness(dice), _end(dice, known))
        case "state":
            return Sum(known, "state", _freshness(dice), _end(dice, known))
        case "fork" if known.next_seq:
            return Split(known, dice.randrange(known.next_seq))
        case _:
            many = 1 if dice.random() < 0.5 else dice.randint(1, MANY_MAX)
            return Write(known, many, known.next_seq if dice.random() < 0.3 else None)


_NAMES: Final = tuple(WEIGHTS)
_SHARES: Final = tuple(WEIGHTS.values())


def _any_run(dice: Random, ground: Ground) -> KnownRun:
    runs: Sequence[KnownRun] = [*ground.runs, *ground.forks]
    return dice.choice(runs)


def _see(dice: Random, known: KnownRun) -> See:
    from_seq = max(0, known.next_seq - dice.randint(0, BACK_MAX))
    extends = known.last if known.next_seq == from_seq or dice.random() < 0.5 else None
    return See(known, _freshness(dice), from_seq, _end(dice, known), extends)


def _freshness(dice: Random) -> Freshness:
    return "latest" if dice.random() < 0.5 else "local"


def _end(dice: Random, known: KnownRun) -> int | None:
    """Up to what is known to be there, which nobody may deny; or to the head."""
    return known.next_seq if dice.random() < 0.4 else None
