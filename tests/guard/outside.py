"""The world outside, which counts what reaches it: connections, bytes on them, datagrams, Unix sockets, and changes in a folder."""

import contextlib
import hashlib
import os
import selectors
import socket
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from support.waiting import wait_until

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
FILES = ("kept", "moved", "removed", "short")


@dataclass
class Outside:
    """Answers every request it can read with 200, whatever was asked, and hangs up on the rest."""

    folder: Path
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._unix.bind(str(self.folder / "socket"))
        self._unix.listen()
        self._ours, self._theirs = socket.socketpair()
        for listening in (self._tcp, self._unix):
            self._selector.register(listening, selectors.EVENT_READ, self._accept)
        self._selector.register(self._udp, selectors.EVENT_READ, self._datagram)
        self._selector.register(self._theirs, selectors.EVENT_READ, self._marker)
        self._marks = 0
        self.files = self.folder / "files"
        self.files.mkdir()
        for name in FILES:
            (self.files / name).write_text(name)
        self._before = self._listing()
        self._ended = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._tcp.getsockname()[1]

    @property
    def udp_port(self) -> int:
        return self._udp.getsockname()[1]

    @property
    def address(self) -> dict[str, object]:
        """Where it is, for whoever tries to reach it."""
        return {
            "port": self.port,
            "udp_port": self.udp_port,
            "unix": str(self.folder / "socket"),
            "files": str(self.files),
        }

    @property
    def reached(self) -> int:
        """How much has come: everything that was sent before this is asked is counted in the answer."""
        self._settle()
        return self.seen.total() + len(self._listing() ^ self._before)

    def start_counting(self) -> None:
        """Forget what came so far."""
        self._settle()
        self.seen.clear()
        self._before = self._listing()

    def close(self) -> None:
        self._ended = True
        self._ours.send(b".")
        self._thread.join()
        for each in [key.fileobj for key in self._selector.get_map().values()]:
            each.close()
        self._ours.close()
        self._selector.close()

    def _settle(self) -> None:
        """Let the loop go round twice behind what is waiting for it."""
        for _ in range(2):
            wanted = self._marks + 1
            self._ours.send(b".")
            wait_until(lambda wanted=wanted: self._marks >= wanted, every_s=0.001)

    def _serve(self) -> None:
        while not self._ended:
            for key, _events in sorted(self._selector.select(), key=lambda each: each[0].fileobj is self._theirs):
                key.data(key.fileobj)

    def _accept(self, listening: socket.socket) -> None:
        self.seen["connection"] += 1
        connection, _peer = listening.accept()
        self._selector.register(connection, selectors.EVENT_READ, self._request)

    def _request(self, connection: socket.socket) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = connection.recv(65536)
        if data:
            self.seen["bytes"] += 1
        if data[:4] in {b"GET ", b"POST"}:
            with contextlib.suppress(OSError):
                connection.sendall(ANSWER)
            return
        self._selector.unregister(connection)
        connection.close()

    def _datagram(self, udp: socket.socket) -> None:
        udp.recv(65536)
        self.seen["datagram"] += 1

    def _marker(self, pipe: socket.socket) -> None:
        pipe.recv(1)
        self._marks += 1

    def _listing(self) -> set[tuple[str, int, str]]:
        """Every file with its mode and content: what differs from before was changed from outside."""
        found = set()
        for path in sorted(self.files.rglob("*")):
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else os.fspath(path)
            found.add((os.fspath(path), path.lstat().st_mode, content))
        return found
