"""Everything else that goes over a network: Python's sockets, name resolution, and standard clients without a seam of their own."""

from typing import Final

from isoline_client.guard.seams.seam import REGISTRY, Seam, always

_SOCKET_EVENTS: Final = (
    "connect",
    "bind",
    "sendto",
    "sendmsg",
    "getaddrinfo",
    "gethostbyname",
    "gethostbyaddr",
    "getnameinfo",
)
_CLIENT_EVENTS: Final = (
    "ftplib.connect",
    "ftplib.sendcmd",
    "imaplib.open",
    "imaplib.send",
    "nntplib.connect",
    "nntplib.putline",
    "poplib.connect",
    "poplib.putline",
    "telnetlib.Telnet.open",
    "telnetlib.Telnet.write",
    "webbrowser.open",
    "syslog.syslog",
)

SOCKETS: Final = REGISTRY.add(
    Seam(
        name="socket.connect",
        kind="other",
        module=__name__,
        note="raw TCP, UDP and DNS, and standard library clients of other protocols",
        unseen="sockets opened before the node, and sockets made in C (uvloop, libcurl, libpq, gRPC core): no audit event",
        events={**{f"socket.{each}": always for each in _SOCKET_EVENTS}, **dict.fromkeys(_CLIENT_EVENTS, always)},
    )
)
