"""Running an idempotent statement again when another runner, or what a dead one left under way, was in its way.

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


BUSY_STATE: Final = "55000"
"""CockroachDB: a region is being added or dropped, or an index is. The job goes on when the runner that ordered it is dead.
https://www.cockroachlabs.com/docs/v26.2/alter-database#add-region"""
BUSY_WAIT_S: Final = 45.0
"""How long such a job is waited for: less than a lease lasts, for nobody renews it meanwhile."""
BUSY_PAUSE_S: Final = 0.5


def rerun(action: Callable[[], Result]) -> Result:
    """Call ``action``, which must be harmless to repeat, until nothing is in its way. Raises what it raises when that takes too long."""
    patience_ends_s = time.monotonic() + BUSY_WAIT_S
    attempt = 0
    while True:
        try:
            return action()
        except DBAPIError as error:
            state = sqlstate(error)
            if state == BUSY_STATE and time.monotonic() < patience_ends_s:
                time.sleep(BUSY_PAUSE_S)
                continue
            attempt += 1
            if state not in RACE_STATES or attempt == ATTEMPTS:
                raise
            time.sleep(PAUSE_S * attempt)


def sqlstate(error: DBAPIError) -> str | None:
    """The five characters by which the database names an error; None if the connection itself failed."""
    state = getattr(error.orig, "sqlstate", None)
    return None if state is None else str(state)
