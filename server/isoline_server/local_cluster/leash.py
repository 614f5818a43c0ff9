"""Ties a process to its parent: when the parent dies, however it dies, the child is sent a signal. Nothing else.

Run as a script it does so and then becomes another program, ``leash.py PARENT PROGRAM ARGUMENT...``: a program of its own rather than code
between fork and exec, which can deadlock in a process with threads. Standard library only, because it runs with ``python -I -S``.

The kernel takes the death of the *thread* that forked for the death of the parent: fork from a thread that lives as long as the process.
"""

import contextlib
import ctypes
import os
import signal
import stat
import sys
import threading
from typing import Final, NoReturn

PR_SET_PDEATHSIG: Final = 1
EXIT_PARENT_GONE: Final = 98
_STDIN: Final = 0


def tie(number: signal.Signals) -> None:
    """Ask the kernel for a signal at the parent's death. Linux only; elsewhere nothing happens."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl: {os.strerror(code)}")


def end_with_parent() -> None:
    """Have this process sent SIGTERM when its parent ends.

    A parent that died before we could ask the kernel goes unnoticed, so one that wants no gap gives us a pipe as standard input and holds
    its other end: the end of the pipe counts as the parent's. This also serves where the kernel cannot be asked.
    """
    tie(signal.SIGTERM)
    with contextlib.suppress(OSError):
        if stat.S_ISFIFO(os.fstat(_STDIN).st_mode):
            threading.Thread(target=_wait_for_end_of_input, name="leash", daemon=True).start()


def _wait_for_end_of_input() -> None:
    with contextlib.suppress(OSError):
        while os.read(_STDIN, 4096):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


def main(parent: int, argv: list[str]) -> NoReturn:
    """Become ``argv``, to be killed when ``parent`` dies."""
    tie(signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was asked
        sys.exit(EXIT_PARENT_GONE)
    os.execv(argv[0], argv)  # noqa: S606 (no shell is what we want)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
