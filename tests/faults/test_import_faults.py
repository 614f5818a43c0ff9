"""An import that loses its server, its answer or its database on the way: the run is there whole and once, or not at all."""

import asyncio

import pytest

from faults.faulty import ABORTED, LOST
from guarantees.copies import execute
from isoline_client import Client
from support.proxy import Proxy
from support.v1 import STARTED, import_into, v1_log
from support.waiting import eventually

NOTE = ("example.noted", {"text": "x" * 100_000})
SHORT = v1_log(STARTED, ("example.noted", {}), ("example.noted", {}))
LONG = v1_log(STARTED, *[NOTE] * 40)
"""Four messages of a megabyte."""


class Interrupted(list):
    """Documents of which the ``at``-th does something when it is sent: on the second reading, for the first only hashes."""

    def __init__(self, documents, at, act):
        super().__init__(documents)
        self.readings = 0
        self._at, self._act = at, act

    def __iter__(self):
        self.readings += 1
        reading = self.readings
        for place, document in enumerate(list.__iter__(self)):
            if (reading, place) == (2, self._at):
                self._act()
            yield document


async def runs_of(failing):
    return (await execute(failing.url, "SELECT count(*) FROM runs WHERE era = 2"))[0][0]


async def test_an_import_that_was_cut_off_begins_again_and_makes_one_run(failing):
    before = await runs_of(failing)
    async with Proxy(failing.server.address) as proxy, Client([proxy.address]) as client:
        documents = Interrupted(LONG, 30, proxy.cut)
        report = await client.import_run(documents)
    assert documents.readings >= 3
    assert (report.run.head.seq, report.run.era) == (40, 2)
    assert await runs_of(failing) == before + 1
    assert (await failing.other.read(report.run.run_id)).last.digest == report.run.head.digest


async def test_an_import_whose_answer_is_lost_is_answered_on_the_repeat(failing):
    before = await runs_of(failing)
    async with Proxy(failing.server.address) as proxy, Client([proxy.address]) as client:
        await client.capabilities()  # connected
        proxy.deaf = True
        importing = asyncio.create_task(client.import_run(SHORT))
        await eventually(lambda: landed(failing, before), what="the run")
        proxy.deaf = False
        proxy.cut()
        report = await importing
    assert (report.repeated, report.run.head.seq) == (True, 2)
    assert await runs_of(failing) == before + 1


async def landed(failing, before):
    return await runs_of(failing) > before


@pytest.mark.parametrize("method", ["insert_events", "insert_run"])
@pytest.mark.parametrize(("when", "error"), [("fail_before", ABORTED), ("fail_before", LOST), ("fail_after", LOST)])
async def test_a_statement_of_an_import_that_failed_or_seemed_to_is_repeated(failing, method, when, error):
    before = await runs_of(failing)
    getattr(failing.writer, when)(method, error)
    run = (await import_into(failing.wire, LONG, batch=10)).run
    assert failing.writer.is_healed
    assert await runs_of(failing) == before + 1
    read = await failing.other.read(run.run_id)
    assert (len(read.records), read.last) == (41, run.head)
