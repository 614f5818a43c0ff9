"""Choosing a TCP port on the loopback address. A choice can go stale before it is used; whoever uses it must be ready to choose again."""

import secrets
import socket
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"

_LOWEST: Final = 20_000
_EPHEMERAL_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_EPHEMERAL_DEFAULT: Final = 49_152
_TRIES: Final = 64


def choose_port(preferred: int | None = None) -> int:
    """A free port: the preferred one when nobody has it, else a random one below the range that outgoing connections use.

    In that range a client that retries a dead port can be connected to itself by the kernel, and then keeps the server from
    coming back on it. Drills that kill a server and restart it on the same port would meet that.
    """
    if preferred is not None and is_free(preferred):
        return preferred
    span = _ephemeral_start() - _LOWEST
    for _ in range(_TRIES if span > 0 else 0):
        port = _LOWEST + secrets.randbelow(span)
        if is_free(port):
            return port
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As PostgreSQL does it: connections of a former server that linger in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _ephemeral_start() -> int:
    try:
        return int(_EPHEMERAL_RANGE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return _EPHEMERAL_DEFAULT
