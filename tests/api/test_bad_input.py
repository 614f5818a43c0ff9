"""Bad input gets a clear status that names the field and the limit, and nothing changes."""

import json

import pytest

from api.wire import UNKNOWN_RUN, event, events, refused, request_id
from isoline.v1 import common_pb2 as pb
from isoline.v1 import log_service_pb2 as log_pb
from isoline_server.domain import limits


@pytest.fixture(scope="module")
async def run_id(wire):
    """A run of three events that no test of this module may change."""
    run_id = await wire.new_run(3)
    await wire.append(run_id, *events(2), engine="e", engine_seq=1)
    return run_id


async def refused_append(wire, run_id, *new, **fields):
    """The refusal, after checking that it is the same on a stream and that nothing changed."""
    before = await wire.head(run_id)
    request = log_pb.AppendRequest(**{"request_id": request_id(), "run_id": run_id, "events": new, **fields})
    told = await refused(wire.call("Append", request))
    streamed = await on_a_stream(wire, request)
    assert (streamed.code, streamed.reason, dict(streamed.metadata)) == (told.code.value[0], told.reason, told.metadata)
    assert await wire.head(run_id) == before
    return told


async def on_a_stream(wire, request):
    async def requests():
        yield log_pb.AppendStreamRequest(append=request)

    (answer,) = [answer async for answer in wire.append_stream(requests())]
    return answer.error


def invalid(told, field):
    return (told.code.name, told.reason, told.field) == ("INVALID_ARGUMENT", "VALIDATION_ERROR", field)


def too_large(told, field, limit, size=None):
    named = (told.code.name, told.reason, told.field, told.metadata["limit"])
    return named == ("INVALID_ARGUMENT", "PAYLOAD_TOO_LARGE", field, str(limit)) and size in (
        None,
        int(told.metadata["size"]),
    )


# -- ids -----------------------------------------------------------------------------------------------------------------------------

MALFORMED = {
    "empty": "",
    "no tenant": "eu-aaaaaaaaaaaaaaaaaaaaaaaaaa",
    "empty tenant": "/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa",
    "no home": "local/aaaaaaaaaaaaaaaaaaaaaaaaaa",
    "short": "local/eu-aaaa",
    "long": "local/eu-aaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "upper case": "local/eu-AAAAAAAAAAAAAAAAAAAAAAAAAA",
    "two slashes": "local/x/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa",
    "projected": "local~2Feu-aaaaaaaaaaaaaaaaaaaaaaaaaa",
    "a quote": "local/eu'-aaaaaaaaaaaaaaaaaaaaaaaaaa",
    "a line end": "local/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa\n",
    "a nul": "local/eu-aaaaaaaaaaaaaaaaaaaaaaaaa\0",
    "huge": "x" * 100_000,
    "not ascii": "lócal/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa",
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_run_id_is_refused_by_every_call(wire, run_id, text):
    calls = {
        "get": (wire.get(text), "run_id"),
        "read": (wire.read(text), "run_id"),
        "tail": (wire.tail(text).read(), "run_id"),
        "state": (wire.state(text), "run_id"),
        "prefix": (wire.prefix(text), "run_id"),
        "append": (wire.append(text, event()), "run_id"),
        "fork": (wire.fork(text, 1), "source_run_id"),
        "diff a": (wire.diff(text, run_id), "a_run_id"),
        "diff b": (wire.diff(run_id, text), "b_run_id"),
    }
    for name, (call, field) in calls.items():
        assert invalid(await refused(call), field), name


@pytest.mark.parametrize(
    "text",
    [UNKNOWN_RUN, UNKNOWN_RUN.replace("/eu-", "/us-"), UNKNOWN_RUN.replace("/eu-", "/mars-")],
    ids=["own home", "other home", "no home of ours"],
)
async def test_an_unknown_run_is_not_found_by_any_call(wire, run_id, text):
    calls = [
        wire.get(text),
        wire.get(text, pb.FRESHNESS_LOCAL),
        wire.read(text),
        wire.read(text, 0, 1),
        wire.tail(text).read(),
        wire.state(text),
        wire.prefix(text),
        wire.append(text, event()),
        wire.append(text, event(), expected_seq=0),
        wire.append(text, event(), engine="e", engine_seq=1),
        wire.fork(text, 1),
        wire.diff(text, run_id),
        wire.diff(run_id, text),
    ]
    for call in calls:
        told = await refused(call)
        assert (told.code.name, told.reason, told.metadata["run_id"]) == ("NOT_FOUND", "NOT_FOUND", text)


async def test_a_run_of_another_tenant_is_refused(wire):
    told = await refused(wire.get(UNKNOWN_RUN.replace("local/", "acme/")))
    assert (told.code.name, told.reason, told.field) == ("PERMISSION_DENIED", "ID_TENANT_MISMATCH", "run_id")


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "short",
        "x" * 15,
        "x" * 129,
        "has a space in it",
        "has/a/slash/in/it",
        "ünïcödé-request-id",
        "ends-with-newline\n",
    ],
    ids=repr,
)
async def test_a_bad_request_id_is_refused(wire, run_id, bad):
    for call in (
        wire.create(request_id=bad),
        wire.append(run_id, event(), request_id=bad),
        wire.fork(run_id, 1, request_id=bad),
    ):
        assert invalid(await refused(call), "request_id")


@pytest.mark.parametrize("good", ["x" * 16, "x" * 128, "AZaz09._~-AZaz09"])
async def test_request_ids_at_their_limits_are_taken(wire, good):
    assert (await wire.create(request_id=good)).run.run_id


@pytest.mark.parametrize("bad", ["", "has a space", "x" * 129, "a/b", "é"], ids=repr)
async def test_a_bad_workflow_id_is_refused(wire, bad):
    assert invalid(await refused(wire.create(workflow_id=bad)), "workflow_id")


async def test_tags_have_a_number_and_a_length(wire):
    assert too_large(
        await refused(wire.create(tags=["t"] * (limits.TAGS_MAX + 1))), "tags", limits.TAGS_MAX, limits.TAGS_MAX + 1
    )
    told = await refused(wire.create(tags=["t", "x" * (limits.TAG_CHARS_MAX + 1)]))
    assert too_large(told, "tags[1]", limits.TAG_CHARS_MAX, limits.TAG_CHARS_MAX + 1)


async def test_tags_are_kept_as_they_are(wire):
    tags = ["ä", 'with "quotes"', "nul\0inside", "x" * limits.TAG_CHARS_MAX, ""]
    made = (await wire.create(tags=tags)).run
    assert list((await wire.get(made.run_id)).run.tags) == tags


@pytest.mark.parametrize("bad", ["mars", "EU", "e'u", "x" * 100, " "], ids=repr)
async def test_a_bad_home_region_is_refused(wire, bad):
    assert invalid(await refused(wire.create(home_region=bad)), "home_region")


# -- events --------------------------------------------------------------------------------------------------------------------------


def nested(depth):
    return (b'{"a":' * (depth - 1)) + b"{}" + b"}" * (depth - 1)


BAD_PAYLOADS = {
    "empty": b"",
    "not UTF-8": b'{"a":"\xff"}',
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"a":1}',
    "not JSON": b"{a:1}",
    "cut off": b'{"a":',
    "two values": b"{} {}",
    "an array": b"[1]",
    "a text": b'"text"',
    "null": b"null",
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":-Infinity}',
    "a number too large": b'{"a":1e999}',
    "an integer too large": b'{"a":9007199254740992}',
    "a digit bomb": b'{"a":' + b"9" * 100_000 + b"}",
    "a key twice": b'{"a":1,"a":1}',
    "a key twice inside": b'{"b":[{"a":1,"a":2}]}',
    "a key twice by escapes": b'{"a":1,"\\u0061":2}',
    "half a surrogate pair": b'{"a":"\\ud800"}',
    "a raw control character": b'{"a":"\x01"}',
    "too deep": nested(limits.PAYLOAD_DEPTH_MAX + 1),
    "far too deep": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("payload", BAD_PAYLOADS.values(), ids=BAD_PAYLOADS)
async def test_a_bad_payload_is_refused_and_its_event_named(wire, run_id, payload):
    told = await refused_append(wire, run_id, event(), event(payload))
    assert invalid(told, "events[1].payload")


async def test_a_payload_over_its_limit_is_refused_with_both_numbers(wire, run_id):
    payload = json.dumps({"a": "x" * limits.PAYLOAD_BYTES_MAX}).encode()
    told = await refused_append(wire, run_id, event(payload))
    assert too_large(told, "events[0].payload", limits.PAYLOAD_BYTES_MAX, len(payload))


async def test_payloads_at_their_limits_are_taken(wire):
    largest = b'{"a":"' + b"x" * (limits.PAYLOAD_BYTES_MAX - 8) + b'"}'
    assert len(largest) == limits.PAYLOAD_BYTES_MAX
    deepest = nested(limits.PAYLOAD_DEPTH_MAX)
    run_id = await wire.new_run()
    assert (await wire.append(run_id, event(largest), event(deepest))).last.seq == 1
    assert [each.content.payload for each in (await wire.read(run_id)).events] == [largest, deepest]


async def test_an_append_without_events_is_refused(wire, run_id):
    assert invalid(await refused_append(wire, run_id), "events")


async def test_an_append_of_too_many_events_is_refused_with_both_numbers(wire, run_id):
    told = await refused_append(wire, run_id, *events(limits.APPEND_EVENTS_MAX + 1))
    assert too_large(told, "events", limits.APPEND_EVENTS_MAX, limits.APPEND_EVENTS_MAX + 1)


async def test_an_append_of_as_many_events_as_allowed_is_taken(wire):
    run_id = await wire.new_run()
    assert (await wire.append(run_id, *events(limits.APPEND_EVENTS_MAX))).last.seq == limits.APPEND_EVENTS_MAX - 1


def filler(size):
    """An event whose payload has this many bytes."""
    return event(b'{"a":"' + b"x" * (size - 8) + b'"}')


async def test_an_append_of_too_many_bytes_is_refused_with_both_numbers(wire, run_id):
    told = await refused_append(wire, run_id, *(filler(limits.PAYLOAD_BYTES_MAX) for _ in range(4)), filler(100))
    assert too_large(told, "events", limits.APPEND_BYTES_MAX, limits.APPEND_BYTES_MAX + 100)


async def test_an_append_of_as_many_bytes_as_allowed_is_taken(wire):
    run_id = await wire.new_run()
    assert (await wire.append(run_id, *(filler(limits.PAYLOAD_BYTES_MAX) for _ in range(4)))).last.seq == 3


async def test_a_message_far_over_the_limit_is_refused_by_the_transport(wire, run_id):
    told = await refused(wire.append(run_id, *(filler(limits.PAYLOAD_BYTES_MAX) for _ in range(8))))
    assert told.code.name == "RESOURCE_EXHAUSTED"
    assert (await wire.head(run_id)).seq == 4


BAD_TYPES = [
    "",
    "noted",
    "a.b.c.d",
    "Example.noted",
    "example.Noted",
    "openwop.noted",
    "example..noted",
    ".noted",
    "example.",
    "example.no ted",
    "-a.b",
    "a.b-",
    "é.b",
    "example.noted\n",
]


@pytest.mark.parametrize("bad", BAD_TYPES, ids=repr)
async def test_a_bad_event_type_is_refused(wire, run_id, bad):
    assert invalid(await refused_append(wire, run_id, event(), event(event_type=bad)), "events[1].type")


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"node_id": "has a space"}, "node_id"),
        ({"node_id": "x" * 129}, "node_id"),
        ({"schema_version": -1}, "schema_version"),
        ({"engine_version": -1}, "engine_version"),
    ],
    ids=str,
)
async def test_a_bad_part_of_an_event_is_named(wire, run_id, content, field):
    assert invalid(await refused_append(wire, run_id, event({}, **content)), f"events[0].{field}")


@pytest.mark.parametrize("bad", ["short", "x" * 129, "has a space in it!"], ids=repr)
async def test_a_bad_causation_id_is_refused(wire, run_id, bad):
    new = event()
    new.causation_id = bad
    assert invalid(await refused_append(wire, run_id, new), "events[0].causation_id")


@pytest.mark.parametrize("pointer", ["/b", "/a/2", "/a/-", "/a/01", "/a/0/x", "a", "", "/a~", "/a~2", "/"], ids=repr)
async def test_a_mask_that_points_at_nothing_is_refused(wire, run_id, pointer):
    told = await refused_append(wire, run_id, event({"a": [1, 2]}, masked=["/a/1", pointer]))
    assert invalid(told, "events[0].masked[1]")


async def test_masks_have_a_number_and_a_length(wire, run_id):
    told = await refused_append(wire, run_id, event({"a": 1}, masked=["/a"] * (limits.MASKED_POINTERS_MAX + 1)))
    assert too_large(told, "events[0].masked", limits.MASKED_POINTERS_MAX, limits.MASKED_POINTERS_MAX + 1)
    long = "x" * limits.MASKED_POINTER_CHARS_MAX
    told = await refused_append(wire, run_id, event({long: 1}, masked=[f"/{long}"]))
    assert too_large(told, "events[0].masked[0]", limits.MASKED_POINTER_CHARS_MAX, limits.MASKED_POINTER_CHARS_MAX + 1)


async def test_a_refusal_that_quotes_the_longest_input_still_arrives(wire, run_id):
    told = await refused_append(
        wire, run_id, event({"a": 1}, masked=["/" + "😀" * (limits.MASKED_POINTER_CHARS_MAX - 1)])
    )
    assert invalid(told, "events[0].masked[0]")


# -- seqs and counters ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("expected_seq", [0, 4, 6, 2**53 - 1])
async def test_a_wrong_expected_seq_is_refused_with_both_numbers(wire, run_id, expected_seq):
    told = await refused_append(wire, run_id, event(), expected_seq=expected_seq)
    assert (told.code.name, told.reason) == ("ABORTED", "SEQ_CONFLICT")
    assert (told.metadata["expected_seq"], told.metadata["actual_seq"]) == (str(expected_seq), "5")


@pytest.mark.parametrize("bad", [-1, -(2**63), 2**53, 2**63 - 1])
async def test_a_number_that_is_no_seq_is_refused_by_every_call(wire, run_id, bad):
    calls = {
        "expected_seq": wire.append(run_id, event(), expected_seq=bad),
        "from_seq": wire.read(run_id, bad),
        "until_seq": wire.read(run_id, 0, bad),
        "at_seq": wire.state(run_id, bad),
    }
    for field, call in calls.items():
        assert invalid(await refused(call), field), field
    assert invalid(await refused(wire.tail(run_id, bad).read()), "from_seq")
    assert invalid(await refused(wire.prefix(run_id, bad)), "until_seq")


async def test_a_range_that_ends_before_it_begins_is_refused(wire, run_id):
    assert invalid(await refused(wire.read(run_id, 3, 2)), "until_seq")


@pytest.mark.parametrize("seq", [-2, 2**53])
async def test_a_known_position_needs_a_seq(wire, run_id, seq):
    assert invalid(await refused(wire.read(run_id, known=pb.Position(seq=seq, digest=bytes(32)))), "known.seq")


@pytest.mark.parametrize("size", [0, 31, 33])
async def test_a_known_position_needs_a_digest(wire, run_id, size):
    assert invalid(await refused(wire.read(run_id, known=pb.Position(seq=1, digest=bytes(size)))), "known.digest")


async def test_a_known_position_beyond_the_log_is_refused(wire, run_id):
    told = await refused(wire.read(run_id, known=pb.Position(seq=5, digest=bytes(32))))
    assert (told.code.name, told.field, told.metadata["head_seq"]) == ("OUT_OF_RANGE", "known.seq", "4")


async def test_a_known_start_with_another_digest_is_refused(wire, run_id):
    told = await refused(wire.read(run_id, known=pb.Position(seq=-1, digest=bytes(32))))
    assert (told.reason, told.metadata["seq"]) == ("PREFIX_MISMATCH", "-1")


@pytest.mark.parametrize(
    ("counter", "reason"),
    [(1, "ENGINE_COUNTER_REUSED"), (2, "ENGINE_COUNTER_REUSED"), (4, "ENGINE_GAP"), (2**53 - 1, "ENGINE_GAP")],
)
async def test_a_counter_that_does_not_follow_is_refused_with_both_numbers(wire, run_id, counter, reason):
    told = await refused_append(wire, run_id, event({"other": 1}), engine="e", engine_seq=counter)
    assert (told.reason, told.metadata["expected_engine_seq"], told.metadata["got_engine_seq"]) == (
        reason,
        "3",
        str(counter),
    )


@pytest.mark.parametrize("counter", [0, -1, 2**53])
async def test_a_number_that_is_no_counter_is_refused(wire, run_id, counter):
    assert invalid(await refused_append(wire, run_id, event(), engine="e", engine_seq=counter), "engine_seq")


async def test_a_counter_needs_an_engine(wire, run_id):
    assert invalid(await refused_append(wire, run_id, event(), engine_seq=3), "engine_seq")


@pytest.mark.parametrize("bad", ["has a space", "x" * 129, "a/b"], ids=repr)
async def test_a_bad_engine_name_is_refused(wire, run_id, bad):
    assert invalid(await refused_append(wire, run_id, event(), engine=bad, engine_seq=1), "engine")


@pytest.mark.parametrize(
    "late",
    ["run.completed", "run.failed", "run.started", "run.resumed", "node.started", "node.failed", "interrupt.requested"],
)
async def test_what_may_not_follow_a_terminal_event_is_refused(wire, ended, late):
    told = await refused_append(wire, ended, event({}, late))
    assert (told.code.name, told.reason) == ("FAILED_PRECONDITION", "RUN_TERMINAL")
    assert (told.metadata["terminal_seq"], told.metadata["type"]) == ("0", late)


@pytest.fixture(scope="module")
async def ended(wire):
    run_id = await wire.new_run()
    await wire.append(run_id, event({"outputs": {}}, "run.completed"))
    return run_id


async def test_an_append_that_ends_a_run_in_its_middle_is_refused_as_a_whole(wire, run_id):
    told = await refused_append(wire, run_id, event(), event({}, "run.failed"), event({}, "node.started"))
    assert (told.reason, told.metadata["terminal_seq"]) == ("RUN_TERMINAL", "6")


async def test_what_may_follow_a_terminal_event_is_taken(wire):
    run_id = await wire.new_run()
    await wire.append(run_id, event({}, "run.failed"), event({}, "compensation.started"))
    assert (await wire.append(run_id, event({}, "example.noted"))).first_seq == 2


# -- the rest ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("freshness", [3, -1])
async def test_an_unknown_freshness_is_refused(wire, run_id, freshness):
    calls = (
        wire.get(run_id, freshness),
        wire.read(run_id, freshness=freshness),
        wire.state(run_id, freshness=freshness),
        wire.prefix(run_id, freshness=freshness),
    )
    for call in calls:
        assert invalid(await refused(call), "freshness")


async def test_a_negative_number_of_differences_is_refused(wire, run_id):
    assert invalid(await refused(wire.diff(run_id, run_id, max_event_diffs=-1)), "max_event_diffs")


async def test_an_append_stream_goes_on_behind_a_refused_append(wire):
    run_id = await wire.new_run()
    bad = {1: {"events": [event(b"no")]}, 3: {"expected_seq": 99}, 5: {"run_id": UNKNOWN_RUN}}

    async def requests():
        for n in range(7):
            fields = {"request_id": request_id(), "run_id": run_id, "events": [event({"n": n})], **bad.get(n, {})}
            yield log_pb.AppendStreamRequest(append=log_pb.AppendRequest(**fields))

    answers = [answer async for answer in wire.append_stream(requests())]
    assert [answer.error.reason for answer in answers if answer.HasField("error")] == [
        "VALIDATION_ERROR",
        "SEQ_CONFLICT",
        "NOT_FOUND",
    ]
    assert [answer.appended.first_seq for answer in answers if answer.HasField("appended")] == [0, 1, 2, 3]
