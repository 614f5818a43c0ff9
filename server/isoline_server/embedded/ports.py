"""Choosing a TCP port to listen on. A choice can go stale before it is used; whoever uses it must be ready to choose again."""

import secrets
import socket
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"

_LOWEST: Final = 20_000
_EPHEMERAL_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_EPHEMERAL_DEFAULT: Final = 49_152
_TRIES: Final = 64


def choose_port(preferred: int | None = None, *, host: str | None = LOOPBACK) -> int:
    """A free port: the preferred one when nobody has it, else a random one below the range that outgoing connections use.

    ``host=None`` is an address that cannot be tried from here: every port of it passes for free, and the server will tell.

    In that range a client that retries a dead port can be connected to itself by the kernel, and then keeps the server from
    coming back on it. Drills that kill a server and restart it on the same port would meet that.
    """
    if preferred is not None and is_free(preferred, host):
        return preferred
    span = _ephemeral_start() - _LOWEST
    for _ in range(_TRIES if span > 0 else 0):
        port = _LOWEST + secrets.randbelow(span)
        if is_free(port, host):
            return port
    with socket.socket() as probe:
        probe.bind((host or LOOPBACK, 0))
        return int(probe.getsockname()[1])


def is_free(port: int, host: str | None = LOOPBACK) -> bool:
    if host is None:
        return True
    with socket.socket() as probe:
        # As PostgreSQL does it: connections of a former server that linger in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _ephemeral_start() -> int:
    try:
        return int(_EPHEMERAL_RANGE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return _EPHEMERAL_DEFAULT
