"""Ours and the floor behind one interface, so that a benchmark is the same code for both. The floor's client is the raw gRPC stub; ours is
the product's client with everything it does by default, verification included."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from types import ModuleType
from typing import Any, Protocol

import grpc

import isoline_client
from benchmarks.floor import generated
from benchmarks.payloads import EVENT_TYPE


class LogRun(Protocol):
    """One run of a log."""

    async def append(self, payloads: Sequence[bytes]) -> None:
        """Append behind what this object appended before, expecting nothing in between."""

    async def read(self) -> int:
        """Read every event; return the bytes of the payloads, each of which was in hand."""


class Log(Protocol):
    """A log that can make runs."""

    async def new_run(self) -> LogRun: ...


class Ours:
    """Isoline through its client."""

    def __init__(self, client: isoline_client.Client) -> None:
        self.client = client

    async def new_run(self) -> "OurRun":
        return OurRun(await self.client.create_run("bench"))


class OurRun:
    """A run of Isoline."""

    def __init__(self, run: isoline_client.Run) -> None:
        self.run = run
        self._next_seq = 0

    async def append(self, payloads: Sequence[bytes]) -> None:
        events = [isoline_client.NewEvent(EVENT_TYPE, payload) for payload in payloads]
        appended = await self.run.append(events, expected_seq=self._next_seq)
        self._next_seq = appended.last.seq + 1

    async def read(self) -> int:
        return sum([len(event.payload_bytes) async for event in self.run.read()])

    async def read_records(self) -> int:
        """Read every event and verify the chain, but leave the records unparsed."""
        return sum([len(page.records) async for page in self.run.read_pages()])


class Floor:
    """The floor through its stub."""

    def __init__(self, channel: grpc.aio.Channel, pb: ModuleType, rpc: ModuleType) -> None:
        self._pb = pb
        self._stub = rpc.LogStub(channel)

    async def new_run(self) -> "FloorRun":
        return FloorRun(self._stub, self._pb, token_hex(13))


class FloorRun:
    """A run of the floor: a name."""

    def __init__(self, stub: Any, pb: ModuleType, name: str) -> None:
        self._stub = stub
        self._pb = pb
        self._name = name
        self._next_seq = 0

    async def append(self, payloads: Sequence[bytes]) -> None:
        events = [self._pb.NewEvent(type=EVENT_TYPE, payload=payload) for payload in payloads]
        request = self._pb.AppendRequest(run=self._name, expected_seq=self._next_seq, events=events)
        self._next_seq = (await self._stub.Append(request)).next_seq

    async def read(self) -> int:
        size = 0
        async for page in self._stub.Read(self._pb.ReadRequest(run=self._name)):
            for event in page.events:
                size += len(event.payload)
        return size


@asynccontextmanager
async def ours(address: str) -> AsyncIterator[Ours]:
    """Our side of a comparison."""
    async with isoline_client.Client(address) as client:
        yield Ours(client)


@asynccontextmanager
async def floor(address: str, generated_in: Path) -> AsyncIterator[Floor]:
    """The floor's side of it."""
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        yield Floor(channel, *generated.load(generated_in))
