"""One client of one region, as a process inside it: times its calls and a bare statement at the leader, in turns. See ``regions``.

``python -m benchmarks.far '{"server": …, "key": …, "leader": URL, "run": ID, "rounds": N, "what": […]}'``; prints one JSON object, by what was
timed: milliseconds, and where the answers came from.
"""

import asyncio
import json
import sys
import time

import psycopg

import isoline_client

EVENTS = 1_000
FORK_AT = 500
EVENT = {"text": "x" * 240}


class Far:
    """The calls, by name. Each checks that it did what it says."""

    def __init__(self, client, own, source, leader) -> None:
        self._client = client
        self._own = own
        self._source = source
        self._leader = leader
        self.sources: set[str] = set()

    async def statement(self) -> None:
        await (await self._leader.execute("SELECT 1")).fetchone()

    async def append(self) -> None:
        await self._own.append(isoline_client.NewEvent("bench.noted", EVENT))

    async def read(self) -> None:
        events = 0
        async for page in self._source.read_pages(0, EVENTS):
            events += len(page)
            self.sources.add(page.source)
        assert events == EVENTS, events

    async def state(self) -> None:
        state = await self._source.state(EVENTS)
        self.sources.add(state.source)
        assert state.at_seq == EVENTS

    async def fork_and_state(self) -> None:
        fork = await self._source.fork(FORK_AT, mode="branch")
        state = await fork.state(FORK_AT)
        self.sources.add(state.source)
        assert state.at_seq == FORK_AT


async def main(asked) -> None:
    plain = asked["leader"].replace("postgresql+psycopg", "postgresql")
    async with isoline_client.Client(asked["server"], api_key=asked["key"], timeout_s=30) as client:
        leader = await psycopg.AsyncConnection.connect(plain, autocommit=True) if asked["leader"] else None
        own = await client.create_run("bench") if "append" in asked["what"] else None
        far = Far(client, own, client.run(asked["run"]), leader)
        found = {name: [] for name in asked["what"]}
        for number in range(-1, asked["rounds"]):
            for name in asked["what"]:
                started = time.perf_counter()
                await getattr(far, name)()
                took_ms = (time.perf_counter() - started) * 1_000
                if number >= 0:
                    found[name].append(took_ms)
        print(json.dumps({"ms": found, "sources": sorted(far.sources)}))
        if leader is not None:
            await leader.close()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
