"""Why a driver stops with a run, and what ends its reading of the log. Values only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The run is given back: how far its log was acted upon, and when it wants an executor again (None: when something happens)."""

    why: str
    wake_in_ms: int | None = None
    seen_head_seq: int = -1
    """-1: the log was not read, so nothing that happened to it may be missed or waited for."""


class Overtaken(Exception):
    """Somebody wrote to the log what changes the plan: it is to be read again."""
