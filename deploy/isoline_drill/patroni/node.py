"""The programs of one region: its etcd, and its Patroni with the PostgreSQL below it. What they say and decide is read elsewhere."""

from typing import Final

from isoline_drill.processes import Program

KILL_S: Final = 10.0
"""The kernel needs milliseconds for it."""


class Node:
    """Started in parts, killed whole."""

    def __init__(self, *, etcd: Program, patroni: Program) -> None:
        self.etcd = etcd
        self._patroni = patroni
        self._started = False

    @property
    def lost(self) -> bool:
        """Has Patroni ended, and was not killed?"""
        return self._started and not self._patroni.running

    @property
    def running(self) -> bool:
        return self._started and self._patroni.running

    def start_patroni(self) -> None:
        self._patroni.launch()
        self._started = True

    def kill(self) -> None:
        """End all of it at once, as a power cut would. It is gone on return."""
        self._started = False
        if self._patroni.running:
            self._patroni.stop(KILL_S)  # the capsule kills what is in it, and ends when that is gone
        self.etcd.kill()

    def said(self) -> str:
        """What Patroni and PostgreSQL have written since they were started."""
        return self._patroni.said() if self._patroni.log.exists() else ""

    def log_tail(self) -> str:
        return self._patroni.log_tail()
