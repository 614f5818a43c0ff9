"""How a command can end: the exit codes, which error is which, and what is said about it. No printing here.

===  ==================================================================================================================
0    done
1    a negative answer: runs differ, a region differs or lags behind its duty, bytes do not verify
2    wrong usage: an option, a file, a line of input
3    refused by the server: no such run, a lost race, a limit, a key
4    no answer, or none that tells whether a change landed
130  interrupted
141  whoever read the output has gone
===  ==================================================================================================================
"""

from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, Final

from isoline_client import errors
from isoline_client.errors import IsolineError


class Exit(IntEnum):
    """The exit codes, which scripts depend on."""

    OK = 0
    NEGATIVE = 1
    USAGE = 2
    REFUSED = 3
    UNAVAILABLE = 4
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class CommandError(Exception):
    """A command cannot go on, for a reason that is no error of the client. ``details`` are for machines."""

    def __init__(self, message: str, exit_code: Exit = Exit.USAGE, **details: Any) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.details = details


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What is to be said about an error."""

    kind: str
    message: str
    exit_code: Exit
    reason: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    hints: tuple[str, ...] = ()


_SAID_ELSEWHERE: Final = {"error", "retryable"}
_BASE: Final = {each.name for each in fields(IsolineError)}
_CODES: Final = {
    "DATA_LOSS": Exit.NEGATIVE,
    "INTERNAL": Exit.UNAVAILABLE,
    "UNKNOWN": Exit.UNAVAILABLE,
    "RESOURCE_EXHAUSTED": Exit.UNAVAILABLE,
}


def describe(error: IsolineError | CommandError) -> Failure:
    """What is to be said about ``error``. Its notes (``add_note``) are hints to the user."""
    hints = tuple(getattr(error, "__notes__", ()))
    if isinstance(error, CommandError):
        return Failure(
            kind="CommandError", message=str(error), exit_code=error.exit_code, details=error.details, hints=hints
        )
    return Failure(
        kind=type(error).__name__,
        message=str(error),
        exit_code=exit_code(error),
        reason=error.reason,
        details=_details(error),
        hints=(*hints, *_hints(error)),
    )


def exit_code(error: IsolineError) -> Exit:
    """The exit code that an error of the client means."""
    match error:
        case errors.Damaged():
            return Exit.NEGATIVE
        case errors.Busy() | errors.ClientClosed():
            return Exit.UNAVAILABLE
        case errors.InvalidRequest() | errors.TooLarge() if not error.code:
            return Exit.USAGE  # found here, before anything was sent
        case errors.ServerError():
            return _CODES.get(error.code, Exit.REFUSED)
        case _:
            return Exit.REFUSED


def in_short(error: IsolineError | CommandError) -> str:
    """The error in a table's cell: a server that is not there needs no report of every attempt to connect."""
    gone = isinstance(error, errors.Unavailable) and not error.reason
    return "does not answer" if gone or isinstance(error, errors.DeadlineExceeded) else str(error)


def _details(error: IsolineError) -> dict[str, Any]:
    """The values of the error: what the server said, else the error's own fields."""
    if error.metadata:
        return {name: value for name, value in error.metadata.items() if name not in _SAID_ELSEWHERE}
    own = {each.name: getattr(error, each.name) for each in fields(error) if each.name not in _BASE}
    return {name: value for name, value in own.items() if value not in ("", -1)}


def _hints(error: IsolineError) -> tuple[str, ...]:
    match error:
        case errors.Unauthenticated():
            return ("give a key: ISOLINE_API_KEY, or --api-key-file",)
        case errors.SeqConflict() | errors.HeadContended():
            return ("another writer was faster: read the run, then decide",)
        case _:
            return ()
