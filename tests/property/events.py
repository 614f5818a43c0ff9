"""Events of many kinds, each with a number of its own, so that no two are alike and one that stands twice, or nowhere, is seen.

Payloads are spelled in ways that no encoder would choose: what comes back must be the bytes that were sent, not the value they mean.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

from isoline_client import NewEvent

_numbers = count(1)

SMALL: Final[dict[str, Callable[[int], NewEvent]]] = {
    "note": lambda n: NewEvent("example.noted", f'{{"n":{n}}}'),
    "spaced": lambda n: NewEvent("example.noted", f'\t{{ "n" :\r\n {n}, "half" : 5.0e-1, "s" : "\\u00e4ä" }} '),
    "masked": lambda n: NewEvent(
        "example.noted", f'{{"at":{n}}}', node_id=f"node{n % 3}", masked=["/at"], engine_version=2
    ),
    "caused": lambda n: NewEvent("example.noted", f'{{"n":{n}}}', causation_id=f"{n:016d}", schema_version=3),
    "node": lambda n: NewEvent("node.completed", f'{{"n":{n},"outputs":{{"a":1}}}}', node_id=f"node{n % 3}"),
    "start": lambda n: NewEvent("run.started", f'{{"inputs":{{"begun":{n}}}}}'),
    "pause": lambda n: NewEvent("run.paused", f'{{"n":{n}}}'),
    "resume": lambda n: NewEvent("run.resumed", f'{{"n":{n}}}'),
    "set": lambda n: NewEvent("variable.changed", f'{{"name":"v{n % 3}", "next":[{n}, null]}}'),
    "unset": lambda n: NewEvent("variable.changed", f'{{"name":"v{n % 3}","n":{n}}}'),
    "put": lambda n: NewEvent("channel.written", f'{{"channel":"put","reducer":"replace","value":{n}}}'),
    "push": lambda n: NewEvent("channel.written", f'{{"channel":"push","reducer":"append","value":{n}}}'),
    "add": lambda n: NewEvent("channel.written", f'{{"channel":"add","reducer":"counter","value":{n}}}'),
    "merge": lambda n: NewEvent(
        "channel.written", f'{{"channel":"merge","reducer":"merge","value":{{"k{n % 3}":{n}}}}}'
    ),
}
"""How an event of each kind is made from its number."""

FORBIDDEN_BEHIND_THE_END: Final = frozenset(
    {"node.completed", "run.started", "run.paused", "run.resumed", "run.completed", "run.failed", "run.cancelled"}
)
_MAKERS: Final = {**SMALL, "large": lambda n: NewEvent("example.noted", f'{{"n":{n},"filler":"{"x" * 300_000}"}}')}
KINDS: Final = tuple(_MAKERS)


def make(kinds: Sequence[str]) -> tuple[NewEvent, ...]:
    """Fresh events of these kinds."""
    return tuple(_MAKERS[kind](next(_numbers)) for kind in kinds)


def ending(word: str) -> NewEvent:
    """A terminal event."""
    return NewEvent(f"run.{word}", f'{{"n":{next(_numbers)}}}')
