"""What a seam is: one way by which an effect can leave a node, and the registry of all of them.

The registry is the only list. The manifest, the deny list of the audit hook and the patches are read from it, so none of them can forget
a seam that another one knows.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Kind = Literal["http", "smtp", "queue", "storage", "provider-sdk", "webhook-fanout", "other"]

NAME: Final = re.compile(r"[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)+")
"""The grammar of the manifest."""

Event = Callable[[tuple[Any, ...]], bool]
"""Whether an audit event with these arguments is an effect."""


def always(_arguments: tuple[Any, ...]) -> bool:
    """Every such event is an effect."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A callable of a module that is wrapped: ``module`` is watched for, imported by nobody here; ``path`` leads to it from there."""

    module: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seam:
    """One way out. ``points`` are what layer (a) wraps, ``events`` what layer (b) denies; ``unseen`` says what neither of them can see."""

    name: str
    kind: Kind
    module: str
    branch_refires: bool = True
    note: str = ""
    unseen: str = ""
    points: tuple[Point, ...] = ()
    events: Mapping[str, Event] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no name of a seam: words with a dot between them")
        if self.kind == "other" and not self.note:
            raise ValueError(f"the seam {self.name} is of kind other and needs a note")


class Registry:
    """Seams by name, in the order in which they were added."""

    def __init__(self) -> None:
        self._seams: dict[str, Seam] = {}
        self._events: dict[str, tuple[str, Event]] = {}

    def add(self, seam: Seam) -> Seam:
        """Add a seam. Its name and its events must be its own."""
        if taken := [name for name in (seam.name, *seam.events) if name in self._seams or name in self._events]:
            raise ValueError(f"another seam has {taken[0]}")
        self._seams[seam.name] = seam
        self._events.update({event: (seam.name, is_effect) for event, is_effect in seam.events.items()})
        return seam

    def remove(self, name: str) -> None:
        """Take a seam out again."""
        for event in self._seams.pop(name).events:
            del self._events[event]

    def __iter__(self) -> Iterator[Seam]:
        return iter(tuple(self._seams.values()))

    @property
    def events(self) -> Mapping[str, tuple[str, Event]]:
        """The deny list: for each audit event the seam it belongs to, and whether its arguments make it an effect."""
        return self._events


REGISTRY: Final = Registry()
