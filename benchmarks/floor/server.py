"""The floor's server: grpc.aio and psycopg, one table, the expected version in one statement. No digest, chain, receipt, validation,
tenant, deadline, retry or trace. It is as fast as we could make it without adding an idea: prepared statements, binary parameters, one
autocommit statement a call, connections kept open.

``python -m benchmarks.floor.server URL FOLDER asyncio|uvloop``
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import psycopg

from benchmarks.floor import generated

CONNECTIONS = 16
PAGE_EVENTS = 1_000

TABLE = """
CREATE TABLE IF NOT EXISTS events (
    run TEXT COLLATE "C" NOT NULL, seq BIGINT NOT NULL, type TEXT NOT NULL, payload BYTEA NOT NULL, PRIMARY KEY (run, seq)
)"""

# Two writers that expect the same seq: the first commits, the second violates the primary key or finds another head.
APPEND = """
WITH head AS (SELECT coalesce(max(seq), -1) + 1 AS next_seq FROM events WHERE run = %(run)s)
INSERT INTO events (run, seq, type, payload)
SELECT %(run)s, head.next_seq + new.place - 1, new.type, new.payload
  FROM head, unnest(%(types)b::TEXT[], %(payloads)b::BYTEA[]) WITH ORDINALITY AS new(type, payload, place)
 WHERE head.next_seq = %(expected_seq)s::BIGINT"""

READ = "SELECT seq, type, payload FROM events WHERE run = %s AND seq >= %s::BIGINT ORDER BY seq LIMIT %s"


class Connections:
    """Open connections, handed out one at a time."""

    def __init__(self) -> None:
        self._idle: asyncio.LifoQueue[psycopg.AsyncConnection[Any]] = asyncio.LifoQueue()

    async def open(self, url: str) -> None:
        for _ in range(CONNECTIONS):
            self._idle.put_nowait(await psycopg.AsyncConnection.connect(url, autocommit=True))

    @asynccontextmanager
    async def one(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        connection = await self._idle.get()
        try:
            yield connection
        finally:
            self._idle.put_nowait(connection)

    async def close(self) -> None:
        while not self._idle.empty():
            await self._idle.get_nowait().close()


def servicer(pb: ModuleType, rpc: ModuleType, connections: Connections) -> Any:
    """The service over some connections. Its classes are generated at start, so it is made here."""

    class Log(rpc.LogServicer):
        async def Append(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
            params = {
                "run": request.run,
                "expected_seq": request.expected_seq,
                "types": [event.type for event in request.events],
                "payloads": [event.payload for event in request.events],
            }
            async with connections.one() as connection:
                try:
                    written = (await connection.execute(APPEND, params, prepare=True)).rowcount
                except psycopg.errors.UniqueViolation:
                    written = 0
            if written != len(request.events):
                await context.abort(grpc.StatusCode.ABORTED, "the run's head is another one")
            return pb.AppendResponse(next_seq=request.expected_seq + written)

        async def Read(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802, ARG002
            next_seq = 0
            async with connections.one() as connection:
                while True:
                    cursor = connection.cursor(binary=True)
                    await cursor.execute(READ, (request.run, next_seq, PAGE_EVENTS), prepare=True)
                    rows = await cursor.fetchall()
                    if rows:
                        yield pb.ReadResponse(events=[pb.Event(seq=s, type=t, payload=p) for s, t, p in rows])
                    if len(rows) < PAGE_EVENTS:
                        return
                    next_seq = rows[-1][0] + 1

    return Log()


async def serve(url: str, folder: Path) -> None:
    """Serve until SIGTERM; say the address as a line of JSON, as our own server does."""
    pb, rpc = generated.load(folder)
    connections = Connections()
    await connections.open(url)
    async with connections.one() as connection:
        await connection.execute(TABLE)
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)])
    rpc.add_LogServicer_to_server(servicer(pb, rpc, connections), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(json.dumps({"event": "serving", "address": f"127.0.0.1:{port}"}), flush=True)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await stopping.wait()
    await server.stop(1.0)
    await connections.close()


def main() -> None:
    url, folder, loop = sys.argv[1:]
    factory = None
    if loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(url, Path(folder)))


if __name__ == "__main__":
    main()
