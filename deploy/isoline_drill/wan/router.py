"""The router of the namespaces: a process of its own that carries packets between TUN devices, late, or not at all. No knowledge of TCP.

``python -m isoline_drill.wan.router OWNER LAB CONTROL REGION...``: ``CONTROL`` is the inherited end of a sequenced-packet socket. The router
sends ``null`` when the network stands, then answers each command (a JSON list: a verb of ``Links`` and its arguments) when it is in force:
``null``, or a text that says what is wrong. It ends with its owner, with the control socket, or with SIGTERM, and removes its namespaces.
"""

import contextlib
import json
import os
import random
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from isoline_drill.wan import netns
from isoline_drill.wan.links import Links

VERBS: Final = frozenset({"delay", "loss", "cut", "cut_one_way", "isolate", "heal"})
UNDER_WAY_BYTES_MAX: Final = 64 * 1024 * 1024  # per link: 100 MiB/s at more than half a second
_PACKET_COST_BYTES: Final = 256  # of a packet in memory, beside its bytes: bounds many small ones too
_PACKETS_AT_ONCE: Final = 64
_MESSAGE_BYTES_MAX: Final = 65536


class PacketLink:
    """Packets under way from one region to another, in the order in which they were sent. When it is full, further ones are lost."""

    def __init__(self, receiver_tun: int) -> None:
        self.delay_s = 0.0
        self.loss_share = 0.0
        self._tun = receiver_tun
        self._is_cut = False
        self._under_way: deque[tuple[float, bytes]] = deque()
        self._under_way_bytes = 0

    def cut(self) -> None:
        """Also loses what is under way."""
        self._is_cut = True
        self._under_way.clear()
        self._under_way_bytes = 0

    def mend(self) -> None:
        self._is_cut = False

    def send(self, packet: bytes, now_s: float) -> None:
        if self._is_cut or self._under_way_bytes > UNDER_WAY_BYTES_MAX:
            return
        if self.loss_share and random.random() < self.loss_share:  # noqa: S311 (no secret)
            return
        self._under_way.append((now_s, packet))
        self._under_way_bytes += len(packet) + _PACKET_COST_BYTES

    def next_arrival_s(self) -> float | None:
        return self._under_way[0][0] + self.delay_s if self._under_way else None

    def deliver(self, now_s: float) -> None:
        """Hand over what has arrived by now."""
        while self._under_way and self._under_way[0][0] + self.delay_s <= now_s:
            _, packet = self._under_way.popleft()
            self._under_way_bytes -= len(packet) + _PACKET_COST_BYTES
            with contextlib.suppress(OSError):  # the device is full or down: a packet less, as on any network
                os.write(self._tun, packet)


class Router:
    """Carries packets and obeys commands, until it is told to end."""

    def __init__(self, owner: int, control: socket.socket, tuns: dict[str, int]) -> None:
        """``owner`` is a handle of a process (a pidfd); ``tuns`` are the devices of the regions, in the order of their numbers."""
        self._control = control
        self._regions = list(tuns)
        self._links = Links(self._regions, lambda _, receiver: PacketLink(tuns[receiver]))
        self._ended = False
        # In this order: a command is about the packets that are sent after it.
        self._readers: dict[int, Callable[[], None]] = {
            **{tun: self._carrier(region, tun) for region, tun in tuns.items()},
            control.fileno(): self._obey,
            owner: self._end,
        }

    def run(self) -> None:
        while not self._ended:
            # select, for its time-out in microseconds: that of epoll is in milliseconds
            readable, _, _ = select.select(self._readers, [], [], self._until_next_arrival_s())
            for handle in readable:
                self._readers[handle]()
            now_s = time.monotonic()
            for link in self._links:
                link.deliver(now_s)

    def _until_next_arrival_s(self) -> float | None:
        arrivals = [arrival for link in self._links if (arrival := link.next_arrival_s()) is not None]
        return max(0.0, min(arrivals) - time.monotonic()) if arrivals else None

    def _carrier(self, sender: str, tun: int) -> Callable[[], None]:
        def carry() -> None:
            for _ in range(_PACKETS_AT_ONCE):
                try:
                    packet = os.read(tun, _MESSAGE_BYTES_MAX)
                except BlockingIOError:
                    return
                self._send(sender, packet)

        return carry

    def _send(self, sender: str, packet: bytes) -> None:
        number = netns.number_in(packet)
        if number is None or not 1 <= number <= len(self._regions):
            return  # nobody has that address
        receiver = self._regions[number - 1]
        if receiver != sender:
            self._links.get(sender, receiver).send(packet, time.monotonic())

    def _obey(self) -> None:
        message = self._control.recv(_MESSAGE_BYTES_MAX)
        if not message:
            self._end()
            return
        answer = None
        try:
            verb, *arguments = json.loads(message)
            if verb not in VERBS:
                raise ValueError(f"verb must be one of {', '.join(sorted(VERBS))}, and is {verb!r}")
            getattr(self._links, verb)(*arguments)
        except (ValueError, TypeError) as error:
            answer = str(error)
        tell(self._control, answer)

    def _end(self) -> None:
        self._ended = True


def tell(control: socket.socket, answer: str | None) -> None:
    with contextlib.suppress(
        BrokenPipeError, ConnectionResetError
    ):  # nobody listens any more: noticed as the end of the control socket
        control.send(json.dumps(answer).encode())


def route(owner_pid: int, lab: str, control: socket.socket, regions: Sequence[str]) -> None:
    """Make the network, carry packets until the end, remove the network. A failure to make it is told over ``control``."""
    names = [netns.namespace_name(lab, region) for region in regions]
    try:
        owner = os.pidfd_open(owner_pid)
        if os.getppid() != owner_pid:
            return  # it died before its handle was opened, and the id may be another's by now
        netns.sweep()
        tuns = {
            region: netns.make(name, netns.address_of(number))
            for number, (region, name) in enumerate(zip(regions, names, strict=True), 1)
        }
        router = Router(owner, control, tuns)
    except OSError as error:
        tell(control, str(error))
    else:
        tell(control, None)
        router.run()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: the removal is not to be interrupted
        for name in names:
            netns.remove(name)


def main(argv: list[str]) -> None:
    owner_pid, lab, control, *regions = argv
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    route(int(owner_pid), lab, socket.socket(fileno=int(control)), regions)


if __name__ == "__main__":
    main(sys.argv[1:])
