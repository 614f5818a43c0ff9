"""Where in a node a draw is made: scopes, and the counters in them. Coordinates depend on the shape of the code, never on who is faster.

The handler runs in the root scope (``""``). ``ctx.gather`` gives each of its parts a scope of its own, numbered in the order in which parts
were handed in (``"0"``, ``"1"``, in them ``"0.0"``), so that parts may run in any order and each still counts for itself.
"""

from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from isoline_client.workflow.results import DrawAt


@dataclass(slots=True, eq=False)
class Scope:
    """One scope of one execution."""

    path: str = ""
    _drawn: Counter[str] = field(default_factory=Counter)
    _children: int = 0

    def next(self, source: str) -> DrawAt:
        """Coordinates of the next draw from a source."""
        ordinal = self._drawn[source]
        self._drawn[source] = ordinal + 1
        return DrawAt(scope=self.path, source=source, ordinal=ordinal)

    def child(self) -> "Scope":
        """The next scope within this one."""
        number = self._children
        self._children = number + 1
        return Scope(f"{self.path}.{number}" if self.path else str(number))


SCOPE: Final[ContextVar[Scope]] = ContextVar("isoline_scope")
"""The scope of the code that runs now, inside a node."""
