"""``Appending`` with a run that answers as real ones seldom do."""

import re

import pytest

from isoline_client import errors
from isoline_client.cli.appending import Appending, where_it_ended
from isoline_client.cli.feed import Batch
from isoline_client.cli.lines import parse_line
from isoline_client.values import Appended
from isoline_client.verify import Position

USED = errors.RequestIdReused(code="ALREADY_EXISTS")


class Run:
    """A run that gives its answers in order, and holds nothing that could be read."""

    run_id = "run"

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def append(self, events, **how):
        self.asked.append((len(events), how))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def info(self):
        return type("Info", (), {"lineage": ()})

    async def read(self, from_seq):
        for nothing in ():
            yield nothing


def batch_of(*numbers):
    batch = Batch()
    for number in numbers:
        batch.add(parse_line(number, b'{"type":"a.b","payload":{},"timestamp":1}', keep_timestamp=False), 10)
    return batch


def appending(run, engine=""):
    return Appending(run, engine, None, keep_timestamps=False)


def landed(first_seq, last_seq, repeated=False):
    return Appended(first_seq, Position(last_seq, b"d" * 32), repeated)


async def test_what_may_or_may_not_have_landed_is_named():
    work = appending(Run(landed(0, 1), errors.OutcomeUnknown(request_id="r")))
    await work.put(batch_of(1, 2))
    with pytest.raises(errors.OutcomeUnknown):
        await work.put(batch_of(4, 5))
    assert "lines up to 2 of the input are in the run; it is not known whether lines 4 to 5 are" in where_it_ended(work)


async def test_what_surely_did_not_land_is_not_in_doubt():
    work = appending(Run(errors.Unavailable()))
    with pytest.raises(errors.Unavailable):
        await work.put(batch_of(1))
    assert where_it_ended(work) == "no line of the input is in the run"


async def test_the_servers_place_in_the_batch_becomes_the_line():
    error = errors.InvalidRequest(
        message="events[1].masked[0]: must point", metadata={"field": "events[1].masked[0]"}, code="INVALID_ARGUMENT"
    )
    with pytest.raises(errors.InvalidRequest, match=re.escape("line 9: masked[0]: must point")) as caught:
        await appending(Run(error)).put(batch_of(4, 9))
    assert caught.value.metadata == {"field": "masked[0]", "line": "9"}


async def test_a_counter_that_is_used_without_a_trace_of_it_ends_in_its_error():
    run = Run(USED, USED)
    with pytest.raises(errors.RequestIdReused):
        await appending(run, "e").put(batch_of(1))
    assert len(run.asked) == 2


async def test_counters_go_on_over_batches_and_a_repeat_is_counted_apart():
    run = Run(landed(3, 4, repeated=True), landed(9, 9))
    work = appending(run, "e")
    await work.put(batch_of(1, 2))
    await work.put(batch_of(3))
    assert [how["engine_seq"] for _, how in run.asked] == [1, 3]
    totals = work.totals
    assert (totals.already_there, totals.events, totals.first_seq, totals.last.seq, totals.timestamps_left_out) == (
        2,
        1,
        3,
        9,
        3,
    )


async def test_a_repeat_without_an_engine_is_our_own_retry():
    work = appending(Run(landed(0, 0, repeated=True)))
    await work.put(batch_of(1))
    assert (work.totals.events, work.totals.already_there) == (1, 0)
