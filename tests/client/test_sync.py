import asyncio
from itertools import islice

import pytest

from client.double import RUN_ID, hang
from isoline_client import ClientClosed, NewEvent, SeqConflict, SyncClient

EVENT = NewEvent("node.completed", {"a": 1})


@pytest.fixture
def in_thread(near):
    """Run a function with a ``SyncClient`` in a thread, as blocking code would be."""

    async def run(use):
        def work():
            with SyncClient(near.address, timeout_s=5) as client:
                return use(client)

        return await asyncio.to_thread(work)

    return run


async def test_a_run_is_written_and_read(in_thread):
    def use(client):
        run = client.create_run("w")
        assert run.made.workflow_id == "w"
        run.append([EVENT] * 10)
        assert run.info().head == run.prefix().last
        return [event.seq for event in run.read(2)]

    assert await in_thread(use) == list(range(2, 10))


async def test_every_call_of_the_client_is_there(in_thread):
    def use(client):
        run = client.run(RUN_ID)
        assert run.append(EVENT).first_seq == 0
        assert run.fork(0).made.fork.mode == "branch"
        assert run.state().variables == {"x": 1}
        assert client.diff(run, "other").b_run_id == "other"
        assert client.compare(run, "other").equal
        assert [info.run_id for info in client.list_runs(page_size=2)] == [f"acme/eu-{n}" for n in range(5)]
        return client.capabilities().version, client.region_status().region

    assert await in_thread(use) == ("1", "eu")


async def test_errors_are_the_same(in_thread):
    def use(client):
        with pytest.raises(SeqConflict):
            client.run(RUN_ID).append(EVENT, expected_seq=5)

    await in_thread(use)


async def test_a_tail_may_be_left_at_any_event(in_thread, world):
    world.fill(7)

    def use(client):
        return [event.seq for event in islice(client.run(RUN_ID).tail(), 5)]

    assert await in_thread(use) == [0, 1, 2, 3, 4]


async def test_a_tail_stops_at_the_terminal_event(in_thread, world):
    world.fill(2)
    world.end()
    assert await in_thread(lambda client: [e.seq for e in client.run(RUN_ID).tail(stop_at_terminal=True)]) == [0, 1, 2]


async def test_a_reader_holds_two_pages_however_long_the_run_is(in_thread, near, world):
    world.fill(3 * 2000)
    handed_out = []
    page = world.page

    def counted(*args):
        handed_out.append(args)
        return page(*args)

    def use(client):
        pages = client.run(RUN_ID).read_pages()
        next(pages)
        pages.close()

    world.page = counted
    near.plan("ReadEvents")
    await in_thread(use)
    assert len(handed_out) < 2000


async def test_closing_ends_what_is_under_way_and_what_comes(near):
    def work():
        client = SyncClient(near.address)
        events = client.run(RUN_ID).tail()
        client.run(RUN_ID).append(EVENT)
        next(events)
        client.close()
        client.close()
        events.close()
        with pytest.raises(ClientClosed):
            client.run(RUN_ID).info()

    near.plan("GetState", hang())
    await asyncio.to_thread(work)
