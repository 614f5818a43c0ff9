"""Other programs, signals to them, and native code: what runs there is out of Python's sight."""

from typing import Any, Final

from isoline_client.guard.carrying import is_carried
from isoline_client.guard.seams.seam import REGISTRY, Point, Seam, always

_STARTS: Final = (
    "subprocess.Popen",
    "os.system",
    "os.posix_spawn",
    "os.spawn",
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.startfile",
    "os.kill",
    "os.killpg",
    "pty.spawn",
)


def _loads_a_library(arguments: tuple[Any, ...]) -> bool:
    """Whether ``dlopen`` brings in something: without a name it is the program itself, as ``import ctypes`` does."""
    return arguments[0] is not None


def _starts_a_bare_thread(arguments: tuple[Any, ...]) -> bool:
    """Whether a thread starts that would not take the policy along."""
    return not is_carried(arguments[0])


PROCESS: Final = REGISTRY.add(
    Seam(
        name="process.spawn",
        kind="other",
        module=__name__,
        note="subprocesses, multiprocessing and signals to other processes",
        unseen="a process or a pool that was started before and is reached by a pipe of its own",
        points=(
            Point(module="subprocess", path="Popen._execute_child"),
            Point(module="_posixsubprocess", path="fork_exec"),
            Point(module="multiprocessing.process", path="BaseProcess.start"),
            Point(module="concurrent.futures.process", path="ProcessPoolExecutor.submit"),
        ),
        events=dict.fromkeys(_STARTS, always),
    )
)

NATIVE: Final = REGISTRY.add(
    Seam(
        name="native.call",
        kind="other",
        module=__name__,
        note="libraries loaded with ctypes, and threads started below the threading module",
        unseen="functions that ctypes looked up before, and extension modules",
        events={
            "ctypes.dlopen": _loads_a_library,
            "ctypes.dlsym": always,
            "ctypes.dlsym/handle": always,
            "_thread.start_new_thread": _starts_a_bare_thread,
            "_thread.start_joinable_thread": _starts_a_bare_thread,
        },
    )
)
