"""Where a server of a cluster runs and listens. A value only: who enters a network, and who may listen where, is decided elsewhere."""

from dataclasses import dataclass
from typing import Final

from isoline_server.embedded.ports import LOOPBACK

Address = tuple[str, int]
"""Host and port, as the one who connects sees them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """An address to listen on, the network in which it exists, and who may come from elsewhere."""

    host: str = LOOPBACK
    network: str | None = None
    """Path of the network namespace in which the server and its tools run; ``None``: ours. Entering one needs root."""
    admits: tuple[str, ...] = ()
    """Networks in CIDR form from which clients and standbys may connect, with the password, beside 127.0.0.1."""


HERE: Final = Placement()
