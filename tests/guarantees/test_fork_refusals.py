"""What a host must refuse to fork, and what may not follow an end: a test for each rule of OpenWOP v2 replay.md, runs.md and RFC 0194."""

import asyncio

import grpc
import pytest

from api.wire import event, events, refused, request_id
from guarantees.copies import execute
from guarantees.replays import END, REPLAY, RUN, SIX, completed, replay_of, source_of, started, step
from isoline.v1 import common_pb2 as pb

BRANCH = pb.FORK_MODE_BRANCH
MODES = [REPLAY, BRANCH]
EXECUTED = {"executed": True}


def wrote(event_type, **extra):
    return event({"nodeId": "a", "memoryRef": "m", "memoryId": "i", **extra}, event_type, node_id="a")


BARE_MEMORY = wrote("memory.written")
BARE_SUMMARY = event({"iteration": 1, "summaryRef": "s"}, "context.summarized")
INLINED = [wrote("memory.written", **{"x-isoline-value": None}), event({"x-isoline-summary": ""}, "context.summarized")]

GAPS = {
    "memory.written": (BARE_MEMORY, "REPLAY_MEMORY_SNAPSHOT_UNAVAILABLE"),
    "memory.compacted": (wrote("memory.compacted"), "REPLAY_MEMORY_SNAPSHOT_UNAVAILABLE"),
    "context.summarized": (BARE_SUMMARY, "REPLAY_CONTEXT_SUMMARY_UNAVAILABLE"),
}


# -- memory and summaries as of from_seq ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", GAPS)
@pytest.mark.parametrize("mode", MODES)
async def test_fork_is_refused_where_the_log_does_not_tell_memory_or_a_summary(pair, what, mode):
    gap, reason = GAPS[what]
    source = await source_of(pair["eu"], [RUN, started("a"), gap, completed("a")], **EXECUTED)
    refusal = await refused(pair["us"].fork(source, 3, mode))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, reason)
    assert (refusal.metadata["fromSeq"], refusal.metadata["gap_seq"]) == ("3", "2")


@pytest.mark.parametrize("what", GAPS)
async def test_fork_up_to_the_event_that_lacks_its_value_is_made(pair, what):
    source = await source_of(pair["eu"], [RUN, started("a"), GAPS[what][0], completed("a")], **EXECUTED)
    assert (await pair["us"].fork(source, 2, REPLAY)).run.head.seq == 1


async def test_fork_is_made_where_the_values_are_in_the_log(pair):
    source = await source_of(pair["eu"], [RUN, started("a"), *INLINED, completed("a")], **EXECUTED)
    assert (await pair["us"].fork(source, 4, REPLAY)).run.head.seq == 3


async def test_fork_of_a_run_that_is_data_only_needs_no_memory(pair):
    source = await source_of(pair["eu"], [RUN, BARE_MEMORY, BARE_SUMMARY, END])
    assert not (await pair["us"].fork(source, 3, BRANCH)).run.executed


async def test_fork_that_executors_shall_run_needs_the_memory_of_a_source_that_is_data_only(pair):
    source = await source_of(pair["eu"], [RUN, BARE_MEMORY, END])
    refusal = await refused(pair["us"].fork(source, 2, BRANCH, executed=True))
    assert refusal.reason == "REPLAY_MEMORY_SNAPSHOT_UNAVAILABLE"


async def test_fork_of_a_fork_remembers_what_its_source_did_not_tell(pair):
    source = await source_of(pair["eu"], [RUN, BARE_MEMORY, *step("a")])
    fork = (await pair["us"].fork(source, 3, BRANCH)).run.run_id
    await pair["us"].append(fork, *step("b"))
    early = (await pair["us"].fork(source, 1, BRANCH)).run.run_id
    await pair["us"].append(early, *step("b"))
    refusal = await refused(pair["eu"].fork(fork, 4, BRANCH, executed=True))
    assert (refusal.reason, refusal.metadata["gap_seq"]) == ("REPLAY_MEMORY_SNAPSHOT_UNAVAILABLE", "1")
    assert (await pair["eu"].fork(early, 2, BRANCH, executed=True)).run.executed


async def test_fork_remembers_the_first_gap_in_a_batch_with_other_runs(pair):
    runs = [(await pair["eu"].create(**EXECUTED)).run.run_id for _ in range(8)]
    await asyncio.gather(*[pair["eu"].append(run_id, RUN, BARE_MEMORY, BARE_MEMORY, BARE_SUMMARY) for run_id in runs])
    await asyncio.gather(*[pair["us"].append(run_id, *step("a")) for run_id in runs])
    for run_id in runs:
        assert (await refused(pair["us"].fork(run_id, 5, REPLAY))).metadata["gap_seq"] == "1"


async def test_fork_with_a_gap_of_an_append_of_one_event(pair, service_url):
    source = await source_of(pair["eu"], [RUN], **EXECUTED)
    await pair["us"].append(source, BARE_SUMMARY)
    await pair["eu"].append(source, started("a"))
    kept = await execute(service_url, "SELECT memory_gap_seq, summary_gap_seq FROM runs WHERE run_id = %s", [source])
    assert list(kept) == [(None, 1)]


# -- where a fork may begin ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("from_seq", [14, 15, 999_999])
async def test_fork_point_invalid_for_a_sequence_absent_from_the_source(two, mode, from_seq):
    refusal = await refused(two["us"].fork(await source_of(two["eu"]), from_seq, mode))
    assert (refusal.reason, refusal.metadata["last_seq"]) == ("FORK_POINT_INVALID", "13")


@pytest.mark.parametrize("mode", MODES)
async def test_fork_point_out_of_range_is_a_validation_error(two, mode):
    assert (await refused(two["us"].fork(await source_of(two["eu"]), -1, mode))).reason == "VALIDATION_ERROR"


@pytest.mark.parametrize("mode", MODES)
async def test_fork_point_invalid_behind_the_terminal_event_where_a_compensation_tail_follows(two, mode):
    source = await source_of(two["eu"], [RUN, event({}, "run.failed"), event({}, "compensation.started")])
    assert (await refused(two["us"].fork(source, 2, mode))).reason == "FORK_POINT_INVALID"
    assert (await two["us"].fork(source, 1, mode)).run.head.seq == 0


async def test_fork_of_a_branch_needs_its_from_seq_and_a_replay_begins_at_0(two):
    source = await source_of(two["eu"])
    assert (await refused(two["us"].fork(source, None, BRANCH))).field == "from_seq"
    assert (await two["us"].fork(source, None, REPLAY)).run.fork.from_seq == 0


async def test_fork_replay_with_an_overlay_is_refused_and_with_an_empty_one_is_not(two):
    source = await source_of(two["eu"])
    refusal = await refused(two["us"].fork(source, 1, REPLAY, run_options_overlay=b'{"a": 1}'))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "OVERLAY_NOT_ALLOWED")
    for empty in (b"", b"{}", b" { } "):
        assert (await two["us"].fork(source, 1, REPLAY, run_options_overlay=empty)).run.fork.from_seq == 1


async def test_fork_inherits_what_is_before_from_seq_and_not_what_is_at_it(two):
    source = await source_of(two["eu"])
    assert (await two["us"].read(await replay_of(two["us"], source, 5))).records == (
        await two["eu"].read(source, 0, 5)
    ).records


# -- what may not follow an end --------------------------------------------------------------------------------------------------------

FORBIDDEN = [
    "run.completed",
    "run.failed",
    "run.cancelled",
    "run.started",
    "run.resumed",
    "run.resume-started",
    "run.paused",
    "run.restored-from-snapshot",
    "node.completed",
    "interrupt.requested",
]


@pytest.mark.parametrize("event_type", FORBIDDEN)
async def test_terminal_event_is_followed_by_nothing_that_rfc_0194_forbids(two, event_type):
    source = await source_of(two["eu"])
    assert (await refused(two["us"].append(source, event({}, event_type)))).reason == "RUN_TERMINAL"
    assert (await two["eu"].head(source)).seq == 13


async def test_terminal_event_and_a_forbidden_one_in_one_append_are_refused_together(two):
    source = await source_of(two["eu"], SIX[:-1])
    assert (await refused(two["us"].append(source, END, started("a")))).reason == "RUN_TERMINAL"
    assert (await two["eu"].head(source)).seq == 12


@pytest.mark.parametrize("kind", ["run", "replay"])
async def test_terminal_event_of_two_executors_at_once_is_appended_once(pair, kind):
    """Duplicate delivery: two executors that hold the same run end it at the same moment, through two servers, and then go on."""
    for _ in range(5):
        run_id = await source_of(pair["eu"], SIX[:-1])
        if kind == "replay":
            whole = await source_of(pair["eu"])
            run_id = await replay_of(pair["us"], whole)
            await pair["us"].append(run_id, *SIX[:-1])
        sent = [pair[region].append(run_id, new) for new in (END, event({}, "run.failed")) for region in ("eu", "us")]
        answers = await asyncio.gather(*sent, return_exceptions=True)
        assert sum(not isinstance(answer, BaseException) for answer in answers) == 1
        late = [refused(pair[region].append(run_id, new)) for new in (started("a"), END) for region in ("eu", "us")]
        assert {refusal.reason for refusal in await asyncio.gather(*late)} == {"RUN_TERMINAL"}
        types = [each.content.type for each in (await pair["eu"].read(run_id)).events]
        assert sum(name in ("run.completed", "run.failed") for name in types) == 1
        assert set(types[14:]) <= {"replay.diverged"}


async def test_terminal_event_delivered_twice_under_one_request_id_is_answered_twice(pair):
    run_id, name = await source_of(pair["eu"], SIX[:-1]), request_id()
    sent = [pair[region].append(run_id, END, request_id=name) for region in ("eu", "us") * 3]
    answers = await asyncio.gather(*sent)
    assert {answer.last.seq for answer in answers} == {13}
    assert sum(not answer.repeated for answer in answers) == 1


async def test_terminal_event_may_be_followed_by_compensation_and_vendor_types(two):
    source = await source_of(two["eu"])
    await two["us"].append(source, event({}, "compensation.started"), event({}, "run.dead-lettered"), *events(1))
    assert (await two["eu"].head(source)).seq == 16
