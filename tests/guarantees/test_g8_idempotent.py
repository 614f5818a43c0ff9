"""G8: a repeat gets the first answer, marked as repeated, from any server; the same request id with other bytes is refused; our own landed
write is never reported as a conflict."""

import asyncio
from contextlib import asynccontextmanager

import psycopg
import pytest

from api.wire import event, events, refusal_of, refused, request_id
from guarantees.copies import plain
from isoline.v1 import common_pb2 as pb
from support.waiting import eventually


def same(first, repeat, of):
    """The repeat has the first one's answer, and is marked."""
    return (repeat.repeated, first.repeated) == (True, False) and of(first) == of(repeat)


def where(appended):
    return appended.first_seq, appended.last


def made(answer):
    return answer.run


@asynccontextmanager
async def locked(url, run_id, until):
    """Hold the head of a run, so that an append to it stays under way; let go once ``until`` backends wait for it."""
    async with await psycopg.AsyncConnection.connect(plain(url)) as holder:
        await holder.execute("SELECT 1 FROM runs WHERE run_id = %s FOR UPDATE", [run_id])

        async def waiting():
            cursor = await watcher.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            row = await cursor.fetchone()
            return row[0] >= until

        async with await psycopg.AsyncConnection.connect(plain(url), autocommit=True) as watcher:
            yield lambda: eventually(waiting, what=f"{until} blocked statements")
        await holder.rollback()


# -- append --------------------------------------------------------------------------------------------------------------------------


async def test_g8_a_repeated_append_gets_the_first_answer_from_any_server(pair):
    run_id, again = await pair["eu"].new_run(), {"request_id": request_id()}
    first = await pair["eu"].append(run_id, *events(3), **again)
    for region in ("eu", "us"):
        assert same(first, await pair[region].append(run_id, *events(3), **again), where)
    assert (await pair["eu"].head(run_id)).seq == 2


async def test_g8_a_repeat_is_answered_long_after_the_head_moved_on(pair):
    run_id, again = await pair["eu"].new_run(), {"request_id": request_id()}
    first = await pair["eu"].append(run_id, *events(3), **again)
    for n in range(5):
        await pair["us" if n % 2 else "eu"].append(run_id, event())
    for region in ("us", "eu"):
        assert same(first, await pair[region].append(run_id, *events(3), **again), where)


async def test_g8_a_repeat_is_looked_up_before_its_version_is_checked(pair):
    run_id, again = await pair["eu"].new_run(), {"request_id": request_id(), "expected_seq": 0}
    first = await pair["eu"].append(run_id, event(), **again)
    await pair["eu"].append(run_id, event())
    for region in ("us", "eu"):
        assert same(first, await pair[region].append(run_id, event(), **again), where)


async def test_g8_a_repeat_is_answered_after_the_run_has_ended(pair):
    run_id, again = await pair["eu"].new_run(), {"request_id": request_id()}
    end = event({"outputs": {}}, "run.completed")
    first = await pair["eu"].append(run_id, end, **again)
    assert same(first, await pair["us"].append(run_id, end, **again), where)


async def test_g8_the_same_append_at_once_through_two_servers_lands_once(pair):
    for _ in range(5):
        run_id, again = await pair["eu"].new_run(), {"request_id": request_id()}
        answers = await asyncio.gather(
            *(pair[region].append(run_id, *events(2), **again) for region in ("eu", "us") for _ in range(4))
        )
        assert {where(answer)[0] for answer in answers} == {0}
        assert [answer.repeated for answer in answers].count(False) == 1
        assert (await pair["eu"].head(run_id)).seq == 1


@pytest.mark.parametrize(
    "other",
    [
        {"events": [event({"n": 1})]},
        {"events": [event({"n": 0}), event({"n": 1})]},
        {"events": [event({"n": 0}, "example.other")]},
        {"events": [event({"n": 0}, node_id="a")]},
        {"events": [event({"n": 0}, schema_version=2)]},
        {"events": [event({"n": 0}, masked=["/n"])]},
        {"expected_seq": 0},
        {"engine": "e", "engine_seq": 1},
    ],
    ids=["payload", "more events", "type", "node", "schema", "masked", "expected_seq", "engine"],
)
async def test_g8_the_same_request_id_with_another_body_is_refused(two, other):
    run_id, first = await two["eu"].new_run(), {"request_id": request_id(), "events": [event({"n": 0})]}
    await two["eu"].append(run_id, **first)
    for region in ("eu", "us"):
        told = await refused(two[region].append(run_id, **{**first, **other}))
        assert (told.code.name, told.reason) == ("ALREADY_EXISTS", "IDEMPOTENCY_KEY_MISMATCH")
        assert told.metadata["request_id"] == first["request_id"]
    assert (await two["eu"].head(run_id)).seq == 0


async def test_g8_a_request_id_of_another_run_of_the_tenant_is_refused(pair):
    a, b, again = await pair["eu"].new_run(), await pair["eu"].new_run(), {"request_id": request_id()}
    await pair["eu"].append(a, event(), **again)
    assert (await refused(pair["us"].append(b, event(), **again))).reason == "IDEMPOTENCY_KEY_MISMATCH"
    assert (await pair["us"].head(b)).seq == -1


async def test_g8_a_repeat_while_the_first_still_runs_waits_for_its_answer(two):
    run_id, again = await two["eu"].new_run(), {"request_id": request_id()}
    async with locked(url_of(two), run_id, 2) as blocked:
        calls = [asyncio.ensure_future(two[region].append(run_id, event(), **again)) for region in ("eu", "eu", "us")]
        await blocked()
    answers = await asyncio.gather(*calls)
    assert {where(answer)[0] for answer in answers} == {0}
    assert [answer.repeated for answer in answers].count(False) == 1


async def test_g8_another_body_is_refused_while_the_first_still_runs(two):
    run_id, again = await two["eu"].new_run(), {"request_id": request_id()}
    async with locked(url_of(two), run_id, 1) as blocked:
        first = asyncio.ensure_future(two["eu"].append(run_id, event({"n": 1}), **again))
        await blocked()
        told = await refused(two["eu"].append(run_id, event({"n": 2}), **again))
    assert told.reason == "IDEMPOTENCY_KEY_MISMATCH"
    assert (await first).first_seq == 0


async def test_g8_two_bodies_at_once_through_two_servers_are_one_append_and_one_refusal(two):
    run_id, again = await two["eu"].new_run(), {"request_id": request_id()}
    async with locked(url_of(two), run_id, 2) as blocked:
        calls = [
            asyncio.ensure_future(two[region].append(run_id, event({"by": region}), **again)) for region in ("eu", "us")
        ]
        await blocked()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    refusals = [refusal_of(outcome).reason for outcome in outcomes if isinstance(outcome, Exception)]
    assert refusals == ["IDEMPOTENCY_KEY_MISMATCH"]
    assert len((await two["us"].read(run_id)).records) == 1


def url_of(two):
    return two.servers["eu"]._settings.leader_url


async def test_g8_a_refused_append_leaves_its_request_id_free(two):
    run_id, again = await two["eu"].new_run(), {"request_id": request_id()}
    assert (await refused(two["eu"].append(run_id, event(), expected_seq=3, **again))).reason == "SEQ_CONFLICT"
    assert not (await two["us"].append(run_id, event(), **again)).repeated


# -- engine counters -----------------------------------------------------------------------------------------------------------------


async def test_g8_an_engine_that_lost_its_request_id_is_known_by_its_counter(pair):
    run_id, counted = await pair["eu"].new_run(), {"engine": "e", "engine_seq": 1}
    first = await pair["eu"].append(run_id, *events(2), **counted)
    for region in ("us", "eu"):
        assert same(first, await pair[region].append(run_id, *events(2), **counted), where)


@pytest.mark.parametrize("engine_seq", [1, 2])
async def test_g8_a_counter_that_was_used_for_other_events_is_refused_as_such(pair, engine_seq):
    run_id = await pair["eu"].new_run()
    await pair["eu"].append(run_id, *events(2), engine="e", engine_seq=1)
    for region in ("us", "eu"):
        told = await refused(pair[region].append(run_id, event({"other": True}), engine="e", engine_seq=engine_seq))
        assert (told.code.name, told.reason) == ("ALREADY_EXISTS", "ENGINE_COUNTER_REUSED")
        assert (told.metadata["engine"], told.metadata["expected_engine_seq"], told.metadata["got_engine_seq"]) == (
            "e",
            "3",
            str(engine_seq),
        )
    assert (await pair["eu"].head(run_id)).seq == 1


async def test_g8_a_counter_in_use_is_refused_for_other_events_while_the_first_still_runs(two):
    run_id = await two["eu"].new_run()
    async with locked(url_of(two), run_id, 1) as blocked:
        first = asyncio.ensure_future(two["eu"].append(run_id, *events(2), engine="e", engine_seq=1))
        await blocked()
        told = await refused(two["eu"].append(run_id, event({"other": True}), engine="e", engine_seq=1))
    assert (told.reason, told.metadata["expected_engine_seq"]) == ("ENGINE_COUNTER_REUSED", "3")
    assert (await first).last.seq == 1


async def test_g8_a_gap_in_a_counter_is_refused_with_both_numbers(pair):
    run_id = await pair["eu"].new_run()
    await pair["eu"].append(run_id, *events(2), engine="e", engine_seq=1)
    for region in ("us", "eu"):
        told = await refused(pair[region].append(run_id, event(), engine="e", engine_seq=4))
        assert (told.code.name, told.reason) == ("FAILED_PRECONDITION", "ENGINE_GAP")
        assert (told.metadata["expected_engine_seq"], told.metadata["got_engine_seq"]) == ("3", "4")


async def test_g8_counters_are_of_one_run_and_one_engine(two):
    a, b = await two["eu"].new_run(), await two["eu"].new_run()
    for run_id, engine in ((a, "e"), (a, "f"), (b, "e")):
        assert not (await two["us"].append(run_id, event(), engine=engine, engine_seq=1)).repeated


# -- create --------------------------------------------------------------------------------------------------------------------------


async def test_g8_a_repeated_create_gives_the_first_run_from_any_server(pair):
    again = {"request_id": request_id(), "workflow_id": "w", "tags": ["a", "b"]}
    first = await pair["eu"].create(**again)
    await pair["us"].append(first.run.run_id, event())
    for region in ("us", "eu"):
        assert same(first, await pair[region].create(**again), made)


async def test_g8_the_same_create_at_once_through_two_servers_makes_one_run(pair):
    for _ in range(5):
        again = {"request_id": request_id(), "workflow_id": "w"}
        answers = await asyncio.gather(*(pair[region].create(**again) for region in ("eu", "us") for _ in range(4)))
        assert len({answer.run.run_id for answer in answers}) == 1
        assert [answer.repeated for answer in answers].count(False) == 1


@pytest.mark.parametrize("other", [{"workflow_id": "other"}, {"tags": ["t"]}, {"home_region": "us"}], ids=str)
async def test_g8_a_create_with_the_same_request_id_and_another_body_is_refused(two, other):
    again = {"request_id": request_id(), "workflow_id": "w"}
    first = await two["eu"].create(**again)
    for region in ("eu", "us"):
        assert (await refused(two[region].create(**{**again, **other}))).reason == "IDEMPOTENCY_KEY_MISMATCH"
    assert same(first, await two["us"].create(**again), made)


async def test_g8_creates_at_once_with_one_request_id_and_two_bodies_make_one_run(two):
    again = {"request_id": request_id()}
    calls = (two[region].create(workflow_id=workflow_id, **again) for region, workflow_id in (("eu", "a"), ("us", "b")))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(answer, Exception) for answer in answers) == 1


# -- fork ----------------------------------------------------------------------------------------------------------------------------


async def test_g8_a_repeated_fork_gives_the_first_child_as_it_was_made(pair):
    source, again = await pair["eu"].new_run(5), {"request_id": request_id()}
    first = await pair["eu"].fork(source, 3, **again)
    await pair["us"].append(first.run.run_id, event())
    for region in ("us", "eu"):
        assert same(first, await pair[region].fork(source, 3, **again), made)


async def test_g8_the_same_fork_at_once_through_two_servers_makes_one_child(pair):
    source = await pair["eu"].new_run(5)
    for _ in range(5):
        again = {"request_id": request_id()}
        answers = await asyncio.gather(
            *(pair[region].fork(source, 3, **again) for region in ("eu", "us") for _ in range(4))
        )
        assert len({answer.run.run_id for answer in answers}) == 1
        assert [answer.repeated for answer in answers].count(False) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"from_seq": 2},
        {"mode": pb.FORK_MODE_REPLAY},
        {"run_options_overlay": b"{}"},
        {"home_region": "us"},
        {"expected_prefix_digest": bytes(32)},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_g8_a_fork_with_the_same_request_id_and_another_body_is_refused(two, other):
    source, again = await two["eu"].new_run(5), {"request_id": request_id(), "from_seq": 3}
    await two["eu"].fork(source, **again)
    for region in ("eu", "us"):
        assert (await refused(two[region].fork(source, **{**again, **other}))).reason == "IDEMPOTENCY_KEY_MISMATCH"


async def test_g8_forks_at_once_with_one_request_id_and_two_bodies_make_one_child(two):
    source, again = await two["eu"].new_run(5), {"request_id": request_id()}
    answers = await asyncio.gather(
        *(two[region].fork(source, seq, **again) for region, seq in (("eu", 2), ("us", 3))), return_exceptions=True
    )
    assert sum(isinstance(answer, Exception) for answer in answers) == 1


# -- scope ---------------------------------------------------------------------------------------------------------------------------


async def test_g8_request_ids_are_scoped_by_operation(two):
    one = {"request_id": request_id()}
    run_id = (await two["eu"].create(**one)).run.run_id
    assert not (await two["us"].append(run_id, *events(2), **one)).repeated
    assert not (await two["us"].fork(run_id, 1, **one)).repeated
