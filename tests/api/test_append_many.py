"""``AppendMany``: each append stands for itself."""

import asyncio

from structlog.testing import capture_logs

from api.wire import event, refused, request_id
from isoline.v1 import log_service_pb2 as log_pb
from isoline_server.domain import limits
from isoline_server.operations.lane import Lane


def append(run_id, n, **fields):
    fields = {"request_id": request_id(), "run_id": run_id, "events": [event({"n": n})], **fields}
    return log_pb.AppendRequest(**fields)


async def many(wire, *appends, timeout_s=20.0):
    return (await wire.call("AppendMany", log_pb.AppendManyRequest(appends=appends), timeout_s)).answers


async def test_those_of_one_run_are_taken_in_their_order(wire):
    run_id, other = await wire.new_run(), await wire.new_run()
    appends = [append(run_id if n % 2 else other, n) for n in range(40)]
    answers = await many(wire, *appends)
    assert [each.request_id for each in answers] == [each.request_id for each in appends]
    assert [each.appended.first_seq for each in answers] == [n // 2 for n in range(40)]
    assert [each["n"] for each in (await wire.read(run_id)).payloads] == list(range(1, 40, 2))
    assert [each["n"] for each in (await wire.read(other)).payloads] == list(range(0, 40, 2))


async def test_one_that_is_refused_keeps_no_other_from_landing(wire):
    run_id = await wire.new_run(1)
    answers = await many(
        wire,
        append(run_id, 1),
        append(run_id, 2, expected_seq=77),
        append(run_id.replace("/eu-", "/nowhere-"), 3),
        append("elsewhere/" + run_id.partition("/")[2], 4),
        append(run_id, 5, events=[]),
        append(run_id, 6),
    )
    told = [each.error.reason if each.HasField("error") else each.appended.first_seq for each in answers]
    assert told == [1, "SEQ_CONFLICT", "NOT_FOUND", "ID_TENANT_MISMATCH", "VALIDATION_ERROR", 2]
    assert dict(answers[1].error.metadata)["expected_seq"] == "77"
    assert [each.get("n") for each in (await wire.read(run_id)).payloads[1:]] == [1, 6]


async def test_a_repeat_gets_the_first_answer_also_within_one_call(wire):
    run_id = await wire.new_run()
    once = append(run_id, 1)
    first, again = await many(wire, once, once)
    assert (first.appended.first_seq, again.appended.first_seq) == (0, 0)
    assert (await wire.append(run_id, *once.events, request_id=once.request_id)).repeated
    assert (await wire.head(run_id)).seq == 0


async def test_none_and_too_many_are_refused_and_nothing_is_appended(wire):
    run_id = await wire.new_run()
    told = await refused(many(wire))
    assert (told.code.name, told.field) == ("INVALID_ARGUMENT", "appends")
    told = await refused(many(wire, *[append(run_id, n) for n in range(limits.APPEND_MANY_MAX + 1)]))
    assert (told.reason, told.field, told.metadata["limit"]) == ("PAYLOAD_TOO_LARGE", "appends", "64")
    assert (await wire.head(run_id)).seq == -1


async def test_the_calls_deadline_is_that_of_every_append(wire, monkeypatch):
    run_id = await wire.new_run()

    async def never(*args, **kwargs):
        await asyncio.Event().wait()

    monkeypatch.setattr(Lane, "append", never)
    answers = await many(wire, append(run_id, 1), append(run_id, 2), timeout_s=0.5)
    assert [each.error.reason for each in answers] == ["OUTCOME_UNKNOWN"] * 2


async def test_an_internal_error_of_one_is_in_the_log_and_not_in_its_answer(wire, monkeypatch):
    run_id = await wire.new_run()

    async def broken(*args, **kwargs):
        raise RuntimeError("secret")

    monkeypatch.setattr(Lane, "append", broken)
    with capture_logs() as logs:
        (answer,) = await many(wire, append(run_id, 1))
    assert (answer.error.reason, "secret" in answer.error.message) == ("INTERNAL_ERROR", False)
    assert [(line["event"], str(line["exc_info"])) for line in logs] == [("internal error", "secret")]
