"""What the logs of Patroni and PostgreSQL say about a failover, and when. Text in, values out: no files.

Both write to one log a region, in UTC: PostgreSQL ``2026-01-01 00:00:00.000 UTC [1] LOG:  …``, Patroni ``2026-01-01 00:00:00,000 INFO: …``.
"""

import re
from datetime import UTC, datetime
from typing import Final

from isoline_drill.failover import Return

LEADS: Final = "the leader with the lock"
LOCKED: Final = "promoted self to leader by acquiring session lock"
PROMOTED: Final = "database system is ready to accept connections"
COUNTS: Final = re.compile(r'standby "[^"]+" is now a ')
"""A commit can be acknowledged by the help of that standby."""
QUORUM_OF_TWO: Final = re.compile(r"Setting leader to \S+, quorum to 1 of 2 ")
"""Both standbys may be elected, by the vote of the other one."""

Words = str | re.Pattern[str]

_WHEN: Final = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[.,](\d{3})")


def first_said(text: str, words: Words) -> float | None:
    """When a log said so first, in seconds of the wall clock; None: not yet. The last line may be half written and does not count."""
    wanted = re.compile(re.escape(words)) if isinstance(words, str) else words
    whole, _, _ = text.rpartition("\n")
    for line in whole.splitlines():
        when = _WHEN.match(line)
        if when is not None and wanted.search(line):
            at = datetime.strptime(when[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
            return at.timestamp() + int(when[2]) / 1000
    return None


def way_back(text: str) -> Return:
    """How a node came to follow, by what its log said since it was started."""
    if "replica has been created" in text:
        return "copied"
    return "rewound" if "pg_rewind exit code=0" in text else "followed"
