"""Putting the in-process layers in place, once a process, and telling what is on."""

import threading
from dataclasses import dataclass
from typing import Final

from isoline_client.guard import carrying, hooks, patching
from isoline_client.guard.isolation import IsolationReport, probe

_lock: Final = threading.Lock()
_done: Final[list[bool]] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """Which layers hold: (a) and (b) in this process, and (c) in the replay workers that it can start."""

    seams: bool
    hooks: bool
    isolation: IsolationReport

    @property
    def notes(self) -> tuple[str, ...]:
        """What is missing, in words."""
        missing = () if self.seams and self.hooks else ("the in-process layers are not installed",)
        return (*missing, *self.isolation.reasons)


def install() -> None:
    """Wrap the seams, carry the policy into threads and pools, add the audit hook. A second call does nothing."""
    with _lock:
        if not _done:
            carrying.install()
            patching.install()
            hooks.install()
            _done.append(True)


def installed() -> bool:
    """Whether ``install`` was called in this process."""
    return bool(_done)


def active() -> Active:
    """What is on."""
    return Active(seams=installed(), hooks=installed(), isolation=probe())
