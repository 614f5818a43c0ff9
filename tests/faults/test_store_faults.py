"""The database did it and the driver says that it failed; or it did not, and says so; or it refuses one append for good."""

import asyncio

import pytest

from api.wire import SOON_S, event, events, refused, request_id
from faults.faulty import ABORTED, DEADLOCK, LOST
from guarantees.copies import execute
from isoline_server.domain import limits

UNKNOWN_BODY = "poison"


# -- it worked, and the driver says it failed ------------------------------------------------------------------------------------------


async def test_an_append_that_landed_though_the_driver_denied_it_is_answered_once_as_the_first(failing):
    run_id = await failing.wire.new_run(2)
    failing.writer.fail_after("append")
    answer = await failing.wire.append(run_id, *events(3))
    assert (answer.first_seq, answer.last.seq, answer.repeated) == (2, 4, False)
    assert (await failing.other.head(run_id)) == answer.last
    assert failing.writer.is_healed


async def test_an_append_with_an_expected_seq_that_landed_unseen_is_no_conflict(failing):
    run_id = await failing.wire.new_run(2)
    failing.writer.fail_after("append")
    assert (await failing.wire.append(run_id, event(), expected_seq=2)).first_seq == 2


async def test_an_append_of_a_counter_that_landed_unseen_is_no_reuse(failing):
    run_id = await failing.wire.new_run()
    failing.writer.fail_after("append")
    answer = await failing.wire.append(run_id, *events(2), engine="e", engine_seq=1)
    assert (answer.first_seq, answer.repeated) == (0, False)
    assert (await failing.wire.append(run_id, event(), engine="e", engine_seq=3)).first_seq == 2


async def test_an_append_that_ended_the_run_unseen_is_no_append_to_an_ended_run(failing):
    run_id = await failing.wire.new_run(1)
    failing.writer.fail_after("append")
    assert (await failing.wire.append(run_id, event({"outputs": {}}, "run.completed"))).first_seq == 1


async def test_an_append_that_landed_unseen_and_was_overtaken_has_its_first_outcome(failing):
    run_id = await failing.wire.new_run()
    failing.writer.fail_after("append")
    failing.writer.fail_before("load_heads", times=3)
    first = asyncio.ensure_future(failing.wire.append(run_id, event({"who": "first"}), expected_seq=0))
    await at_head(failing, run_id, 0)
    await failing.other.append(run_id, event({"who": "other"}))
    answer = await first
    assert (answer.first_seq, answer.repeated) == (0, False)


async def at_head(failing, run_id, seq):
    from support.waiting import eventually

    async def there():
        return (await failing.other.head(run_id)).seq >= seq

    await eventually(there, what=f"seq {seq}")


async def test_an_append_that_lands_unseen_again_and_again_lands_once(failing):
    run_id = await failing.wire.new_run()
    failing.writer.fail_after("append")
    failing.writer.fail_after("load_receipts", times=2)
    assert (await failing.wire.append(run_id, event())).first_seq == 0
    assert len((await failing.other.read(run_id)).records) == 1


async def test_neighbours_of_an_append_that_landed_unseen_land_once_too(failing):
    runs = [await failing.wire.new_run() for _ in range(4)]
    failing.writer.fail_after("append", times=2)
    answers = await asyncio.gather(*(failing.wire.append(run_id, event({"n": n})) for n in range(5) for run_id in runs))
    assert not any(answer.repeated for answer in answers)
    for run_id in runs:
        assert sorted(each["n"] for each in (await failing.other.read(run_id)).payloads) == list(range(5))


async def test_a_create_that_landed_though_the_driver_denied_it_is_answered_once_as_the_first(failing):
    failing.writer.fail_after("insert_run")
    answer = await failing.wire.create(workflow_id="denied")
    assert not answer.repeated
    assert [run.run_id for run in (await failing.other.list(workflow_id="denied")).runs] == [answer.run.run_id]
    assert (await failing.wire.append(answer.run.run_id, event())).first_seq == 0


@pytest.mark.parametrize("from_seq", [0, 2])
async def test_a_fork_that_landed_though_the_driver_denied_it_is_answered_once_as_the_first(failing, from_seq):
    source = await failing.wire.new_run(3, workflow_id=f"denied-{from_seq}")
    failing.writer.fail_after("insert_run")
    answer = await failing.wire.fork(source, from_seq)
    assert (answer.repeated, answer.run.head.seq) == (False, from_seq - 1)
    listed = {run.run_id for run in (await failing.other.list(workflow_id=f"denied-{from_seq}")).runs}
    assert listed == {source, answer.run.run_id}


@pytest.mark.parametrize(
    "make", [lambda wire, source: wire.create(), lambda wire, source: wire.fork(source, 2)], ids=["create", "fork"]
)
@pytest.mark.parametrize("method", ["load_receipts", "insert_run"])
async def test_a_run_that_was_made_unseen_is_found_also_when_looking_fails(failing, make, method):
    source = await failing.wire.new_run(3)
    failing.writer.fail_after("insert_run")
    failing.writer.fail_before(method, times=2)
    answer = await make(failing.wire, source)
    assert not answer.repeated
    assert (await failing.other.get(answer.run.run_id)).run == answer.run


# -- it did not work -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ABORTED, DEADLOCK, LOST], ids=["40001", "40P01", "lost"])
async def test_a_storm_of_failures_is_sat_out(failing, error):
    run_id = await failing.wire.new_run()
    failing.writer.fail_before("append", error, times=6)
    assert (await failing.wire.append(run_id, event())).first_seq == 0
    failing.writer.fail_before("insert_run", error, times=4)
    made = (await failing.wire.create()).run.run_id
    failing.writer.fail_before("insert_run", error, times=4)
    assert (await failing.wire.fork(run_id, 0)).run.run_id != made


async def test_a_storm_that_outlasts_the_deadline_is_said_to_be_unavailable(failing, early):
    run_id = await failing.wire.new_run()
    failing.writer.fail_before("append", ABORTED, times=10_000)
    told = await refused(failing.wire.append(run_id, event(), timeout_s=SOON_S))
    failing.writer.heal()
    assert (told.code.name, told.metadata["retryable"]) == ("UNAVAILABLE", "true")
    assert (await failing.wire.append(run_id, event())).first_seq == 0


@pytest.mark.parametrize(
    "make",
    [lambda wire, source: wire.create(timeout_s=SOON_S), lambda wire, source: wire.fork(source, 1, timeout_s=SOON_S)],
    ids=["create", "fork"],
)
async def test_a_run_that_surely_was_not_made_is_said_not_to_be(failing, early, make):
    source = await failing.wire.new_run(2)
    failing.writer.fail_before("insert_run", ABORTED, times=10_000)
    told = await refused(make(failing.wire, source))
    assert (told.code.name, told.reason) == ("UNAVAILABLE", "STORE_UNAVAILABLE")


@pytest.mark.parametrize(
    "make",
    [lambda wire, source: wire.create(timeout_s=SOON_S), lambda wire, source: wire.fork(source, 1, timeout_s=SOON_S)],
    ids=["create", "fork"],
)
async def test_a_run_that_perhaps_was_made_is_said_to_be_unknown(failing, early, make):
    source = await failing.wire.new_run(2)
    failing.writer.fail_before("insert_run", LOST, times=10_000)
    told = await refused(make(failing.wire, source))
    assert (told.code.name, told.reason) == ("UNAVAILABLE", "OUTCOME_UNKNOWN")


@pytest.mark.parametrize(
    "make",
    [lambda wire, source: wire.create(timeout_s=SOON_S), lambda wire, source: wire.fork(source, 1, timeout_s=SOON_S)],
    ids=["create", "fork"],
)
async def test_a_run_that_was_made_is_never_said_not_to_be(failing, early, make):
    """It was made, the driver denied it, and now even its receipt cannot be read: whatever is said, it may not be that nothing was done."""
    source = await failing.wire.new_run(2)
    failing.writer.fail_after("insert_run")
    failing.writer.fail_before("load_receipts", ABORTED, times=10_000)
    told = await refused(make(failing.wire, source))
    assert (told.code.name, told.reason) == ("UNAVAILABLE", "OUTCOME_UNKNOWN")


# -- an append that the database refuses for good --------------------------------------------------------------------------------------


def poisonous(group):
    return any(b"poison" in record for record in group.records)


async def test_a_poisonous_append_fails_alone_among_the_runs_of_its_batch(failing):
    runs = [await failing.wire.new_run() for _ in range(5)]
    failing.writer.poison = poisonous
    with_poison = asyncio.ensure_future(refused(failing.wire.append(runs[0], event({"poison": True}))))
    answers = await asyncio.gather(*(failing.wire.append(run_id, event()) for run_id in runs[1:]))
    assert [answer.first_seq for answer in answers] == [0] * 4
    assert (await with_poison).code.name == "INTERNAL"
    assert (await failing.other.head(runs[0])).seq == -1


async def test_a_poisonous_append_fails_alone_among_the_appends_of_its_run(failing):
    run_id = await failing.wire.new_run()
    failing.writer.poison = poisonous
    calls = [failing.wire.append(run_id, event({"poison": True} if n == 2 else {"n": n})) for n in range(5)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [n for n, answer in enumerate(answers) if isinstance(answer, Exception)] == [2]
    assert sorted(each["n"] for each in (await failing.other.read(run_id)).payloads) == [0, 1, 3, 4]


async def test_a_lane_goes_on_after_a_poisonous_append(failing):
    run_id = await failing.wire.new_run()
    failing.writer.poison = poisonous
    await refused(failing.wire.append(run_id, event({"poison": True})))
    failing.writer.heal()
    assert (await failing.wire.append(run_id, event())).first_seq == 0


# -- contention ------------------------------------------------------------------------------------------------------------------------


async def test_a_head_that_always_moves_first_is_at_most_contended(failing):
    """Another writer is faster every time: the append is refused after its bound, not conflicting, not unknown, and nothing was done."""
    run_id = await failing.wire.new_run()
    real = failing.writer._real
    moved = 0

    class Faster:
        def __getattr__(self, method):
            return getattr(real, method)

        async def append(self, region, groups):
            nonlocal moved
            moved += 1
            await execute(failing.url, "UPDATE runs SET head_digest = sha256(head_digest) WHERE run_id = %s", [run_id])
            return await real.append(region, groups)

    failing.writer._real = Faster()
    try:
        told = await refused(failing.wire.append(run_id, event()))
    finally:
        failing.writer._real = real
    assert (told.code.name, told.reason) == ("ABORTED", "HEAD_CONTENDED")
    assert moved == limits.APPEND_RETRY_MAX + 1
    assert (await failing.other.head(run_id)).seq == -1


async def test_races_between_two_servers_do_not_reach_callers_that_expect_no_seq(failing):
    """Each server loses at most as many races as the other has appends, which here is below the bound."""
    run_id = await failing.wire.new_run()
    calls = [
        wire.append(run_id, event({"n": n}), request_id=request_id())
        for n in range(limits.APPEND_RETRY_MAX - 2)
        for wire in (failing.wire, failing.other)
    ]
    assert sorted(answer.first_seq for answer in await asyncio.gather(*calls)) == list(range(len(calls)))
