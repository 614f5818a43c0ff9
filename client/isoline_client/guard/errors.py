"""What the guard says when something may not be, or a replay worker is not there.

::

    EffectDenied            an effect that may not leave (seam); a node's failure with code isoline.effect_denied
    IsolationUnavailable    this host gives no isolation, and it was required (reasons)
    WorkerDied              the replay worker ended while it was needed (why)
    WorkerFailed            the replay worker could not do what it was asked: a module does not import (why)
    FrameTooLarge           a message to or from the worker is over the limit (size, limit)
"""

from dataclasses import dataclass

from isoline_client.workflow.errors import NodeError


class EffectDenied(NodeError):
    """An effect may not leave. It is an ordinary exception; a node that swallows it fails all the same, for its scope remembers."""

    def __init__(self, *, seam: str, what: str = "") -> None:
        """``what`` is for people who debug. It is no part of the error that is logged: a live run and its replay must fail alike."""
        text = f"an effect may not leave this node through {seam}"
        super().__init__("isoline.effect_denied", text, retryable=False, details={"seam": seam})
        self.seam = seam
        self.what = what


@dataclass(eq=False)
class IsolationUnavailable(Exception):
    """No isolation on this host, and it was required."""

    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return "no isolated replay worker on this host: " + "; ".join(self.reasons)


@dataclass(eq=False)
class WorkerDied(Exception):
    """The replay worker ended while it was needed. What ran in it has no outcome and may be run again."""

    why: str

    def __str__(self) -> str:
        return f"the replay worker died: {self.why}"


@dataclass(eq=False)
class WorkerFailed(Exception):
    """The replay worker is there and could not do what it was asked."""

    why: str

    def __str__(self) -> str:
        return self.why


@dataclass(eq=False)
class FrameTooLarge(Exception):
    """A message between the executor and its worker is over the limit."""

    size: int
    limit: int

    def __str__(self) -> str:
        return f"a message of {self.size} bytes is over the limit of {self.limit}"
