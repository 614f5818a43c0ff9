"""A WAN of TCP proxies, for machines without root: every cross-region address is a port here, behind which chunks wait. Nothing below TCP.

What differs from a real network: a client's connect returns at once, and only its first byte waits for the handshake (a round trip) and for the
end of a cut; a refusal shows as a reset; nothing stops a program that uses another region's port without asking for its address.
"""

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from isoline_drill.wan.base import Kind
from isoline_drill.wan.links import Links, check_regions
from isoline_drill.wan.stream_link import Mark, Piece, StreamLink, UnderWay

LOOPBACK: Final = "127.0.0.1"
_CHUNK_BYTES_MAX: Final = 65536
_BACKLOG: Final = 512
_LINGER_ZERO: Final = struct.pack("ii", 1, 0)

T = TypeVar("T")


class ProxyWan:
    """One delaying proxy for each viewer, owner and port that was asked for. See ``base.Wan``. Works in one thread of its own."""

    kind: Kind = "proxies"

    def __init__(self, regions: Sequence[str]) -> None:
        """Raises ``ValueError`` for names that cannot be those of regions."""
        check_regions(regions)
        self.regions: Sequence[str] = tuple(regions)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._links: Links[StreamLink] | None = None
        self._proxies: dict[tuple[str, str, int], _Proxy] = {}

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wan-proxies", daemon=True)
        self._thread.start()
        self._links = Links(self.regions, lambda _sender, _receiver: StreamLink())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._in_loop(self._close_proxies())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = self._links = None

    def host(self, region: str) -> str:
        self._check(region)
        return LOOPBACK

    def address(self, viewer: str, owner: str, port: int) -> tuple[str, int]:
        self._check(viewer)
        self._check(owner)
        return (LOOPBACK, port if viewer == owner else self._in_loop(self._proxy_port(viewer, owner, port)))

    def namespace(self, region: str) -> str | None:
        self._check(region)
        return None

    def delay(self, a: str, b: str, round_trip_ms: float) -> None:
        self._change(lambda links: links.delay(a, b, round_trip_ms))

    def loss(self, a: str, b: str, share: float) -> None:
        raise NotImplementedError("proxies carry streams and have no packets to lose: loss needs namespaces")

    def cut(self, a: str, b: str) -> None:
        self._change(lambda links: links.cut(a, b))

    def cut_one_way(self, sender: str, receiver: str) -> None:
        self._change(lambda links: links.cut_one_way(sender, receiver))

    def isolate(self, region: str) -> None:
        self._change(lambda links: links.isolate(region))

    def heal(self) -> None:
        self._change(lambda links: links.heal())

    def _check(self, region: str) -> None:
        if region not in self.regions:
            raise ValueError(f"region {region!r} is none of {', '.join(self.regions)}")

    def _change(self, change: Callable[[Links[StreamLink]], None]) -> None:
        """Change the links in their own thread, and return when it is done."""

        async def apply() -> None:
            assert self._links is not None
            change(self._links)

        self._in_loop(apply())

    def _in_loop(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise RuntimeError("the network does not stand: it is used inside its context")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _proxy_port(self, viewer: str, owner: str, port: int) -> int:
        assert self._links is not None
        key = viewer, owner, port
        if key not in self._proxies:
            out, back = self._links.get(viewer, owner), self._links.get(owner, viewer)
            self._proxies[key] = _Proxy((LOOPBACK, port), out, back)
        return self._proxies[key].port

    async def _close_proxies(self) -> None:
        await asyncio.gather(*(proxy.close() for proxy in self._proxies.values()))
        self._proxies.clear()


class _Proxy:
    """Listens for the connections from one region to one port of another. Made and closed in the loop."""

    def __init__(self, target: tuple[str, int], out: StreamLink, back: StreamLink) -> None:
        self._target = target
        self._out = out
        self._back = back
        self._listening = socket.create_server((LOOPBACK, 0), backlog=_BACKLOG)
        self._listening.setblocking(False)
        self.port: int = self._listening.getsockname()[1]
        self._tasks: set[asyncio.Task[None]] = set()
        asyncio.get_running_loop().add_reader(self._listening, self._accept)

    async def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listening)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listening.close()

    def _accept(self) -> None:
        try:
            client, _ = self._listening.accept()
        except OSError:  # the client has gone already, or there are no files left: then it is tried again
            return
        client.setblocking(False)
        task = asyncio.create_task(self._serve(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: client.close())  # also when it was cancelled before it began

    async def _serve(self, client: socket.socket) -> None:
        try:
            target = await self._connect()
        except OSError:  # the refusal has to come back, too
            await self._back.cross(time.monotonic())
            _close_with_reset(client)
            return
        with target:
            try:
                await self._carry_both_ways(client, target)
            except* OSError:  # one end was reset, and the other is to hear of it now
                _close_with_reset(client)
                _close_with_reset(target)

    async def _connect(self) -> socket.socket:
        await self._out.cross(time.monotonic())
        target = socket.socket()
        try:
            target.setblocking(False)
            await asyncio.get_running_loop().sock_connect(target, self._target)
            # TCP connects a socket to itself when the free port that it is given is the one asked for.
            if target.getsockname() == self._target:
                raise ConnectionRefusedError
        except BaseException:
            target.close()
            raise
        return target

    async def _carry_both_ways(self, client: socket.socket, target: socket.socket) -> None:
        """The rest of the handshake, then what the two ends send, until both have ended. Raises ``OSError`` when the end of one is a reset."""
        for end in (client, target):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await self._back.cross(time.monotonic())
        to_target, to_client = UnderWay(), UnderWay()

        async def answer() -> None:
            await self._out.cross(time.monotonic())  # a server that speaks first waits for the third leg, too
            await _read(target, to_client)

        async with asyncio.TaskGroup() as group:
            group.create_task(_read(client, to_target))
            group.create_task(_write(to_target, target, self._out, self._back))
            group.create_task(answer())
            group.create_task(_write(to_client, client, self._back, self._out))


async def _read(source: socket.socket, under_way: UnderWay) -> None:
    """Send on its way what comes out of a socket; the last piece is its end, or its reset."""
    loop = asyncio.get_running_loop()
    while True:
        piece: Piece
        try:
            piece = await loop.sock_recv(source, _CHUNK_BYTES_MAX) or Mark.END
        except OSError:
            piece = Mark.RESET
        await under_way.put(piece)
        if isinstance(piece, Mark):
            return


async def _write(under_way: UnderWay, destination: socket.socket, link: StreamLink, back: StreamLink) -> None:
    """Hand over what arrives, up to its end. Raises ``OSError`` when a reset arrives at either side."""
    loop = asyncio.get_running_loop()
    while True:
        sent_at_s, piece = await under_way.first()
        await link.cross(sent_at_s)
        if piece is Mark.RESET:
            raise ConnectionResetError
        try:
            if piece is Mark.END:
                destination.shutdown(socket.SHUT_WR)
                return
            await loop.sock_sendall(destination, piece)
        except OSError:
            await back.cross(time.monotonic())  # the destination is gone: its reset travels to the sender
            raise
        under_way.drop()


def _close_with_reset(end: socket.socket) -> None:
    """Close at once; the peer gets a reset."""
    with contextlib.suppress(OSError):  # there may be no connection any more
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
    end.close()
