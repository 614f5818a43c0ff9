"""What the log alone does not tell: an event that says that memory or a summary changed, without what it became.

A host that executes a fork has to serve memory and summaries as they were at the boundary, and has them from nowhere but the log. So where
one is not written into its event, no fork may begin behind it (OpenWOP v2 replay.md: it is refused, never substituted).
"""

from collections.abc import Mapping
from typing import Final

from isoline_server.domain.event import EventContent
from isoline_server.domain.payload import parse_payload

MEMORY_MEMBER: Final[Mapping[str, str]] = {"memory.written": "x-isoline-value", "memory.compacted": "x-isoline-value"}
SUMMARY_MEMBER: Final[Mapping[str, str]] = {"context.summarized": "x-isoline-summary"}
"""Event types, and the member of their payload that holds what the memory or the summary became."""


def lacks(content: EventContent, members: Mapping[str, str]) -> bool:
    """Whether the event does not hold what it says was written."""
    return members[content.type] not in parse_payload(content.payload)
