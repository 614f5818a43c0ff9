"""Network namespaces with one TUN device each: how they are named, made, removed, and swept when their owner is gone. No routing.

A name says who owns it, ``isoline-<pid>-<start of the process in ticks>-<count>-<region>``, so that labs of several processes live side by side
and what a killed one left is found by the next. Needs root, ``ip`` of iproute2 and ``/dev/net/tun``.
"""

import contextlib
import fcntl
import os
import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from isoline_drill.wan.enter import join, set_namespace

FOLDER: Final = Path("/run/netns")
TUN: Final = Path("/dev/net/tun")
DEVICE: Final = "wan0"
MTU_BYTES: Final = 9000  # fewer, larger packets: each one costs the router the same
_OWNED: Final = re.compile(r"isoline-(\d+)-(\d+)-\d+-.+")
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN_WITHOUT_HEADER: Final = 0x1001


def lab_name(owner_pid: int, count: int) -> str:
    """What the names of all namespaces of one lab begin with."""
    return f"isoline-{owner_pid}-{_started_at(owner_pid)}-{count}"


def namespace_name(lab: str, region: str) -> str:
    return f"{lab}-{region}"


def path_of(name: str) -> str:
    return str(FOLDER / name)


def address_of(number: int) -> str:
    """The address of the region with this number, from 1."""
    return f"10.77.{number}.1"


def number_in(packet: bytes) -> int | None:
    """The number of the region that an IP packet is for; None when it is for none."""
    is_ours = len(packet) >= 20 and packet[0] >> 4 == 4 and packet[16:18] == b"\x0a\x4d"
    return packet[18] if is_ours else None


def make(name: str, address: str) -> int:
    """Make a namespace with this address, and open its TUN device: a file from which packets are read, one a read, without blocking.

    Raises ``OSError`` with what ``ip`` or the kernel said.
    """
    _ip("netns", "add", name)
    _ip("-n", name, "link", "set", "lo", "up")
    tun = _open_tun(path_of(name))
    _ip("-n", name, "address", "add", f"{address}/16", "dev", DEVICE)
    _ip("-n", name, "link", "set", DEVICE, "mtu", str(MTU_BYTES), "txqueuelen", "5000", "up")
    return tun


def remove(name: str) -> None:
    """Remove a namespace, if it is there."""
    with contextlib.suppress(OSError):
        _ip("netns", "delete", name)


def names_of(lab: str) -> list[str]:
    """The namespaces of a lab that are there now."""
    return [name for name in _names() if name.startswith(f"{lab}-")]


def sweep() -> None:
    """Remove the namespaces whose owner has ended."""
    for name in _names():
        owner = _OWNED.fullmatch(name)
        if owner and _started_at(int(owner[1])) != int(owner[2]):
            remove(name)


def _names() -> Iterator[str]:
    try:
        yield from [entry.name for entry in FOLDER.iterdir()]
    except FileNotFoundError:
        return


def _started_at(pid: int) -> int | None:
    """When a process started, in ticks since the machine did: tells a process from a later one with the same id. None: there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(stat.rpartition(")")[2].split()[19])


def _open_tun(namespace: str) -> int:
    """A TUN device belongs to the namespace of the thread that makes it; its file works from anywhere."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        join(namespace)
        tun = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH", DEVICE.encode(), _IFF_TUN_WITHOUT_HEADER))
        return tun
    finally:
        set_namespace(home)
        os.close(home)


def _ip(*arguments: str) -> None:
    ended = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True)
    if ended.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {ended.stderr.strip()}")
