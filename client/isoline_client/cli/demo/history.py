"""Recorded histories: files of JSON lines to events. Pure but for the reading of the file; what is wrong is said with file and line."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from isoline_client.cli.failures import CommandError
from isoline_client.errors import InvalidRequest, TooLarge
from isoline_client.events import NewEvent


@dataclass(frozen=True, slots=True)
class History:
    """The events of one run."""

    name: str
    events: Sequence[NewEvent]


def read_history(path: Path) -> History:
    """Read a file: one object a line, with ``type``, ``payload``, and where they apply ``nodeId`` and ``masked``."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--history: {path}: {error}") from error
    events = [_event(line, f"{path}:{number}") for number, line in enumerate(lines, start=1) if line.strip()]
    if not events:
        raise CommandError(f"--history: {path}: there are no events in it")
    return History(path.stem, events)


_SPELLED: Final[dict[type, str]] = {str: "a text", dict: "an object", list: "an array"}


def _event(line: str, where: str) -> NewEvent:
    try:
        stored = json.loads(line)
        event = NewEvent(
            _member(stored, "type", str),
            _member(stored, "payload", dict),
            node_id=_member(stored, "nodeId", str, ""),
            masked=_member(stored, "masked", list, []),
        )
    except (ValueError, RecursionError, InvalidRequest, TooLarge) as error:
        raise CommandError(f"--history: {where}: {error}") from error
    return event


def _member(stored: Any, name: str, kind: type, default: Any = None) -> Any:
    if not isinstance(stored, dict):
        raise ValueError("must be a JSON object")  # noqa: TRY004 - a wrong line, not a wrong call
    value = stored.get(name, default)
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be {_SPELLED[kind]}")  # noqa: TRY004
    return value
