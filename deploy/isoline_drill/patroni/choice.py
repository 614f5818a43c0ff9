"""Whether Patroni or an operator promotes in a drill: what was asked for, what the drill is about, and what this machine has."""

from collections.abc import Callable
from typing import Final

from isoline_drill.errors import DrillError
from isoline_drill.patroni.installed import Programs, find_programs
from isoline_drill.wan import namespaces_work
from isoline_drill.wan.base import Kind

ASKED: Final = ("auto", "operator", "patroni")
BY_PATRONI: Final = frozenset({"region-loss", "isolate"})
"""The drills in which Patroni may promote. The others fail nothing over, or need an operator's verbs."""


def makes_no_sense(drill: str, asked: str, wan: str) -> str | None:
    """Why this cannot be asked for, whatever the machine has."""
    if asked != "patroni":
        return None
    if drill not in BY_PATRONI:
        return f"--failover patroni: only for {', '.join(sorted(BY_PATRONI))}; not {drill}"
    if wan == "proxies":
        return "--failover patroni: needs --wan namespaces, for an etcd has one address for all regions; not proxies"
    return None


def choose(drill: str, asked: str, wan: Kind | None, report: Callable[[str], None]) -> Programs | None:
    """The programs by which Patroni promotes; None: an operator does. Raises ``DrillError`` when Patroni was asked for and cannot."""
    if asked == "operator" or drill not in BY_PATRONI:
        return None
    try:
        if wan == "proxies":
            raise DrillError("Patroni needs --wan namespaces")
        if (missing := namespaces_work()) is not None:
            raise DrillError(f"--failover patroni: needs network namespaces, and they do not work here: {missing}")
        programs = find_programs()
    except DrillError as error:
        if asked == "patroni":
            raise
        report(f"failover by the operator ({error})")
        return None
    report("failover by Patroni")
    return programs
