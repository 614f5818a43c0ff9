"""Runs a program inside a region: in its network namespace, and no longer than the process that started it. No routing, no namespaces made.

As a script it is ``enter.py PARENT NETNS PROGRAM ARGUMENT...``; ``PARENT`` may be left out, and then a parent that dies in the first
milliseconds goes unnoticed. Standard library only, because it runs with ``python -I -S``.

The kernel takes the death of the *thread* that forked for the death of the parent: start programs from a thread that lives as long as they
should. A program that changes its user afterwards loses the tie.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

ANYWHERE: Final = "-"  # as NETNS: stay in the namespace of the caller
CLONE_NEWNET: Final = 0x40000000
PR_SET_PDEATHSIG: Final = 1
EXIT_PARENT_GONE: Final = 98


def command(namespace: str | None, argv: Sequence[str]) -> list[str]:
    """The command line that runs ``argv`` in this namespace (None: in the caller's), killed when the calling process dies."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), namespace or ANYWHERE, *argv]


def join(namespace: str) -> None:
    """Move the calling thread into the network namespace with this path. Raises ``OSError``: not there, or not allowed."""
    handle = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        set_namespace(handle)
    finally:
        os.close(handle)


def set_namespace(handle: int) -> None:
    """Move the calling thread into the network namespace of this open file. Raises ``OSError``: not allowed."""
    _checked("setns", _libc().setns(handle, CLONE_NEWNET))


def tie() -> None:
    """Have this process killed when its parent dies. Linux only; elsewhere nothing happens."""
    if sys.platform == "linux":
        _checked("prctl", _libc().prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(call: str, result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{call}: {os.strerror(code)}")


def main(argv: list[str]) -> NoReturn:
    """Become the program."""
    parent = int(argv.pop(0)) if argv[0].isdigit() else os.getppid()
    tie()
    if os.getppid() != parent:  # it died before the kernel was asked
        sys.exit(EXIT_PARENT_GONE)
    namespace, *program = argv
    if namespace != ANYWHERE:
        join(namespace)
    os.execvp(program[0], program)  # noqa: S606 (no shell is what we want)


if __name__ == "__main__":
    main(sys.argv[1:])
