"""Which layers are on. For the tests that show what each of them holds alone; nothing else turns one off."""

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Fences:
    """What a replay worker puts around itself."""

    namespaces: bool = True
    landlock: bool = True
    call_filter: bool = True


@dataclass(slots=True)
class Switches:
    """One switch a layer. ``carrying`` takes the policy to threads, for both in-process layers; ``fences`` are for workers yet to start."""

    seams: bool = True
    hooks: bool = True
    carrying: bool = True
    fences: Fences = field(default_factory=Fences)


SWITCHES: Final = Switches()
