"""The policy goes along: into threads, and with each piece of work into thread pools.

Tasks and callbacks of asyncio copy their context by themselves. A thread begins with an empty one, so ``install`` wraps the places where
threads are started and where work is handed to a pool. ``loop.run_in_executor`` and ``asyncio.to_thread`` hand over to such a pool.
"""

import _thread
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

from isoline_client.guard.policy import Scope, current, within
from isoline_client.guard.switches import SWITCHES

_RAW_STARTS: Final = ("start_new_thread", "start_new", "start_joinable_thread")


@dataclass(frozen=True, slots=True)
class Carried:
    """Work that is done in the scope it was handed over in."""

    work: Callable[..., Any]
    scope: Scope

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with within(self.scope):
            return self.work(*args, **kwargs)


def is_carried(started: Any) -> bool:
    """Whether what a new thread begins with takes the policy along: work of ours, or the start of a ``Thread`` that runs such work."""
    return isinstance(started, Carried) or isinstance(vars(getattr(started, "__self__", _Nothing)).get("run"), Carried)


class _Nothing:
    """Stands for the owner of what has none."""


def install() -> None:
    """Wrap the starts of threads and the entrance of pools. Once a process."""
    threading.Thread.start = _carrying_start(threading.Thread.start)  # type: ignore[method-assign, assignment]
    ThreadPoolExecutor.submit = _carrying_submit(ThreadPoolExecutor.submit)  # type: ignore[method-assign]
    for name in _RAW_STARTS:
        if hasattr(_thread, name):
            setattr(_thread, name, _carrying_raw_start(getattr(_thread, name)))


def _carrying_start(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    @wraps(start)
    def carry(self: threading.Thread) -> None:
        scope = current()
        if scope.denies and SWITCHES.carrying:
            self.run = Carried(self.run, scope)  # type: ignore[method-assign]
        start(self)

    return carry


def _carrying_submit(submit: Callable[..., Any]) -> Callable[..., Any]:
    """Work outside of nodes is carried as well: the pool's thread may have been started by a node and be in its scope."""

    @wraps(submit)
    def carry(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return submit(self, Carried(fn, current()) if SWITCHES.carrying else fn, *args, **kwargs)

    return carry


def _carrying_raw_start(start: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(start)
    def carry(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        scope = current()
        return start(Carried(function, scope) if scope.denies and SWITCHES.carrying else function, *args, **kwargs)

    return carry
