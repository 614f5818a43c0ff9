"""What an executor writes: in order, whole groups, one append at a time."""

import asyncio
from collections.abc import Sequence

import pytest

from isoline_client.errors import SeqConflict
from isoline_client.events import NewEvent
from isoline_client.executor.journal import Journal, request_id
from isoline_client.values import Appended
from isoline_client.verify import Position


class Log:
    """Takes appends; may be told to wait, and to fail from a seq on."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.ids: list[str] = []
        self.open = asyncio.Event()
        self.open.set()
        self.fails_from = 10**9

    async def send(self, events: Sequence[NewEvent], seq: int, request: str) -> Appended:
        await self.open.wait()
        if seq >= self.fails_from:
            raise SeqConflict(run_id="r", expected_seq=seq, actual_seq=seq + 1)
        self.batches.append([event.type for event in events])
        self.ids.append(request)
        return Appended(seq, Position(seq + len(events) - 1, b""), repeated=False)


def events(*names: str) -> list[NewEvent]:
    return [NewEvent(name) for name in names]


async def test_what_gathers_while_an_append_is_under_way_goes_into_the_next() -> None:
    log = Log()
    journal = Journal("r", 0, log.send, waiting_max=100)
    log.open.clear()
    await journal.put(events("a.a", "a.b"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for name in ("b.a", "b.b", "b.c"):
        await journal.put(events(name))
    log.open.set()
    await journal.flush()
    assert log.batches == [["a.a", "a.b"], ["b.a", "b.b", "b.c"]]
    assert journal.next_seq == journal.planned_seq == 5


async def test_request_ids_are_of_the_place_alone() -> None:
    log = Log()
    journal = Journal("r", 7, log.send, waiting_max=100)
    await journal.put(events("a.a"))
    await journal.flush()
    await journal.put(events("a.b"))
    await journal.flush()
    assert log.ids == [request_id("r", 7), request_id("r", 8)]


async def test_the_first_failure_stops_it() -> None:
    log = Log()
    log.fails_from = 1
    journal = Journal("r", 0, log.send, waiting_max=100)
    await journal.put(events("a.a"))
    await journal.flush()
    await journal.put(events("b.a"))
    with pytest.raises(SeqConflict):
        await journal.flush()
    with pytest.raises(SeqConflict):
        await journal.put(events("c.a"))
    assert log.batches == [["a.a"]]


async def test_a_replay_gathers_until_somebody_flushes() -> None:
    log = Log()
    journal = Journal("r", 0, log.send, waiting_max=100, gather=3)
    await journal.put(events("a.a"))
    await journal.put(events("a.b"))
    await asyncio.sleep(0)
    assert log.batches == []
    await asyncio.gather(journal.flush(), journal.flush())
    assert log.batches == [["a.a", "a.b"]]


async def test_a_group_is_never_split() -> None:
    log = Log()
    journal = Journal("r", 0, log.send, waiting_max=5_000)
    log.open.clear()
    for _ in range(3):
        await journal.put(events(*["a.a"] * 400))
    log.open.set()
    await journal.flush()
    assert [len(batch) for batch in log.batches] == [800, 400]
    await journal.close()
