"""The few system calls that shut a process in, and nothing that decides about them. Linux only; everything raises ``OSError`` elsewhere.

Called through ctypes: CPython 3.11 has none of them, and the libraries that have them know Landlock's file rights only, not its scopes.
"""

import ctypes
import errno
import os
import platform
import signal
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_CLONE_NEWIPC: Final = 0x08000000
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWNET: Final = 0x40000000

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_MODE_FILTER: Final = 2

_LANDLOCK_CREATE_RULESET: Final = 444
_LANDLOCK_ADD_RULE: Final = 445
_LANDLOCK_RESTRICT_SELF: Final = 446
_LANDLOCK_VERSION: Final = 1
_LANDLOCK_PATH_BENEATH: Final = 1

_WRITE_FILE: Final = 1 << 1
_CHANGE_FOLDER: Final = sum(1 << bit for bit in range(4, 13))  # remove and make entries of every kind
_WRITES_SINCE_ABI: Final = {
    1: _WRITE_FILE | _CHANGE_FOLDER,
    2: 1 << 13,
    3: 1 << 14,
    5: 1 << 15,
}  # link across, truncate, ioctl
_SCOPES: Final = 0b11  # abstract Unix sockets, signals
_SCOPES_ABI: Final = 6


def enter_empty_namespaces() -> None:
    """Leave for a network without interfaces and an IPC namespace of one's own, in a user namespace with the same ids. One thread only."""
    uid, gid = os.getuid(), os.getgid()
    _check("unshare", _libc().unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def die_with_parent() -> None:
    """Be killed when the thread that started this process ends."""
    _check("prctl", _libc().prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0))


def gain_no_privileges() -> None:
    """No program started from here gains any, by set-user-id or otherwise. Landlock and filters ask for it."""
    _check("prctl", _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def landlock_abi() -> int:
    """The version of Landlock that the kernel has; ``OSError`` when it has none or it is switched off."""
    return _check("landlock", _libc().syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION))


def allow_writes_only_beneath(folder: Path) -> None:
    """Make the file system read-only but for ``folder`` and the null device; signals stay inside, where the kernel can see to it."""
    abi = landlock_abi()
    writes = sum(rights for since, rights in _WRITES_SINCE_ABI.items() if since <= abi)
    attributes = struct.pack("=QQQ", writes, 0, _SCOPES) if abi >= _SCOPES_ABI else struct.pack("=Q", writes)
    rules = _check("landlock", _libc().syscall(_LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0))
    try:
        _add_rule(rules, folder, writes)
        _add_rule(rules, Path(os.devnull), writes & ~_CHANGE_FOLDER & ~(1 << 13))
        _check("landlock", _libc().syscall(_LANDLOCK_RESTRICT_SELF, rules, 0))
    finally:
        os.close(rules)


def _add_rule(rules: int, path: Path, rights: int) -> None:
    beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        attributes = struct.pack("=Qi", rights, beneath)
        _check("landlock", _libc().syscall(_LANDLOCK_ADD_RULE, rules, _LANDLOCK_PATH_BENEATH, attributes, 0))
    finally:
        os.close(beneath)


# A filter of system calls, for what the others do not hold: Unix sockets with a path, sockets of a virtual machine's host, modes of files.

_ARCHITECTURES: Final = {
    "x86_64": (0xC000003E, 41, 53, (90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280)),
    "aarch64": (0xC00000B7, 198, 199, (5, 6, 7, 14, 15, 16, 52, 53, 54, 55, 88)),
}
"""By machine: what the kernel calls it; ``socket``; ``socketpair``; and what changes a file's mode, owner, times or extended attributes, which
Landlock lets pass: chmod, chown, utime, setxattr, removexattr, and their variants."""

_NEWER_CHANGES: Final = (452, 463, 466)
"""fchmodat2, setxattrat and removexattrat have the same number everywhere."""

_IO_URING_SETUP: Final = 425
_FOREIGN_NUMBERS: Final = 0x40000000  # x32 calls have this bit
_SOCK_TYPE_MASK, _SOCK_DGRAM = 0xF, 2

_LOAD, _AND, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_ALLOW: Final = 0x7FFF0000
_DENY: Final = 0x00050000 | errno.EACCES


def filter_calls(families: Sequence[int]) -> None:
    """Refuse with ``EACCES``: sockets of any other family, pairs of datagram sockets (they can be pointed elsewhere), changes of what files are
    besides their content, and io_uring, which would pass by this filter."""
    if platform.machine() not in _ARCHITECTURES or sys.byteorder != "little":
        raise OSError(errno.ENOSYS, f"no filter for {platform.machine()}")
    program = ctypes.create_string_buffer(b"".join(_program(*_ARCHITECTURES[platform.machine()], families)))
    length = (len(program) - 1) // 8
    header = ctypes.create_string_buffer(struct.pack("@HP", length, ctypes.addressof(program)))
    _check("seccomp", _libc().prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0))


def _program(
    architecture: int, socket_number: int, pair_number: int, changes: Sequence[int], families: Sequence[int]
) -> list[bytes]:
    """The filter, in the instructions of the Berkeley packet filter. A jump counts the instructions it leaves out."""
    allow, deny = _code(_RETURN, _ALLOW), _code(_RETURN, _DENY)
    of_families = [
        _code(_LOAD, _FIRST_ARGUMENT),
        *(_code(_IF_EQUAL, each, len(families) - at, 0) for at, each in enumerate(families)),
        deny,
        allow,
    ]
    of_pairs = [
        _code(_LOAD, _SECOND_ARGUMENT),
        _code(_AND, _SOCK_TYPE_MASK),
        _code(_IF_EQUAL, _SOCK_DGRAM, 0, 1),
        deny,
        allow,
    ]
    return [
        _code(_LOAD, _ARCHITECTURE),
        _code(_IF_EQUAL, architecture, 1, 0),
        deny,
        _code(_LOAD, _NUMBER),
        _code(_IF_AT_LEAST, _FOREIGN_NUMBERS, 0, 1),
        deny,
        *(
            part
            for each in (_IO_URING_SETUP, *changes, *_NEWER_CHANGES)
            for part in (_code(_IF_EQUAL, each, 0, 1), deny)
        ),
        _code(_IF_EQUAL, pair_number, 0, len(of_pairs)),
        *of_pairs,
        _code(_IF_EQUAL, socket_number, 0, len(of_families)),
        *of_families,
        allow,
    ]


def _code(operation: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_so, if_not, value)


def _libc() -> ctypes.CDLL:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, f"{sys.platform} has no such call")
    return ctypes.CDLL(None, use_errno=True)


def _check(call: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result
