"""What a branch begins with: its overlay, recorded once at the start of its own part of the log. Pure.

``{"inputs": {…}, "variables": {…}, "configurable": {…}}``, each optional. A branch from seq 0 gets a ``run.started`` of its own with the
source's inputs and those of the overlay over them. A later branch inherits ``run.started``, which is history: there the inputs are set as
variables. ``configurable`` is the variable of that name. So a state at any later seq is a fold of the log alone, and says what was asked.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from isoline_client.events import NewEvent

MARK: Final = "x-isoline-overlay"
"""Member of the events that record an overlay."""

_MEMBERS: Final = ("inputs", "variables", "configurable")


class OverlayInvalid(ValueError):
    """The overlay cannot be used; the message says why."""


def read_overlay(data: bytes) -> Mapping[str, Mapping[str, Any]]:
    """Read an overlay. Raise ``OverlayInvalid``."""
    overlay = json.loads(data) if data else {}
    for name, value in overlay.items():
        if name not in _MEMBERS:
            raise OverlayInvalid(f"run_options_overlay: {name!r} is not known (known: {', '.join(_MEMBERS)})")
        if not isinstance(value, dict):
            raise OverlayInvalid(f"run_options_overlay: {name} must be an object")
    found: Mapping[str, Mapping[str, Any]] = overlay
    return found


def first_events(overlay: Mapping[str, Mapping[str, Any]], started: Mapping[str, Any] | None) -> list[NewEvent]:
    """The first own events of a branch. ``started``: the payload of the source's ``run.started`` when it is not inherited."""
    inputs = overlay.get("inputs", {})
    variables = dict(overlay.get("variables", {}))
    if "configurable" in overlay:
        variables["configurable"] = overlay["configurable"]
    if started is None:
        return _changes({**inputs, **variables})
    again = {**started, "inputs": {**started.get("inputs", {}), **inputs}}
    return [NewEvent("run.started", again), *_changes(variables)]


def is_recorded(events: Sequence[tuple[str, Mapping[str, Any]]]) -> bool:
    """Whether these own events of a branch, as types and payloads, hold its overlay."""
    return any(kind == "run.started" or MARK in payload for kind, payload in events)


def _changes(values: Mapping[str, Any]) -> list[NewEvent]:
    return [
        NewEvent("variable.changed", {"name": name, "next": value, MARK: True})
        for name, value in sorted(values.items())
    ]
