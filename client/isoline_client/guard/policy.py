"""What may leave now: the policy of whatever runs at the moment, and the question that every layer asks it.

The policy belongs to the context (a ``ContextVar``), so that nodes that run side by side have their own. ``carrying`` takes it to threads
and pools. What a question is about, a seam, is only a name here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from isoline_client.guard.errors import EffectDenied


class Policy(Enum):
    """What the code that runs now may do to the world outside."""

    OPEN = "open"
    """Not a node: the executor itself, its client, the import of a module."""
    EFFECTS = "effects"
    """A live node whose role is to have effects, or to call a model."""
    PURE = "pure"
    """A live pure node: nothing may leave, or a replay that runs it again would do it twice."""
    REPLAY = "replay"
    """A node of a replay: nothing may leave, its outcome is history."""

    @property
    def denies(self) -> bool:
        """Whether nothing may leave."""
        return self in _DENYING


_DENYING: Final = frozenset({Policy.PURE, Policy.REPLAY})


@dataclass(slots=True, eq=False)
class Scope:
    """One stretch of work under one policy. It remembers what was denied in it, because the work may swallow the exception."""

    policy: Policy
    denied: list[EffectDenied] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.denies = self.policy.denies

    denies: bool = field(init=False)


OUTSIDE: Final = Scope(Policy.OPEN)
"""The scope of everything that is not a node."""

_scope: ContextVar[Scope] = ContextVar("isoline_guard_scope")
_floor: Scope = OUTSIDE


def current() -> Scope:
    """The scope that the code asking is in."""
    return _scope.get(_floor)


@contextmanager
def enter(policy: Policy) -> Iterator[Scope]:
    """Work under ``policy``; afterwards the policy is what it was before. Scopes nest, and the inner one counts."""
    with within(Scope(policy)) as scope:
        yield scope


@contextmanager
def within(scope: Scope) -> Iterator[Scope]:
    """Work in a scope that exists: what a thread does for the node that started it."""
    token = _scope.set(scope)
    try:
        yield scope
    finally:
        _scope.reset(token)


def set_floor(policy: Policy) -> None:
    """Set the policy of code that no scope reaches: threads from before, contexts made empty. A replay worker has no outside."""
    global _floor  # noqa: PLW0603 - one process, one floor
    _floor = Scope(policy)


def ask(seam: str, what: str = "") -> None:
    """Ask whether an effect may leave through ``seam``; raise ``EffectDenied`` if not."""
    scope = current()
    if scope.denies:
        raise refused(scope, seam, what)


def refused(scope: Scope, seam: str, what: str) -> EffectDenied:
    """The error of an effect that may not leave, noted in its scope."""
    denied = EffectDenied(seam=seam, what=what)
    scope.denied.append(denied)
    return denied
