"""Executors that are killed with SIGKILL between any two steps of an effect: never two effects, and in doubt where nobody can know.

A gate between the executor and its server holds the call at which the process is to stand; no step depends on timing.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import pytest_asyncio

from isoline.v1 import execution_service_pb2 as pb
from isoline_client import Run
from isoline_client.execution import Lease
from isoline_server.bootstrap import RegionServer
from support.counting import Counting
from support.executing import SHOP, Floor, find, log, types
from support.executors import ExecutorProcess
from support.gate import Gate, Stop
from support.waiting import eventually

pytestmark = pytest.mark.e2e


@pytest_asyncio.fixture
async def gate(home: RegionServer) -> AsyncIterator[Gate]:
    async with Gate(home.address) as made:
        yield made


@contextmanager
def executor(address: str, *options: str) -> Iterator[ExecutorProcess]:
    with ExecutorProcess(address, SHOP, "--poll", "50ms", *options, ttl="1s") as process:
        yield process


async def kill_at(eu: Floor, gate: Gate, stop: Stop, url: str) -> Run:
    """A run whose executor is killed as soon as it stands at the stop."""
    run = await eu.client.start_run("order", {"url": url}, home_region="eu")
    with executor(gate.address) as first:
        await reached(stop, first)
        await asyncio.to_thread(first.kill)
    gate.lift(stop)
    return run


async def reached(stop: Stop, process: ExecutorProcess) -> None:
    try:
        async with asyncio.timeout(40):
            await stop.reached.wait()
    except TimeoutError:
        raise AssertionError(f"the executor did not come to {stop.method}:\n{process.log}") from None


async def take_over(eu: Floor, run: Run) -> None:
    """Another executor drives the run on, once the lease of the first is up."""
    eu_address = eu.client._connection._endpoints[0].address
    with executor(eu_address) as second:

        async def at_rest() -> bool:
            info = await run.info()
            in_doubt = [effect for effect in await eu.effects(run) if effect.state == "in_doubt"]
            return info.terminal_seq is not None or bool(in_doubt)

        await eventually(at_rest, timeout_s=40, what="the end of the run, or an effect in doubt")
        assert await asyncio.to_thread(second.terminate) == 0, second.log


def advancing(to: int) -> Callable[[Any], bool]:
    return lambda request: request.to == to


def completing(node_id: str) -> Callable[[Any], bool]:
    return lambda request: any(
        event.content.type == "node.completed" and event.content.node_id == node_id for event in request.events
    )


async def test_killed_before_the_claim(eu: Floor, gate: Gate, outside: Counting) -> None:
    run = await kill_at(eu, gate, gate.stop("ClaimEffect"), outside.url)
    assert outside.count == 0
    await take_over(eu, run)
    assert outside.count == 1
    assert (await log(run))[-1].type == "run.completed"


async def test_killed_after_the_claim(eu: Floor, gate: Gate, outside: Counting) -> None:
    run = await kill_at(eu, gate, gate.stop("ClaimEffect", where="behind"), outside.url)
    (claimed,) = await eu.effects(run)
    assert (claimed.state, outside.count) == ("claimed", 0)
    await take_over(eu, run)
    (effect,) = await eu.effects(run)
    assert (effect.state, effect.attempt, outside.count) == ("completed", 1, 1)
    assert (await log(run))[-1].type == "run.completed"


async def test_the_second_try_makes_the_same_request(eu: Floor, gate: Gate, outside: Counting) -> None:
    """The body holds a drawn value: were it drawn anew, the effect would be another one."""
    run = await kill_at(eu, gate, gate.stop("ClaimEffect", where="behind"), outside.url)
    (claimed,) = await eu.effects(run)
    await take_over(eu, run)
    assert claimed.draws
    (charged,) = await find(run, "node.completed", "charge")
    assert charged.payload["x-isoline-draws"][0]["value"].encode() in claimed.draws
    assert charged.payload["outputs"]["key"].encode() in outside.hits[0].body


async def test_killed_when_it_was_about_to_leave(eu: Floor, gate: Gate, outside: Counting) -> None:
    """Marked outbound, and nothing left. The next executor cannot know that."""
    stop = gate.stop("AdvanceEffect", where="behind", matches=advancing(pb.EFFECT_STATE_OUTBOUND))
    run = await kill_at(eu, gate, stop, outside.url)
    await take_over(eu, run)
    (effect,) = await eu.effects(run)
    assert (effect.state, outside.count) == ("in_doubt", 0)
    await eu.client.execution().resolve_effect(run.run_id, effect.effect_id, to="failed", resolved_by="ada")
    await eu.work()
    assert outside.count == 1
    assert (await log(run))[-1].type == "run.completed"


async def test_killed_after_the_effect_left(eu: Floor, gate: Gate, outside: Counting) -> None:
    outside.hold()
    run = await eu.client.start_run("order", {"url": outside.url}, home_region="eu")
    with executor(gate.address) as first:
        await asyncio.to_thread(outside.wait_for, 1)
        await asyncio.to_thread(first.kill)
    outside.release()
    await take_over(eu, run)
    (effect,) = await eu.effects(run)
    assert (effect.state, outside.count) == ("in_doubt", 1)
    assert not await find(run, "node.completed", "charge")
    outcome = b'{"status":200,"headers":{},"text":"{}"}'
    await eu.client.execution().resolve_effect(
        run.run_id, effect.effect_id, to="completed", outcome=outcome, resolved_by="ada"
    )
    await eu.work()
    assert outside.count == 1
    assert (await log(run))[-1].type == "run.completed"


async def test_what_is_in_doubt_is_not_tried_again_by_itself(eu: Floor, gate: Gate, outside: Counting) -> None:
    outside.hold()
    run = await eu.client.start_run("order", {"url": outside.url}, home_region="eu")
    with executor(gate.address) as first:
        await asyncio.to_thread(outside.wait_for, 1)
        await asyncio.to_thread(first.kill)
    outside.release()
    await take_over(eu, run)
    head = (await run.info()).head
    await eu.work()
    assert (await run.info()).head == head
    assert outside.count == 1


async def test_killed_after_the_answer_came(eu: Floor, gate: Gate, outside: Counting) -> None:
    """The answer is in the process and nowhere else."""
    stop = gate.stop("AdvanceEffect", matches=advancing(pb.EFFECT_STATE_COMPLETED))
    run = await kill_at(eu, gate, stop, outside.url)
    await take_over(eu, run)
    (effect,) = await eu.effects(run)
    assert (effect.state, outside.count) == ("in_doubt", 1)


async def test_killed_after_the_outcome_was_recorded(eu: Floor, gate: Gate, outside: Counting) -> None:
    run = await kill_at(eu, gate, gate.stop("Append", matches=completing("charge")), outside.url)
    (effect,) = await eu.effects(run)
    assert (effect.state, outside.count) == ("completed", 1)
    assert not await find(run, "node.completed", "charge")
    await take_over(eu, run)
    assert outside.count == 1
    assert (await log(run))[-1].type == "run.completed"


async def test_killed_when_the_outcome_had_landed_unheard(eu: Floor, gate: Gate, outside: Counting) -> None:
    stop = gate.stop("Append", where="behind", matches=completing("charge"))
    run = await kill_at(eu, gate, stop, outside.url)
    await take_over(eu, run)
    assert outside.count == 1
    assert len(await find(run, "node.completed", "charge")) == 1


@pytest.mark.parametrize("where", ["before", "behind"])
async def test_killed_during_a_replay(eu: Floor, gate: Gate, where: Any) -> None:
    """In the middle of its log; the next goes on there, and it becomes what it would have been."""
    run = await eu.run("long")
    stop = gate.stop("Append", where=where, matches=lambda request: request.expected_seq > 100)
    fork = await run.fork(mode="replay", home_region="eu")
    with executor(gate.address) as first:
        await reached(stop, first)
        await asyncio.to_thread(first.kill)
    gate.lift(stop)
    assert 0 < (await fork.info()).head.seq < (await run.info()).head.seq
    await take_over(eu, fork)
    assert await types(fork) == await types(run)
    assert [event.payload_bytes for event in await log(fork)] == [event.payload_bytes for event in await log(run)]


async def test_a_paused_executor_finds_its_run_taken(eu: Floor, gate: Gate, outside: Counting) -> None:
    """Two executors: the first is stopped at its append, its lease ends, the second takes over; the first comes back and is refused."""
    stop = gate.stop("Append", matches=completing("charge"))
    run = await eu.client.start_run("order", {"url": outside.url}, home_region="eu")
    with executor(gate.address) as first:
        await reached(stop, first)
        first.freeze()
        await take_over(eu, run)
        head = (await run.info()).head
        gate.lift(stop)
        first.thaw()
        await asyncio.to_thread(first.said, "lease lost")
        assert await asyncio.to_thread(first.terminate) == 0
    assert (await run.info()).head == head
    assert outside.count == 1
    assert (await log(run))[-1].type == "run.completed"


async def test_a_stale_append_is_refused_where_nobody_wrote(eu: Floor, gate: Gate, outside: Counting) -> None:
    """The run was only claimed anew: the seq is still the one the first expects, and the epoch alone tells."""
    stop = gate.stop("Append", matches=completing("charge"))
    run = await eu.client.start_run("order", {"url": outside.url}, home_region="eu")
    with executor(gate.address) as first:
        await reached(stop, first)
        first.freeze()
        head = (await run.info()).head
        execution = eu.client.execution()

        async def claimed() -> tuple[Lease, ...]:
            return (await execution.claim(["order"], owner="second", region="eu", lease_ttl_ms=60_000)).leases

        (lease,) = await eventually(claimed, what="the end of the first lease")
        assert lease.run_id == run.run_id
        gate.lift(stop)
        first.thaw()
        await asyncio.to_thread(first.said, "lease lost")
        assert await asyncio.to_thread(first.terminate) == 0
    assert (await run.info()).head == head
    await execution.release(run.run_id, lease.epoch, seen_head_seq=head.seq, wake_in_ms=0)
    await eu.work()
    assert outside.count == 1
    assert (await log(run))[-1].type == "run.completed"


async def test_a_paused_executor_sends_nothing_when_it_comes_back(eu: Floor, gate: Gate, outside: Counting) -> None:
    """It was stopped with the claim in hand: marking it outbound needs the lease."""
    stop = gate.stop("AdvanceEffect", matches=advancing(pb.EFFECT_STATE_OUTBOUND))
    run = await eu.client.start_run("order", {"url": outside.url}, home_region="eu")
    with executor(gate.address) as first:
        await reached(stop, first)
        first.freeze()
        await take_over(eu, run)
        assert outside.count == 1
        gate.lift(stop)
        first.thaw()
        await asyncio.to_thread(first.said, "lease lost")
        assert await asyncio.to_thread(first.terminate) == 0
    assert outside.count == 1


async def test_a_paused_executor_does_not_send_what_it_had_marked(eu: Floor, gate: Gate, outside: Counting) -> None:
    """Stopped between the mark and the request. By the time it goes on, somebody may have been told that nothing had left."""
    stop = gate.stop("AdvanceEffect", where="behind", matches=advancing(pb.EFFECT_STATE_OUTBOUND))
    run = await eu.client.start_run("order", {"url": outside.url}, home_region="eu")
    with executor(gate.address) as first:
        await reached(stop, first)
        first.freeze()
        await take_over(eu, run)
        (effect,) = await eu.effects(run)
        assert effect.state == "in_doubt"
        await eu.client.execution().resolve_effect(run.run_id, effect.effect_id, to="failed", resolved_by="ada")
        await eu.work()
        gate.lift(stop)
        first.thaw()
        await asyncio.to_thread(first.said, "lease lost")
        assert await asyncio.to_thread(first.terminate) == 0
    assert outside.count == 1


async def test_a_drained_executor_gives_its_runs_back(eu: Floor, gate: Gate, outside: Counting) -> None:
    """SIGTERM while a request is outbound: it is waited for, its outcome recorded, and another executor goes on at once."""
    outside.hold()
    run = await eu.client.start_run("order", {"url": outside.url}, home_region="eu")
    with executor(gate.address) as first:
        await asyncio.to_thread(outside.wait_for, 1)
        stopping = asyncio.create_task(asyncio.to_thread(first.terminate))
        await asyncio.to_thread(first.said, "draining")
        outside.release()
        assert await stopping == 0, first.log
    assert await find(run, "node.completed", "charge")
    await eu.work()
    assert outside.count == 1
    assert (await log(run))[-1].type == "run.completed"
