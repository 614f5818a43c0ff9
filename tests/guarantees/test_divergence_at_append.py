"""A replay is compared with its source by the server, at append: nobody who appends can skip it, and every server comes to the same."""

import asyncio
import json
from contextlib import AsyncExitStack

import grpc
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from api.wire import event, refused, request_id, wire_to
from guarantees.replays import (
    AT_REFUSAL,
    DIVERGED,
    END,
    RUN,
    SIX,
    completed,
    divergences,
    refused_by_model,
    replay_of,
    source_of,
    started,
    step,
    steps,
    types,
)
from isoline.v1 import log_service_pb2 as log_pb
from isoline_server.domain.ids import event_id_text
from support.servers import settings_for, start_region

WRONG = [RUN, *steps("abc"), *step("d", 2), *steps("ef"), END]


async def one_by_one(wire, run_id, new, **fields):
    return [await wire.append(run_id, each, **fields) for each in new]


# -- what is written -------------------------------------------------------------------------------------------------------------------


async def test_divergence_none_when_the_code_is_the_same(pair):
    source = await source_of(pair["eu"])
    fork = await replay_of(pair["us"], source)
    await pair["us"].append(fork, *SIX[:5])
    await one_by_one(pair["us"], fork, SIX[5:])
    assert await types(pair["eu"], fork) == [each.content.type for each in SIX]


async def test_divergence_stands_directly_behind_the_event_and_names_both(pair):
    source = await source_of(pair["eu"])
    fork = await replay_of(pair["us"], source)
    answer = await pair["us"].append(fork, *WRONG)
    original = (await pair["eu"].read(source)).events[8]
    log = (await pair["eu"].read(fork)).events
    assert (answer.first_seq, answer.last.seq) == (0, 14)
    ((seq, payload),) = await divergences(pair["eu"], fork)
    assert seq == 9
    assert payload == {
        "sourceRunId": source,
        "atSequence": 8,
        "originalEventId": event_id_text(original.stamp.event_id),
        "divergenceKind": "output",
        "divergencePoint": "node.completed",
        "x-replay-event-id": event_id_text(log[8].stamp.event_id),
        "x-isoline-node-id": "d",
    }
    assert log[9].stamp.causation_id == event_id_text(log[8].stamp.event_id)
    assert [each.content for each in log[10:]] == [each.content for each in WRONG[9:]]


async def test_divergence_is_found_behind_an_inherited_prefix(pair):
    source = await source_of(pair["eu"])
    fork = await replay_of(pair["us"], source, 5)
    await one_by_one(pair["us"], fork, WRONG[5:])
    ((seq, payload),) = await divergences(pair["eu"], fork)
    assert (seq, payload["atSequence"]) == (9, 8)


CHANGES = {
    "another step in the middle": ([RUN, *steps("abcxdef"), END], "extra", 7, "x"),
    "another argument": ([RUN, *steps("abc"), started("d", "y"), completed("d"), *steps("ef"), END], "output", 7, "d"),
    "one step fewer": ([RUN, *steps("abcef"), END], "missing", 7, "d"),
    "one step more": ([RUN, *steps("abcdefg"), END], "extra", 13, "g"),
    "two swapped": ([RUN, *steps("abdcef"), END], "missing", 5, "c"),
    "another return value": (WRONG, "output", 8, "d"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("batch", [1, 14])
async def test_divergence_of_each_change_of_code_is_reported_once_at_its_place(two, change, batch):
    new, kind, at_seq, node_id = CHANGES[change]
    fork = await replay_of(two["us"], await source_of(two["eu"]))
    for first in range(0, len(new), batch):
        await two["us"].append(fork, *new[first : first + batch])
    ((_, payload),) = await divergences(two["eu"], fork)
    assert (payload["divergenceKind"], payload["atSequence"], payload["x-isoline-node-id"]) == (kind, at_seq, node_id)


async def test_divergence_of_a_stream_of_appends_under_way_together(two):
    source = await source_of(two["eu"], [RUN, *steps("abcdef" * 20), END])
    fork = await replay_of(two["us"], source)
    wrong = [RUN, *steps("abcdef" * 10), *step("a", 2), *steps("bcdef"), *steps("abcdef" * 9), END]

    async def requests():
        for each in wrong:
            append = log_pb.AppendRequest(request_id=request_id(), run_id=fork, events=[each])
            yield log_pb.AppendStreamRequest(append=append)

    answers = [answer async for answer in two["us"].append_stream(requests())]
    assert [answer.WhichOneof("outcome") for answer in answers] == ["appended"] * len(wrong)
    ((seq, payload),) = await divergences(two["eu"], fork)
    assert (seq, payload["atSequence"]) == (123, 122)


async def test_divergence_is_no_matter_of_a_branch_or_of_a_run_that_is_no_fork(two):
    source = await source_of(two["eu"])
    branch = (await two["us"].fork(source, 5)).run.run_id
    await two["us"].append(branch, *steps("xyz"))
    assert DIVERGED not in await types(two["eu"], branch)
    plain = await two["us"].new_run()
    await two["us"].append(plain, event({}, DIVERGED))


async def test_divergence_of_a_replay_of_a_replay_that_diverged(two):
    source = await source_of(two["eu"])
    first = await replay_of(two["us"], source)
    await two["us"].append(first, *WRONG)
    same, other = await replay_of(two["us"], first), await replay_of(two["us"], first)
    await two["us"].append(same, *WRONG)
    await two["us"].append(other, *SIX)
    assert await divergences(two["eu"], same) == []
    ((_, payload),) = await divergences(two["eu"], other)
    assert (payload["sourceRunId"], payload["atSequence"]) == (first, 8)


async def test_divergence_is_not_said_of_what_an_open_source_has_not_written_yet(two):
    source = await source_of(two["eu"], SIX[:5])
    fork = await replay_of(two["us"], source)
    await one_by_one(two["us"], fork, SIX[:7])
    await two["eu"].append(source, *SIX[5:])
    await one_by_one(two["us"], fork, [*step("d", 2), *steps("ef"), END])
    ((_, payload),) = await divergences(two["eu"], fork)
    assert payload["atSequence"] == 8


# -- nobody skips it -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event_type", [DIVERGED, AT_REFUSAL])
async def test_divergence_is_said_by_nobody_but_the_server(pair, event_type):
    fork = await replay_of(pair["us"], await source_of(pair["eu"]))
    refusal = await refused(pair["us"].append(fork, RUN, event({}, event_type)))
    assert (refusal.reason, refusal.field) == ("VALIDATION_ERROR", "events[1].type")
    assert (await pair["eu"].head(fork)).seq == -1


async def test_divergence_and_engine_counters_do_not_go_together(pair):
    fork = await replay_of(pair["us"], await source_of(pair["eu"]))
    refusal = await refused(pair["us"].append(fork, RUN, engine="e", engine_seq=1))
    assert (refusal.reason, refusal.field) == ("VALIDATION_ERROR", "engine")


async def test_divergence_is_found_through_every_server_and_every_way_of_appending(pair):
    source = await source_of(pair["eu"])
    for wire in (pair["eu"], pair["us"]):
        fork = await replay_of(wire, source)
        await pair["eu"].append(fork, *WRONG[:9], expected_seq=0)
        assert len(await divergences(wire, fork)) == 1


# -- receipts and races ----------------------------------------------------------------------------------------------------------------


async def test_divergence_and_its_event_are_answered_alike_to_a_repeat(pair):
    fork = await replay_of(pair["us"], await source_of(pair["eu"]))
    name = request_id()
    first = await pair["us"].append(fork, *WRONG[:9], request_id=name)
    again = [await pair[region].append(fork, *WRONG[:9], request_id=name) for region in ("us", "eu")]
    assert (first.first_seq, first.last.seq, first.repeated) == (0, 9, False)
    assert [(each.first_seq, each.last, each.repeated) for each in again] == [(0, first.last, True)] * 2
    assert len(await divergences(pair["eu"], fork)) == 1
    await pair["us"].append(fork, *WRONG[9:])
    assert len(await divergences(pair["eu"], fork)) == 1


async def test_divergence_a_repeat_with_another_body_is_refused(pair):
    fork = await replay_of(pair["us"], await source_of(pair["eu"]))
    name = request_id()
    await pair["us"].append(fork, *WRONG[:9], request_id=name)
    assert (await refused(pair["us"].append(fork, *SIX[:9], request_id=name))).reason == "IDEMPOTENCY_KEY_MISMATCH"


async def test_divergence_expected_seq_counts_the_events_that_the_server_added(pair):
    fork = await replay_of(pair["us"], await source_of(pair["eu"]))
    await pair["us"].append(fork, *WRONG[:9], expected_seq=0)
    refusal = await refused(pair["us"].append(fork, WRONG[9], expected_seq=9))
    assert (refusal.reason, refusal.metadata["actual_seq"]) == ("SEQ_CONFLICT", "10")
    assert (await pair["eu"].append(fork, WRONG[9], expected_seq=10)).first_seq == 10


async def test_divergence_two_servers_that_append_in_turn_come_to_one_report(pair):
    fork = await replay_of(pair["us"], await source_of(pair["eu"]))
    for turn, each in enumerate(WRONG):
        await pair["eu" if turn % 2 else "us"].append(fork, each)
    assert [seq for seq, _ in await divergences(pair["eu"], fork)] == [9]


async def test_divergence_two_servers_that_race_leave_every_report_behind_its_event(two):
    fork = await replay_of(two["us"], await source_of(two["eu"]))
    sent = [two[region].append(fork, each) for each in step("x") * 10 for region in ("eu", "us")]
    await asyncio.gather(*sent)
    log = (await two["eu"].read(fork)).events
    reports = await divergences(two["eu"], fork)
    assert len(log) == 40 + len(reports)
    assert reports
    for seq, payload in reports:
        assert event_id_text(log[seq - 1].stamp.event_id) == payload["x-replay-event-id"]


async def test_divergence_is_found_by_a_server_that_was_started_in_the_middle(two, databases):
    url = databases.cluster.primary.url(database=databases.create())
    settings = settings_for(url, {"eu": url})
    found = []
    async with AsyncExitStack() as stack:
        for cut in (0, 4, 8, 9, 12):
            first = await start_region(settings, "eu")
            async with wire_to(first.address) as wire:
                fork = await replay_of(wire, await source_of(wire))
                await one_by_one(wire, fork, WRONG[:cut])
            await first.stop()
            second = await start_region(settings, "eu")
            stack.push_async_callback(second.stop)
            async with wire_to(second.address) as wire:
                await one_by_one(wire, fork, WRONG[cut:])
                found += [(seq, payload["atSequence"]) for seq, payload in await divergences(wire, fork)]
    assert found == [(9, 8)] * 5


# -- refusals of a model -----------------------------------------------------------------------------------------------------------------

SOURCE_REFUSED = [RUN, *steps("ab"), started("c"), refused_by_model("c"), completed("c"), END]
REPLAY_REFUSED = [RUN, *steps("ab"), started("c"), completed("c"), END]


@pytest.mark.parametrize(
    ("source_events", "replayed", "kinds"),
    [
        (SOURCE_REFUSED, REPLAY_REFUSED, ("refusal", "valid")),
        (REPLAY_REFUSED, SOURCE_REFUSED, ("valid", "refusal")),
    ],
)
async def test_divergence_at_refusal_fails_the_replay_and_is_the_answer_to_repeats(
    pair, source_events, replayed, kinds
):
    source = await source_of(pair["eu"], source_events)
    fork = await replay_of(pair["us"], source)
    name = request_id()
    first = await refused(pair["us"].append(fork, *replayed, request_id=name))
    again = [await refused(pair[region].append(fork, *replayed, request_id=name)) for region in ("us", "eu")]
    assert (first.code, first.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "REPLAY_DIVERGED_AT_REFUSAL")
    assert (first.metadata["node_id"], first.metadata["seq"]) == ("c", "6")
    assert [(each.reason, each.metadata) for each in again] == [(first.reason, first.metadata)] * 2
    log = (await pair["eu"].read(fork)).events
    assert [each.content.type for each in log[6:]] == [AT_REFUSAL, "run.failed"]
    said, end = (json.loads(each.content.payload) for each in log[6:])
    assert (said["originalEnvelopeKind"], said["replayEnvelopeKind"]) == kinds
    assert (said["sourceRunId"], said["atSequence"], said["nodeId"]) == (source, 6, "c")
    assert end["error"]["code"] == "replay_diverged_at_refusal"
    assert (await pair["eu"].get(fork)).run.terminal_seq == 7
    assert (await refused(pair["us"].append(fork, started("z")))).reason == "RUN_TERMINAL"


# -- telemetry -------------------------------------------------------------------------------------------------------------------------


async def test_divergence_marks_the_span_of_the_append(two, spans):
    fork = await replay_of(two["us"], await source_of(two["eu"]))
    await two["us"].append(fork, *SIX[:5])
    await two["us"].append(fork, *step("c", 2))
    marks = [
        dict(span.attributes or {}).get("openwop.replay.diverged")
        for span in spans.get_finished_spans()
        if span.name.endswith("LogService/Append")
    ]
    assert marks[-2:] == [None, True]


@pytest.fixture
def spans(monkeypatch):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("isoline_server.telemetry.tracer", provider.get_tracer("tests"))
    return exporter
