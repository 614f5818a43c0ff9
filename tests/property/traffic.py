"""Deeds: what several clients do at one time, as values that hypothesis draws. ``history`` carries them out.

Numbers are drawn from a fixed range and taken modulo what there is, so that what is drawn never depends on how a race ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from hypothesis import strategies as st

from property.events import KINDS, SMALL
from property.world import REGIONS

T = TypeVar("T")

NUMBER = st.integers(0, 999)
REGION = st.sampled_from(REGIONS)
FRESHNESS = st.sampled_from(["latest", "local"])
FEW = st.lists(st.sampled_from(KINDS), min_size=1, max_size=5)
ONE_OR_TWO = st.lists(st.sampled_from(tuple(SMALL)), min_size=1, max_size=2)


def pick(items: Sequence[T], number: int) -> T:
    return items[number % len(items)]


@dataclass(frozen=True)
class Write:
    """One append: at the end wherever it is, or where the end was seen; by an engine of its own, or by none."""

    run: int
    region: str
    kinds: list[str]
    expects_next: bool
    by_engine: bool
    hasty: bool


@dataclass(frozen=True)
class Burst:
    """Appends one behind the other, by an engine of its own, so that some of them meet whatever happens meanwhile."""

    run: int
    region: str
    many: int
    hasty: bool


@dataclass(frozen=True)
class Twins:
    """One request, sent through two regions at once."""

    run: int
    regions: tuple[str, str]
    kinds: list[str]


@dataclass(frozen=True)
class Rivals:
    """Two requests with one id, sent through two regions at once."""

    run: int
    regions: tuple[str, str]
    kinds: list[str]


@dataclass(frozen=True)
class Read:
    run: int
    region: str
    freshness: Any
    from_seq: int


@dataclass(frozen=True)
class Follow:
    """A tail, until it has shown what had been acknowledged when it began."""

    run: int
    region: str
    from_seq: int


@dataclass(frozen=True)
class Branch:
    run: int
    region: str
    from_seq: int


Deed: TypeAlias = Write | Burst | Twins | Rivals | Read | Follow | Branch

_FLAG = st.booleans()
_TWO = st.tuples(REGION, REGION)
_WRITING = st.one_of(
    st.builds(Write, NUMBER, REGION, ONE_OR_TWO, _FLAG, _FLAG, _FLAG),
    st.builds(Burst, NUMBER, REGION, st.integers(2, 8), _FLAG),
    st.builds(Twins, NUMBER, _TWO, ONE_OR_TWO),
    st.builds(Rivals, NUMBER, _TWO, ONE_OR_TWO),
)
_READING = st.one_of(
    st.builds(Read, NUMBER, REGION, FRESHNESS, NUMBER),
    st.builds(Follow, NUMBER, REGION, NUMBER),
    st.builds(Branch, NUMBER, REGION, NUMBER),
)
WRITERS = st.lists(_WRITING, min_size=2, max_size=5)
READERS = st.lists(_READING, max_size=3)
