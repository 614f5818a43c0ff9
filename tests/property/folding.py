"""A second, simple fold of the events in ``events``: what the server's state must be, byte for byte. It shares no code with the server's."""

import json
from collections.abc import Iterable
from typing import Any

from isoline_client import TERMINAL_TYPES, NewEvent


def fold(events: Iterable[NewEvent]) -> bytes:
    """The canonical state behind ``events``. Their keys are ASCII and their numbers small: there, sorted compact JSON is canonical JSON."""
    folding = _Folding()
    for event in events:
        folding.add(event.type, json.loads(event.payload_bytes))
    state = {"channels": folding.channels, "status": folding.status, "variables": folding.variables}
    return json.dumps(state, sort_keys=True, separators=(",", ":")).encode()


class _Folding:
    def __init__(self) -> None:
        self.phase = "pending"
        self.paused = False
        self.variables: dict[str, Any] = {}
        self.channels: dict[str, Any] = {}

    @property
    def ended(self) -> bool:
        return self.phase not in ("pending", "running")

    @property
    def status(self) -> str:
        return "paused" if self.paused else self.phase

    def add(self, kind: str, payload: dict[str, Any]) -> None:
        if kind in TERMINAL_TYPES and not self.ended:
            self.phase, self.paused = kind.removeprefix("run."), False
        elif kind == "run.started" and self.phase == "pending":
            self.phase = "running"
            self.variables |= payload["inputs"]
        elif kind in ("run.paused", "run.resumed"):
            self.paused = kind == "run.paused" and not self.ended
        elif kind == "variable.changed":
            self._set(payload)
        elif kind == "channel.written":
            self._write(payload["channel"], payload["value"])

    def _set(self, payload: dict[str, Any]) -> None:
        if "next" in payload:
            self.variables[payload["name"]] = payload["next"]
        else:
            self.variables.pop(payload["name"], None)

    def _write(self, channel: str, value: Any) -> None:
        match channel:
            case "put":
                self.channels[channel] = value
            case "push":
                self.channels.setdefault(channel, []).append(value)
            case "add":
                self.channels[channel] = self.channels.get(channel, 0) + value
            case "merge":
                self.channels.setdefault(channel, {}).update(value)
