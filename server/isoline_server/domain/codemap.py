"""The codemap: which v1 event name is which v2 name, and which payload members a v2 definition seats (OpenWOP v2 persistence.md, RFC 0176).

Belongs here: the map, its inverse, the two ways in which an event can have no v2 form. Not here: the table itself, which an outer layer
reads and hands in (``openwop``); the v1 document (``legacy``). Nothing is left out and nothing is made up: what cannot be mapped is refused.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from isoline_server.domain.canonical import Json

_V2_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*\.[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_V2_VENDOR_NAME: Final = re.compile(
    r"(?!openwop\.)(?P<org>[a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?:\.[a-z][a-z0-9]*(?:-[a-z0-9]+)*){1,2}"
)
_HATCH: Final = re.compile(r"openwop-|x-|vendor\.")
"""Member names that a definition with the hatch of RFC 0185 seats beside its own."""

VENDOR_ORGS: Final = frozenset({"example"})
"""The registered vendor orgs. ``example`` is the only one that is free for everybody."""


class CodemapInvalid(ValueError):
    """The table is no bijection, or a name in it breaks the grammar: nothing may be translated with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A closed object: the members it seats, each with the shape below it (None: whatever is there is seated)."""

    members: Mapping[str, "Shape | None"] = field(default_factory=dict)
    hatch: bool = False

    def unseated(self, value: Mapping[str, Json], prefix: str = "") -> Iterator[str]:
        """The members of ``value`` that have no seat, as dotted paths."""
        for name, member in value.items():
            if name in self.members:
                below = self.members[name]
                if below is not None and isinstance(member, dict):
                    yield from below.unseated(member, f"{prefix}{name}.")
            elif not (self.hatch and _HATCH.match(name)):
                yield prefix + name


class Codemap:
    """The bijection, and the shapes of the v2 payloads. A type whose shape is None, or not given, takes any payload."""

    def __init__(self, rows: Iterable[tuple[str, str]], shapes: Mapping[str, Shape | None]) -> None:
        """Take ``(v1, v2)`` rows. Raises ``CodemapInvalid``."""
        table = list(rows)
        self._to_v2 = dict(table)
        self._to_v1 = {v2: v1 for v1, v2 in table}
        self._shapes = dict(shapes)
        if not len(table) == len(self._to_v2) == len(self._to_v1):
            raise CodemapInvalid("a name stands twice in the table: it is no bijection")
        for v1, v2 in table:
            if _V2_NAME.fullmatch(v2) is None:
                raise CodemapInvalid(f"{v2!r} is no v2 event name")
            if v1 != v2 and v1 in self._to_v1:
                # The other row's v2 name would read back as this row's: an unchanged name and a translated one could not be told apart.
                raise CodemapInvalid(f"{v1!r} is one row's v1 name and another row's v2 name")
        unknown = self._shapes.keys() - self._to_v1.keys()
        if unknown:
            raise CodemapInvalid(f"{min(unknown)!r} has a shape and no row")

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._to_v2.items())

    def v2_type(self, v1_type: str) -> str | None:
        """The v2 name of a v1 event: mapped, or unchanged under a registered vendor org; None when it has none."""
        mapped = self._to_v2.get(v1_type)
        if mapped is not None:
            return mapped
        vendor = _V2_VENDOR_NAME.fullmatch(v1_type)
        return v1_type if vendor is not None and vendor["org"] in VENDOR_ORGS else None

    def v1_type(self, v2_type: str) -> str:
        """How an era-2 log spells a v2 type; one without a row is spelled as it is."""
        return self._to_v1.get(v2_type, v2_type)

    def unseated(self, v2_type: str, payload: Mapping[str, Json]) -> tuple[str, ...]:
        """The members of a payload that its v2 definition cannot seat."""
        shape = self._shapes.get(v2_type)
        return () if shape is None else tuple(shape.unseated(payload))

    def is_checked(self, v2_type: str) -> bool:
        """Whether payloads of the type are compared with a definition."""
        return self._shapes.get(v2_type) is not None
