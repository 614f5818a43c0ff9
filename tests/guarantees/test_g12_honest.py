"""G12: unknown outcomes are said to be unknown, and what is not there is refused, never guessed, shortened or substituted."""

from contextlib import asynccontextmanager

import grpc
import psycopg
import pytest

from api.wire import SOON_S, event, events, refused, request_id
from guarantees.copies import plain
from isoline_server.domain.limits import STATE_BYTES_MAX

UNKNOWN = ("UNAVAILABLE", "OUTCOME_UNKNOWN")


@asynccontextmanager
async def writes_held_back(two):
    """No write gets through meanwhile, and every one that was tried does afterwards."""
    async with await psycopg.AsyncConnection.connect(plain(two.servers["eu"]._settings.leader_url)) as holder:
        await holder.execute("LOCK TABLE runs IN SHARE ROW EXCLUSIVE MODE")
        yield
        await holder.rollback()


async def test_g12_an_append_whose_deadline_passes_under_way_has_an_unknown_outcome(two, early):
    run_id, once = await two["eu"].new_run(), {"request_id": request_id()}
    async with writes_held_back(two):
        told = await refused(two["eu"].append(run_id, event(), timeout_s=SOON_S, **once))
    assert (told.code.name, told.reason) == UNKNOWN
    assert (await two["us"].append(run_id, event(), **once)).first_seq == 0
    assert (await two["eu"].head(run_id)).seq == 0


async def test_g12_a_create_whose_deadline_passes_under_way_has_an_unknown_outcome(two, early):
    once = {"request_id": request_id(), "workflow_id": "held-back"}
    async with writes_held_back(two):
        told = await refused(two["eu"].create(timeout_s=SOON_S, **once))
    assert (told.code.name, told.reason) == UNKNOWN
    made = await two["us"].create(**once)
    assert [run.run_id for run in (await two["eu"].list(workflow_id="held-back")).runs] == [made.run.run_id]


async def test_g12_a_fork_whose_deadline_passes_under_way_has_an_unknown_outcome(two, early):
    source, once = await two["eu"].new_run(3, workflow_id="fork-held-back"), {"request_id": request_id()}
    async with writes_held_back(two):
        told = await refused(two["eu"].fork(source, 1, timeout_s=SOON_S, **once))
    assert (told.code.name, told.reason) == UNKNOWN
    made = await two["us"].fork(source, 1, **once)
    assert {run.run_id for run in (await two["eu"].list(workflow_id="fork-held-back")).runs} == {
        source,
        made.run.run_id,
    }


async def test_g12_a_range_beyond_the_log_is_refused_and_not_shortened(two):
    run_id = await two["eu"].new_run(5)
    told = await refused(two["us"].read(run_id, 0, 6))
    assert (told.code, told.reason) == (grpc.StatusCode.OUT_OF_RANGE, "SEQ_OUT_OF_RANGE")
    assert (told.field, told.metadata["got"], told.metadata["head_seq"]) == ("until_seq", "6", "4")


@pytest.mark.parametrize(
    ("ask", "field"),
    [
        (lambda wire, run_id: wire.read(run_id, 6), "from_seq"),
        (lambda wire, run_id: wire.tail(run_id, 6).read(), "from_seq"),
        (lambda wire, run_id: wire.state(run_id, 6), "until_seq"),
        (lambda wire, run_id: wire.prefix(run_id, 6), "until_seq"),
    ],
    ids=["read", "tail", "state", "prefix"],
)
async def test_g12_a_seq_beyond_the_log_is_refused_by_every_call(two, ask, field):
    told = await refused(ask(two["us"], await two["eu"].new_run(5)))
    assert (told.code.name, told.metadata["got"], told.metadata["head_seq"]) == ("OUT_OF_RANGE", "6", "4")


async def test_g12_the_end_of_the_log_is_inside(two):
    run_id = await two["eu"].new_run(5)
    assert (await two["us"].read(run_id, 5)).records == []
    assert (await two["us"].state(run_id, 5)).at_seq == 5


async def test_g12_a_state_over_its_limit_is_refused_and_not_cut(two):
    run_id, filler = await two["eu"].new_run(), "x" * 1_000_000
    for n in range(STATE_BYTES_MAX // 1_000_000 + 1):
        await two["eu"].append(run_id, event({"name": f"v{n}", "next": filler}, "variable.changed"))
    told = await refused(two["us"].state(run_id))
    assert (told.code.name, told.reason, told.metadata["limit"]) == (
        "FAILED_PRECONDITION",
        "STATE_TOO_LARGE",
        str(STATE_BYTES_MAX),
    )
    assert int(told.metadata["size"]) > STATE_BYTES_MAX


async def test_g12_a_diff_of_open_runs_says_that_only_a_prefix_was_compared(two):
    run_id = await two["eu"].new_run(5)
    child = (await two["us"].fork(run_id, 3)).run.run_id
    assert (await two["us"].diff(run_id, child)).truncated


async def test_g12_a_diff_of_ended_runs_is_complete(two):
    run_id = await two["eu"].new_run(5)
    child = (await two["us"].fork(run_id, 3)).run.run_id
    for each in (run_id, child):
        await two["eu"].append(each, event({"outputs": {}}, "run.completed"))
    diff = await two["us"].diff(run_id, child)
    assert (diff.truncated, diff.diverged_at_seq, diff.shared_events) == (False, 3, 3)


async def test_g12_a_diff_that_reports_fewer_differences_than_there_are_says_so(two):
    a, b = await two["eu"].new_run(), await two["eu"].new_run()
    for run_id, who in ((a, "a"), (b, "b")):
        await two["eu"].append(run_id, *events(5, who=who), event({"outputs": {}}, "run.completed"))
    diff = await two["us"].diff(a, b, max_event_diffs=2)
    assert (len(diff.event_diffs), diff.truncated) == (2, True)


async def test_g12_a_tail_says_when_it_has_caught_up_and_not_before(two):
    run_id = await two["eu"].new_run()
    for n in range(3):
        await two["eu"].append(run_id, event({"n": n, "filler": "x" * 600_000}))
    stream = two["us"].tail(run_id)
    steps = [await stream.read() for _ in range(3)]
    stream.cancel()
    assert [(step.page.last.seq, step.caught_up) for step in steps] == [(0, False), (1, False), (2, True)]
