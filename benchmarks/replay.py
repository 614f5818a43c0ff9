"""Replay from the middle of a run of 10,000 events to its end: server, executor and its shut-in worker are processes of their own, and what is
timed runs from the call that forks to the terminal event in a tail. The other side counts the effects."""

import asyncio
import socket
import time
from contextlib import contextmanager

from benchmarks import sides
from benchmarks.harness import Row, interleave, row, timed_ms, value_at_most
from benchmarks.processes import Child
from benchmarks.stage import Stage
from benchmarks.topology import HOME

NAME = "replay"
STANDBYS: tuple[str, ...] = ()

EVENTS = 10_000
EVENTS_A_ROUND = 4
"""Two nodes, each begun and ended."""
END_S = 180.0


class Listener:
    """Counts datagrams: the outside world."""

    def __init__(self, listening: socket.socket) -> None:
        self._socket = listening
        self._heard = 0

    @property
    def port(self) -> int:
        return self._socket.getsockname()[1]

    def heard(self) -> int:
        """All so far. Loopback has delivered what was sent before anybody was told of it."""
        while True:
            try:
                self._socket.recv(64)
            except BlockingIOError:
                return self._heard
            self._heard += 1


@contextmanager
def listener():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * 1024 * 1024)
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        yield Listener(listening)


async def measure(stage: Stage) -> list[Row]:
    place = stage.topology
    rounds = stage.effort.of(EVENTS, 400) // EVENTS_A_ROUND
    with place.isoline(place.migrated_database()) as server, listener() as outside:
        options = ["executor", "--server", server.address, "--region", HOME, "--workflows", "benchmarks.long_run"]
        log = place.folder / "executor.log"
        with Child("executor", "isoline_client.cli", [*options, "--poll", "50ms"], log):
            async with sides.ours(server.address) as ours:
                return await _measure(ours.client, outside, rounds, stage)


async def _measure(client, outside: Listener, rounds: int, stage: Stage) -> list[Row]:
    await _executed(client, "bench.computing", {"rounds": 1})  # the executor is there
    source = await _executed_while_counting(client, outside, rounds)
    head = (await source.info()).head.seq
    stage.say(f"  source: {head + 1} events, {outside.heard()} effects")
    sent = outside.heard()

    async def replay() -> None:
        fork = await source.fork((head + 1) // 2, mode="replay", home_region=HOME)
        await _end(fork)

    async def compute() -> float:
        started = time.perf_counter()
        await _executed(client, "bench.computing", {"rounds": rounds})
        return (time.perf_counter() - started) * 1e6 / (2 * rounds)

    found = await interleave({"replay": lambda: timed_ms(replay), "compute": compute}, stage.effort.rounds)
    fired = outside.heard() - sent
    return [
        row(
            f"replay fork at the middle of {head + 1:,} events, to the end",
            "ms",
            found["replay"],
            (),
            value_at_most(3_000, "ms"),
        ),
        Row("effects fired by all these replays", float(fired), "", None, value_at_most(0, "effects")),
        row("executor, per pure node of a live run", "us", found["compute"]),
    ]


async def _executed_while_counting(client, outside: Listener, rounds: int):
    """The source. Its datagrams are taken up as they come, for a socket's buffer is bounded."""
    running = asyncio.create_task(_executed(client, "bench.sending", {"rounds": rounds, "port": outside.port}))
    while not running.done():
        outside.heard()
        await asyncio.sleep(0.01)
    if outside.heard() != rounds:
        raise RuntimeError(
            f"the live run sent {rounds} datagrams, of which {outside.heard()} were heard: the count is no measure"
        )
    return await running


async def _executed(client, workflow_id: str, inputs: dict[str, int]):
    run = await client.start_run(workflow_id, inputs, home_region=HOME)
    await _end(run)
    return run


async def _end(run) -> None:
    """The run's terminal event, seen by a tail; anything but a completion, or a divergence, is a failure of the benchmark."""
    last = ""
    async with asyncio.timeout(END_S):
        async for event in run.tail(stop_at_terminal=True):
            last = event.type
            if last.startswith("replay.diverged"):
                raise RuntimeError(f"{run.run_id} diverged at {event.seq}")
    if last != "run.completed":
        raise RuntimeError(f"{run.run_id} ended with {last}")
