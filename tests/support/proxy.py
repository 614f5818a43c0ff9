"""A TCP proxy between a client and a server: it can lose the server's answers, or every connection, as a network does."""

import asyncio
from types import TracebackType
from typing import Self


class Proxy:
    """Forwards to ``target`` (``host:port``). While ``deaf``, what the server answers is swallowed, and the client learns nothing."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.deaf = False

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """End every connection, both ways, without a word."""
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        host, _, port = self._target.rpartition(":")
        try:
            from_server, to_server = await asyncio.open_connection(host, int(port))
        except OSError:
            to_client.transport.abort()
            return
        self._writers |= {to_client, to_server}
        for reader, writer, is_answer in ((from_client, to_server, False), (from_server, to_client, True)):
            task = asyncio.create_task(self._pump(reader, writer, is_answer=is_answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool) -> None:
        try:
            while data := await reader.read(65_536):
                if not (is_answer and self.deaf):
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
