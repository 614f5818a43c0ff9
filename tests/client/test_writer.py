import asyncio

import pytest

from isoline_client import Appended, NewEvent, NotWritten, OutcomeUnknown, Position, SeqConflict, Writer

LONG_MS = 60_000.0


def event(name="e", size=2):
    return NewEvent("node.completed", b"x" * size, node_id=name)


class Log:
    """Takes batches as ``Run.append`` does. ``hold`` keeps answers back, ``fail`` are the errors to come."""

    def __init__(self):
        self.batches = []
        self.calls = []
        self.fail = []
        self.hold = asyncio.Event()
        self.hold.set()

    async def append(self, events, **how):
        self.calls.append(how)
        self.batches.append([each.node_id for each in events])
        first_seq = sum(len(batch) for batch in self.batches[:-1])
        await self.hold.wait()
        if self.fail:
            raise self.fail.pop(0)
        return Appended(first_seq, Position(first_seq + len(events) - 1, b""), repeated=False)


@pytest.fixture
def log():
    return Log()


async def write(writer, *names):
    return [await writer.write(event(name)) for name in names]


async def break_off(log):
    async with Writer(log.append, linger_ms=LONG_MS) as writer:
        await write(writer, "a")
        raise ZeroDivisionError


async def test_events_keep_their_order_and_learn_their_seqs(log):
    async with Writer(log.append, batch_events=3, linger_ms=LONG_MS) as writer:
        futures = await write(writer, *"abcdefgh")
    assert log.batches == [["a", "b", "c"], ["d", "e", "f"], ["g", "h"]]
    assert [await future for future in futures] == list(range(8))


async def test_a_batch_is_sent_when_its_bytes_are_full(log):
    async with Writer(log.append, batch_bytes=10, linger_ms=LONG_MS) as writer:
        for name in "abc":
            await writer.write(event(name, size=6))
    assert log.batches == [["a"], ["b"], ["c"]]


async def test_a_lonely_event_is_sent_when_it_has_lingered(log):
    async with Writer(log.append, linger_ms=1) as writer:
        (future,) = await write(writer, "a")
        assert await asyncio.wait_for(future, 5) == 0


async def test_events_gather_while_a_batch_is_under_way(log, until):
    log.hold.clear()
    async with Writer(log.append, linger_ms=0) as writer:
        await write(writer, "a")
        await until(lambda: log.batches)
        await write(writer, "b", "c", "d")
        log.hold.set()
    assert log.batches == [["a"], ["b", "c", "d"]]


async def test_flush_waits_for_the_answers(log, until):
    log.hold.clear()
    async with Writer(log.append, linger_ms=LONG_MS) as writer:
        futures = await write(writer, "a", "b")
        flushing = asyncio.create_task(writer.flush())
        await until(lambda: log.batches)
        assert not flushing.done()
        log.hold.set()
        await flushing
        assert all(future.done() for future in futures)


@pytest.mark.parametrize("bounds", [{"max_events": 4}, {"max_bytes": 8}])
async def test_a_full_writer_makes_the_caller_wait(log, until, bounds):
    log.hold.clear()
    async with Writer(log.append, batch_events=2, **bounds) as writer:
        await write(writer, *"abcd")
        writing = asyncio.create_task(writer.write(event("e")))
        await until(lambda: log.batches)
        await asyncio.sleep(0)
        assert not writing.done()
        log.hold.set()
        assert await (await writing) == 4


async def test_a_full_writer_does_not_wait_for_the_linger(log):
    async with Writer(log.append, max_events=2, linger_ms=LONG_MS) as writer:
        async with asyncio.timeout(5):
            await write(writer, *"abcde")


async def test_callers_that_wait_keep_their_order(log, until):
    log.hold.clear()
    async with Writer(log.append, batch_events=1, max_bytes=6) as writer:
        await writer.write(event("a", size=6))
        writing = [asyncio.create_task(writer.write(event(name, size))) for name, size in [("b", 6), ("c", 1)]]
        await until(lambda: log.batches)
        log.hold.set()
        await asyncio.gather(*writing)
    assert log.batches == [["a"], ["b"], ["c"]]


async def test_an_event_larger_than_the_bound_goes_through_alone(log):
    async with Writer(log.append, max_bytes=1, linger_ms=0) as writer:
        await write(writer, "a", "b")
    assert log.batches == [["a"], ["b"]]


async def test_a_failed_batch_fails_all_that_waits_behind_it(log, until):
    log.hold.clear()
    log.fail = [SeqConflict(message="raced")]
    writer = Writer(log.append, batch_events=2)
    futures = await write(writer, *"abcd")
    await until(lambda: log.batches)
    log.hold.set()
    failures = await asyncio.gather(*futures, return_exceptions=True)
    assert [type(failure) for failure in failures] == [SeqConflict, SeqConflict, NotWritten, NotWritten]
    assert failures[3].__cause__ is failures[0]
    with pytest.raises(NotWritten):
        await writer.write(event())
    with pytest.raises(SeqConflict):
        await writer.flush()
    with pytest.raises(SeqConflict):
        await writer.close()
    assert log.batches == [["a", "b"]]


async def test_a_caller_that_waits_for_room_learns_of_the_failure(log, until):
    log.hold.clear()
    log.fail = [SeqConflict()]
    writer = Writer(log.append, batch_events=1, max_events=1)
    await write(writer, "a")
    waiting = asyncio.create_task(writer.write(event("b")))
    await until(lambda: log.batches)
    log.hold.set()
    with pytest.raises(NotWritten):
        await waiting
    with pytest.raises(SeqConflict):
        await writer.close()


async def test_the_caller_may_go_on_without_a_refused_batch(log):
    log.fail = [SeqConflict()]
    async with Writer(log.append, linger_ms=0) as writer:
        (lost,) = await write(writer, "a")
        with pytest.raises(SeqConflict):
            await lost
        assert await writer.go_on() is None
        await write(writer, "b")
    assert log.batches == [["a"], ["b"]]


async def test_a_batch_of_unknown_outcome_is_asked_for_again_before_going_on(log):
    log.fail = [OutcomeUnknown()]
    async with Writer(log.append, linger_ms=LONG_MS, engine="e1", engine_seq=5) as writer:
        await write(writer, "a", "b")
        with pytest.raises(OutcomeUnknown):
            await writer.flush()
        assert (await writer.go_on()).last.seq == 3
        await write(writer, "c")
    assert log.batches == [["a", "b"], ["a", "b"], ["c"]]
    assert log.calls[0]["request_id"] == log.calls[1]["request_id"] != log.calls[2]["request_id"]
    assert [call["engine_seq"] for call in log.calls] == [5, 5, 7]


async def test_going_on_fails_while_the_outcome_stays_unknown(log):
    log.fail = [OutcomeUnknown(), OutcomeUnknown(message="still")]
    writer = Writer(log.append, linger_ms=0)
    (future,) = await write(writer, "a")
    await asyncio.wait([future])
    with pytest.raises(OutcomeUnknown, match="still"):
        await writer.go_on()
    with pytest.raises(NotWritten):
        await writer.write(event())
    await writer.go_on()
    await writer.close()


async def test_an_expected_seq_moves_on_with_every_batch(log):
    async with Writer(log.append, batch_events=2, expected_seq=0) as writer:
        await write(writer, *"abcd")
    assert [call["expected_seq"] for call in log.calls] == [0, 2]


async def test_close_flushes_and_a_closed_writer_takes_nothing(log):
    writer = Writer(log.append, linger_ms=LONG_MS)
    (future,) = await write(writer, "a")
    await writer.close()
    await writer.close()
    assert future.result() == 0
    with pytest.raises(NotWritten, match="closed"):
        await writer.write(event())


async def test_an_error_in_the_body_is_kept_and_what_was_written_is_still_sent(log):
    with pytest.raises(ZeroDivisionError):
        await break_off(log)
    assert log.batches == [["a"]]


async def test_a_failure_beside_an_error_in_the_body_is_noted_on_it(log):
    log.fail = [SeqConflict()]
    with pytest.raises(ZeroDivisionError) as raised:
        await break_off(log)
    assert "SeqConflict" in raised.value.__notes__[0]


async def test_a_cancelled_writer_stops_at_once_and_says_what_is_unknown(log, until):
    log.hold.clear()
    futures = []

    async def work():
        async with Writer(log.append, batch_events=1) as writer:
            futures.extend(await write(writer, "a", "b"))
            await asyncio.Event().wait()

    working = asyncio.create_task(work())
    await until(lambda: log.batches)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    unknown, unsent = await asyncio.gather(*futures, return_exceptions=True)
    assert isinstance(unknown, OutcomeUnknown)
    assert unknown.request_id == log.calls[0]["request_id"]
    assert isinstance(unsent, NotWritten)


async def test_an_unforeseen_error_reaches_those_who_wait(log):
    log.fail = [ZeroDivisionError()]
    writer = Writer(log.append, linger_ms=0)
    (future,) = await write(writer, "a")
    with pytest.raises(ZeroDivisionError):
        await future
    with pytest.raises(ZeroDivisionError):
        await writer.close()


async def test_a_future_given_up_by_its_owner_disturbs_nobody(log):
    async with Writer(log.append, linger_ms=LONG_MS) as writer:
        first, second = await write(writer, "a", "b")
        first.cancel()
    assert await second == 1
