"""The first few milliseconds of every PostgreSQL program: become the right user, tie our life to the supervisor's, then exec.

Run as a script by ``process.py``, never imported; standard library only, because it runs with ``python -I -S``. A program of its own
rather than a ``preexec_fn``: code between fork and exec can deadlock in a process with threads, and ours has them.
"""

import ctypes
import json
import os
import sys
from typing import Any, Final, NoReturn

PR_SET_PDEATHSIG: Final = 1
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWNET: Final = 0x40000000
EXIT_NOT_LAUNCHED: Final = 97
"""Neither PostgreSQL nor a shell uses this code, so the supervisor can tell our failures from theirs."""


def main(order: dict[str, Any]) -> NoReturn:
    os.umask(0o077)
    if (network := order["network"]) is not None:
        enter_network(
            network
        )  # while we still may: neither an ordinary account nor a user namespace of its own is allowed to
    if (label := order["namespace"]) is not None:
        enter_user_namespace(*label)
    if (account := order["account"]) is not None:
        become(*account)
    if sys.platform == "linux":
        # After every change of user: the kernel forgets the wish when credentials change.
        call_libc("prctl", PR_SET_PDEATHSIG, int(order["death_signal"]), 0, 0, 0)
    if os.getppid() != order["parent"]:
        raise OSError("the supervisor has gone")  # it died before the wish was heard
    os.chdir(order["folder"])
    argv = order["argv"]
    if not argv:  # a mere trial of the user
        raise SystemExit(0)
    os.execv(argv[0], argv)  # noqa: S606 (no shell is what we want)


def enter_network(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    call_libc("setns", descriptor, CLONE_NEWNET)
    os.close(descriptor)


def enter_user_namespace(uid: int, gid: int) -> None:
    """Be called ``uid`` without being anybody else: PostgreSQL refuses the name root, and files stay ours."""
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    call_libc("unshare", CLONE_NEWUSER)
    for file, line in (("setgroups", "deny"), ("uid_map", f"{uid} {outer_uid} 1"), ("gid_map", f"{gid} {outer_gid} 1")):
        with open(f"/proc/self/{file}", "w", encoding="ascii") as target:  # noqa: PTH123 (pathlib costs start-up time)
            target.write(line)


def become(uid: int, gid: int) -> None:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def call_libc(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*(ctypes.c_ulong(value) for value in arguments)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except OSError as failure:
        sys.stderr.write(f"could not launch: {failure}\n")
        sys.exit(EXIT_NOT_LAUNCHED)
