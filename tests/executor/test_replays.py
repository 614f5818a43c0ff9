"""Replays of runs that did not end by themselves, and replays in every region."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from isoline_client.workflow.events import CANCEL_REQUESTED
from isoline_server.embedded import EmbeddedCluster
from support.counting import Counting
from support.databases import TEMPLATE
from support.executing import Floor, executing, find, floor, log, say, seq_of, types, until
from support.servers import settings_for, start_region


async def test_a_run_cancelled_between_two_nodes_replays_as_cancelled(eu: Floor, outside: Counting) -> None:
    run = await eu.client.start_run("order", {"url": outside.url}, home_region="eu")
    await say(run, CANCEL_REQUESTED, {"reason": "enough"})
    await eu.work()
    fork = await eu.fork(run)
    assert await types(fork) == ["run.started", "run.cancelled"]
    assert (await log(fork))[-1].payload == {"reason": "enough"}
    assert await find(fork, "replay.diverged") == []


async def test_what_was_cut_off_left_no_outcome(eu: Floor, outside: Counting) -> None:
    """The OpenWOP scenario: cancelled in the wait behind the first effect, forked at that effect's first start. Its first execution is served;
    the replay gets past the wait, which is pure, and the second execution fails closed."""
    run = await eu.client.start_run("ordinal", {"url": outside.url}, home_region="eu")
    async with executing(eu):
        await until(run, "node.started", "hold")
        await say(run, CANCEL_REQUESTED)
        await until(run, "run.cancelled")
    assert (await types(run))[-2:] == ["node.cancelled hold", "run.cancelled"]
    fork = await eu.fork(run, from_seq=await seq_of(run, "node.started", "effect"))
    served, missing = await find(fork, "node.completed", "effect"), await find(fork, "node.failed", "effect")
    assert [event.payload_bytes for event in served] == [
        event.payload_bytes for event in await find(run, "node.completed", "effect")
    ]
    assert [event.payload["error"]["code"] for event in missing] == ["replay_source_missing"]
    assert (await log(fork))[-1].type == "run.failed"
    assert outside.count == 1


@pytest_asyncio.fixture(scope="session")
async def three(topology: EmbeddedCluster) -> AsyncIterator[dict[str, Floor]]:
    """Executors in three regions, each beside the server of its region, which reads its own standby."""
    topology.create_database("executors", template=TEMPLATE)
    url = topology.primary.url(database="executors")
    local_urls: dict[str, str | None] = {"eu": url}
    for name in ("us", "ap"):
        topology.wait_caught_up(name)
        local_urls[name] = topology.standby(name).url(database="executors")
    settings = settings_for(url, local_urls, drain_grace_s=1.0)
    async with AsyncExitStack() as stack:
        floors = {}
        for region in local_urls:
            server = await start_region(settings, region)
            stack.push_async_callback(server.stop)
            floors[region] = await stack.enter_async_context(floor(server.address, region))
        yield floors


@pytest.mark.topology
async def test_every_region_replays_a_run_alike(three: dict[str, Floor], outside: Counting) -> None:
    run = await three["eu"].run("order", {"url": outside.url})
    replays = []
    for region, regional in three.items():
        fork = await regional.fork(regional.client.run(run.run_id))
        assert (await fork.info()).home_region == region
        replays.append(await log(fork))
    source = [(event.type, event.payload_bytes, event.masked) for event in await log(run)]
    for events in replays:
        assert [(event.type, event.payload_bytes, event.masked) for event in events] == source
    assert len({events[-1].event_id for events in replays}) == 3
    assert outside.count == 1


@pytest.mark.topology
async def test_an_executor_takes_only_runs_of_its_region(three: dict[str, Floor], outside: Counting) -> None:
    run = await three["eu"].client.start_run("order", {"url": outside.url}, home_region="eu")
    await three["us"].work()
    assert outside.count == 0
    await three["eu"].work()
    assert (await log(run))[-1].type == "run.completed"
