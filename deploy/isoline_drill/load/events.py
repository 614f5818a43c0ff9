"""The events of the load: each changes the run's state, and carries a marker of its own, so that one that stands twice, or nowhere, is seen."""

import json
from typing import Final

from isoline_client import Event, NewEvent

TYPE: Final = "variable.changed"


def event_of(marker: str) -> NewEvent:
    """The event with this marker: the same bytes whenever it is made, for repeats of a request must have the same body."""
    return NewEvent(TYPE, {"name": "load", "next": marker})


def marker_of(event: Event) -> str:
    """The marker of an event that was read; empty when it is not one of a load."""
    if event.type != TYPE:
        return ""
    marker = json.loads(event.payload_bytes).get("next")
    return marker if isinstance(marker, str) else ""
