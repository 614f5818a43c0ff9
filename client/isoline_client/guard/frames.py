"""Messages between an executor and its replay worker: a length of four bytes, then one JSON object. What they mean is not known here."""

import asyncio
import json
import socket
import struct
from typing import Any, Final

from isoline_client.guard.errors import FrameTooLarge
from isoline_client.limits import WORKER_FRAME_BYTES_MAX

Message = dict[str, Any]

_LENGTH: Final = struct.Struct(">I")


def encode(message: Message) -> bytes:
    """The bytes of one message."""
    body = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    if len(body) > WORKER_FRAME_BYTES_MAX:
        raise FrameTooLarge(size=len(body), limit=WORKER_FRAME_BYTES_MAX)
    return _LENGTH.pack(len(body)) + body


class Frames:
    """One end of the channel. Messages are sent whole and in order, from any number of tasks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, channel: socket.socket) -> "Frames":
        """Take over a connected socket."""
        return cls(*await asyncio.open_connection(sock=channel))

    async def send(self, message: Message) -> None:
        """Send a message; wait while the other end is slow to read."""
        self._writer.write(encode(message))
        await self._writer.drain()

    def post(self, message: Message) -> None:
        """Send a small message without waiting for anything."""
        self._writer.write(encode(message))

    async def receive(self) -> Message | None:
        """The next message; None when the other end is gone."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            if length > WORKER_FRAME_BYTES_MAX:
                raise FrameTooLarge(size=length, limit=WORKER_FRAME_BYTES_MAX)
            message: Message = json.loads(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return message

    def close(self) -> None:
        """Close this end."""
        self._writer.close()


def receive_blocking(channel: socket.socket) -> Message:
    """The first message of a process that has no event loop yet."""
    (length,) = _LENGTH.unpack(_exactly(channel, _LENGTH.size))
    if length > WORKER_FRAME_BYTES_MAX:
        raise FrameTooLarge(size=length, limit=WORKER_FRAME_BYTES_MAX)
    message: Message = json.loads(_exactly(channel, length))
    return message


def _exactly(channel: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = channel.recv(size - len(found))
        if not part:
            raise EOFError
        found += part
    return bytes(found)
