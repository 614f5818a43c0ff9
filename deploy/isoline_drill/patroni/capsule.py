"""Runs a program with all it starts in a world of processes of its own, so that nothing of it outlives us, however we end. Linux, as root.

As a script it is ``capsule.py WAY UID GID FOLDER PROGRAM ARGUMENT...``, the first three an ``Identity`` of the embedded PostgreSQL. Patroni
lets go of the PostgreSQL that it starts, so no tie to a parent reaches that one. A process namespace does: when its first process ends,
however it does, the kernel kills every other one in it. Their System V memory goes with a namespace, too.

SIGTERM kills everything inside at once, as a power cut would, and the script ends when all of it is gone. Standard library only, because it
runs with ``python -I -S``; how a user is changed is what the embedded PostgreSQL's ``launch`` does, which no script can import.
"""

import ctypes
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from isoline_server.embedded.identity import Identity

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
PR_SET_PDEATHSIG: Final = 1
MS_PRIVATE_ALL: Final = 0x40000 | 0x4000
MS_PROC: Final = 0x2 | 0x4 | 0x8
EXIT_NOT_MADE: Final = 97


def command(identity: "Identity", folder: Path, argv: Sequence[str]) -> list[str]:
    """The command line that runs ``argv`` in ``folder`` as that identity, shut in."""
    who = [identity.way, str(identity.uid), str(identity.gid)]
    return [sys.executable, "-I", "-S", __file__, *who, str(folder), *argv]


def main(argv: list[str]) -> int:
    way, uid, gid, folder, *program = argv
    alive, held = os.pipe()  # nobody writes; it is at its end when the last one who could is gone
    _libc("unshare", CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC)
    first = os.fork()
    if first == 0:
        os.close(held)
        _be_first(alive, lambda: _become_program(way, int(uid), int(gid), folder, program))
    signal.signal(signal.SIGTERM, lambda *_: os.kill(first, signal.SIGKILL))
    _, status = os.waitpid(first, 0)
    return os.waitstatus_to_exitcode(status)


def _be_first(alive: int, become_program: Callable[[], NoReturn]) -> NoReturn:
    """The first process of the new world: it ends with us or with its program, and adopts and buries whoever is let go of."""
    _libc("prctl", PR_SET_PDEATHSIG, signal.SIGKILL.value, 0, 0, 0)
    if select.select([alive], [], [], 0)[0]:  # we ended before the kernel was asked
        os._exit(EXIT_NOT_MADE)
    _mount(None, b"/", None, MS_PRIVATE_ALL)
    _mount(b"proc", b"/proc", b"proc", MS_PROC)
    main_pid = os.fork()
    if main_pid == 0:
        become_program()
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == main_pid:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _become_program(way: str, uid: int, gid: int, folder: str, program: list[str]) -> NoReturn:
    os.umask(0o077)
    if way == "namespace":
        _enter_user_namespace(uid, gid)
    elif way == "account":
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    os.chdir(folder)
    os.execv(program[0], program)  # noqa: S606 (no shell is what we want)


def _enter_user_namespace(uid: int, gid: int) -> None:
    """Be called ``uid`` without being anybody else: PostgreSQL refuses the name root, and files stay ours."""
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    _libc("unshare", CLONE_NEWUSER)
    for file, line in (("setgroups", "deny"), ("uid_map", f"{uid} {outer_uid} 1"), ("gid_map", f"{gid} {outer_gid} 1")):
        Path(f"/proc/self/{file}").write_text(line, encoding="ascii")


def _mount(source: bytes | None, target: bytes, kind: bytes | None, flags: int) -> None:
    _checked("mount", ctypes.CDLL(None, use_errno=True).mount(source, target, kind, ctypes.c_ulong(flags), None))


def _libc(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(name, getattr(libc, name)(*(ctypes.c_ulong(value) for value in arguments)))


def _checked(call: str, result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{call}: {os.strerror(code)}")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except OSError as failure:
        sys.stderr.write(f"could not launch: {failure}\n")
        os._exit(EXIT_NOT_MADE)
