"""Running an idempotent statement again when another runner was in its way.

This is not the retry law of transactions: only statements that may run twice come here.
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from sqlalchemy.exc import DBAPIError

Result = TypeVar("Result")

ATTEMPTS: Final = 5
PAUSE_S: Final = 0.05
RACE_STATES: Final = frozenset(
    {
        "40001",  # serialization failure
        "40P01",  # deadlock
        "23505",  # two runners both found nothing IF NOT EXISTS, and one of them was first in PostgreSQL's catalogue
        "42P07",  # the same, seen one moment later
        "42710",  # the same, for a constraint or a type
    }
)


def rerun(action: Callable[[], Result]) -> Result:
    """Call ``action``, which must be harmless to repeat, until no rival is in its way."""
    for attempt in range(1, ATTEMPTS):
        try:
            return action()
        except DBAPIError as error:
            if sqlstate(error) not in RACE_STATES:
                raise
            time.sleep(PAUSE_S * attempt)
    return action()


def sqlstate(error: DBAPIError) -> str | None:
    """The five characters by which the database names an error; None if the connection itself failed."""
    state = getattr(error.orig, "sqlstate", None)
    return None if state is None else str(state)
