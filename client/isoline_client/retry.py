"""The retry law, in this one place: which failures are final, how long to wait before the next try, and what to say in the end.

Pure but for the clock and the dice that are handed in. A changing call may be repeated after *any* failure, because every try carries the
same request id: the server answers a repeat with the first outcome. That is why ``UNAVAILABLE``, which gRPC may say after the write, may
be repeated here, and why a call that gives up without a definite answer says ``OutcomeUnknown`` rather than ``Unavailable``.
"""

import random
import time
from collections.abc import Callable
from enum import Enum
from typing import Final, NoReturn

from isoline_client import errors, limits
from isoline_client.errors import IsolineError

Clock = Callable[[], float]


class Verdict(Enum):
    """What to do about a failed try."""

    FINAL = "raise it"
    LATER = "pause, then try the same server"
    ELSEWHERE = "try another server, or pause when there is none"


_LAW: Final[tuple[tuple[type[IsolineError], Verdict], ...]] = (
    (errors.HeadContended, Verdict.LATER),
    (errors.TooManyWaiting, Verdict.LATER),
    (errors.OutcomeUnknown, Verdict.ELSEWHERE),
    (errors.Unavailable, Verdict.ELSEWHERE),
    (errors.DeadlineExceeded, Verdict.ELSEWHERE),
)
_NOT_ABOUT_THE_CHANGE: Final = (errors.Unauthenticated, errors.PermissionDenied, errors.ServerError)
"""Final answers that do not tell whether an earlier try of the same call has landed."""


def verdict(error: IsolineError) -> Verdict:
    """Look the error up in the law; what is not in it is final, unless a server newer than this client says otherwise."""
    if isinstance(error, errors.ServerError) and error.retryable:
        return Verdict.LATER
    return next((found for kind, found in _LAW if isinstance(error, kind)), Verdict.FINAL)


class Attempts:
    """The tries of one call: counts them, and knows when the time is up. Time and the growing pauses are what bounds them.

    ``request_id`` is that of a changing call, else None. ``restart`` begins a new budget, for streams that made progress.
    """

    __slots__ = ("_clock", "_deadline", "_in_doubt", "_request_id", "_tries")

    def __init__(self, timeout_s: float, request_id: str | None = None, clock: Clock = time.monotonic) -> None:
        self._request_id = request_id
        self._clock = clock
        self._in_doubt = False
        self.restart(timeout_s)

    def restart(self, timeout_s: float) -> None:
        self._deadline = self._clock() + timeout_s
        self._tries = 0

    @property
    def remaining_s(self) -> float:
        return self._deadline - self._clock()

    def try_timeout_s(self, *, last_resort: bool) -> float:
        """How long the next try may take: all that is left, or half of it when another server could be asked after it."""
        remaining_s = max(self.remaining_s, 0.001)
        return remaining_s if last_resort or remaining_s < limits.TRY_S_MIN else remaining_s / 2

    def failed(self, error: IsolineError) -> Verdict:
        """Note a failed try; raise what ends the call, or tell how to go on."""
        self._tries += 1
        self._in_doubt |= not errors.surely_not_carried_out(error)
        found = verdict(error)
        hopeless = isinstance(error, errors.ServerError) and self._tries >= limits.SERVER_ERROR_TRIES_MAX
        if found is Verdict.FINAL or hopeless or self.remaining_s <= 0:
            self._give_up(error)
        return found

    def pause_s(self, error: IsolineError) -> float:
        """How long to wait before the next try; raise the error when there would be no time left for one."""
        whole_s = min(limits.PAUSE_FIRST_S * 2.0 ** (self._tries - 1), limits.PAUSE_MAX_S)
        pause_s = max(whole_s * random.uniform(0.5, 1.0), error.retry_after_s)  # noqa: S311 - spreads callers, hides nothing
        if pause_s >= self.remaining_s:
            self._give_up(error)
        return pause_s

    def _give_up(self, error: IsolineError) -> NoReturn:
        definite = verdict(error) is Verdict.FINAL and not isinstance(error, _NOT_ABOUT_THE_CHANGE)
        if self._request_id is None or not self._in_doubt or definite:
            raise error
        advice = f"repeat it with request_id {self._request_id} to learn"
        raise errors.OutcomeUnknown(
            message=f"after {self._tries} tries it is not known whether the change landed; {advice}: {error}",
            request_id=self._request_id,
            reason=error.reason,
            metadata=error.metadata,
            code=error.code,
        ) from error
