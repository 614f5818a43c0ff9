"""Runs that a v1 host wrote (era 2): every reader in every region sees one translation, what is stored stays as it was written, and what has
no v2 form is told by every reader."""

import ast
import asyncio
import json
import re
from hashlib import sha256
from pathlib import Path

import pytest

import isoline_server
from api.wire import event, refused, request_id
from guarantees.copies import FLIP_RECORD, execute
from isoline.v1 import common_pb2 as pb
from isoline.v1 import host_service_pb2 as host_pb
from isoline.v1 import log_service_pb2 as log_pb
from support.v1 import GOLDEN, LEGACY_OWNER, SEED_LOG, STARTED, digest_of, document, import_into, v1_log

EXPECTED = [json.loads(line) for line in GOLDEN.joinpath("seed.v2.jsonl").read_text().splitlines()]
V2_TYPES = ["run.started", "agent.tool-called", "agent.tool-returned", "run.completed"]
TOOL = ("agent.toolCalled", {"agentId": "a", "toolName": "t", "callId": "c"})
OPEN_LOG = v1_log(STARTED, TOOL, ("node.started", {"nodeId": "pay", "typeId": "core.noop"}))
UNMAPPED = ("acme.done", {})
UNPROJECTABLE = ("node.completed", {"nodeId": "pay", "took": 3})


async def stored(url, run_id):
    """What is stored: each row as its message."""
    rows = await execute(url, "SELECT record FROM events WHERE run_id = %s ORDER BY seq", [run_id])
    return [pb.StoredLegacyEvent.FromString(row[0]) for row in rows]


async def compare(wire, a, b):
    return await wire.call("CompareForks", log_pb.CompareForksRequest(a_run_id=a, b_run_id=b))


async def tail_of(wire, run_id):
    records = []
    async for answer in wire.tail(run_id, stop_at_terminal=True):
        records += answer.page.records
    return records


# -- one translation, everywhere -----------------------------------------------------------------------------------------------------


async def test_era2_the_seed_log_reads_the_same_in_every_region(world):
    run_id = (await import_into(world["eu"], SEED_LOG)).run.run_id
    world.caught_up()
    for region in ("eu", "us", "ap"):
        run = (await world[region].get(run_id)).run
        assert (run.era, run.terminal_seq, run.HasField("untranslatable_seq")) == (2, 3, False)
        log = await world[region].read(run_id)
        assert [record.hex() for record in log.records] == [line["record"] for line in EXPECTED]
        assert log.last.digest.hex() == EXPECTED[-1]["digest"]
        assert set(log.sources) == {"LOCAL"}
        assert run.record_bytes == sum(map(len, log.records))


async def test_era2_a_fork_of_a_v1_run_in_each_region_has_the_translated_prefix(world):
    run_id = (await import_into(world["us"], SEED_LOG)).run.run_id
    parent = await world["us"].read(run_id, 0, 3)
    for region in ("eu", "us", "ap"):
        fork = (await world[region].fork(run_id, 3, pb.FORK_MODE_REPLAY)).run
        assert (fork.era, fork.head) == (3, parent.last)
        assert [(part.start_seq, part.end_seq, part.origin_run_id) for part in fork.lineage] == [(0, 3, run_id)]
        world.caught_up()
        for reader in ("eu", "us", "ap"):
            read = await world[reader].read(fork.run_id)
            assert read.records == parent.records
            assert read.payloads[0]["owner"] == LEGACY_OWNER


async def test_era2_every_reader_sees_the_translation(two):
    wire = two["us"]
    run_id = (await import_into(wire, SEED_LOG)).run.run_id
    golden = [bytes.fromhex(line["record"]) for line in EXPECTED]
    assert (await wire.read(run_id)).records == golden
    assert (await wire.read(run_id, 2)).records == golden[2:]
    assert await tail_of(wire, run_id) == golden
    state = await wire.state(run_id)
    assert json.loads(state.state)["status"] == "completed"
    assert state.prefix_digest.hex() == EXPECTED[3]["digest"]
    for recompute in (False, True):
        assert (await wire.prefix(run_id, 2, recompute=recompute)).last.digest.hex() == EXPECTED[1]["digest"]
    twin = await wire.new_run()
    contents = [pb.Event.FromString(record).content for record in golden]
    await wire.append(twin, *(log_pb.NewEvent(content=content) for content in contents))
    assert not (await wire.diff(run_id, twin)).event_diffs
    other = await wire.new_run()
    await wire.append(other, log_pb.NewEvent(content=contents[0]), event(), log_pb.NewEvent(content=contents[3]))
    [first, *_] = (await wire.diff(run_id, other)).event_diffs
    assert (first.seq, first.a_event.type) == (1, "agent.tool-called")


async def test_era2_a_replay_is_compared_with_the_translated_source(two):
    run_id = (await import_into(two["eu"], SEED_LOG)).run.run_id
    contents = [log_pb.NewEvent(content=each.content) for each in (await two["eu"].read(run_id)).events]
    same, other = [(await two[region].fork(run_id, 1, pb.FORK_MODE_REPLAY)).run.run_id for region in ("eu", "us")]
    await two["us"].append(same, *contents[1:])
    assert [each.content.type for each in (await two["eu"].read(same)).events] == V2_TYPES
    assert (await compare(two["us"], run_id, same)).masked_equal
    changed = event({"agentId": "agent-1", "toolName": "other", "callId": "call-1"}, "agent.tool-called")
    await two["us"].append(other, changed, *contents[2:])
    diverged = json.loads((await two["eu"].read(other)).events[2].content.payload)
    assert (diverged["originalEventId"], diverged["atSequence"]) == ("era2-seed-event-1", 1)
    assert (await compare(two["us"], run_id, other)).first_divergence_seq == 1


async def test_era2_a_long_run_is_read_page_by_page_and_folded_over_its_snapshots(two):
    note = ("example.noted", {"text": "x" * 900})
    documents = v1_log(STARTED, *[note] * 2_500)
    run = (await import_into(two["eu"], documents)).run
    log = await two["us"].read(run.run_id)
    assert len(log.pages) > 2
    assert (log.last, len(log.records)) == (run.head, 2_501)
    assert (await two["us"].read(run.run_id, 1_700, 1_710)).records == log.records[1_700:1_710]
    whole = await two["eu"].state(run.run_id)
    again = await two["eu"].state(run.run_id)
    assert again.folded_events < whole.folded_events == 2_501
    assert (again.state, again.state_digest) == (whole.state, whole.state_digest)


async def test_era2_the_same_log_in_other_batches_and_regions_is_the_same_bytes(two):
    one = await import_into(two["eu"], SEED_LOG, batch=1)
    other = await import_into(two["us"], SEED_LOG, batch=4)
    assert one.run.run_id != other.run.run_id
    assert one.run.head == other.run.head


async def test_era2_the_host_itself_is_of_era_3(two):
    assert (await two["eu"].host.GetCapabilities(host_pb.GetCapabilitiesRequest())).era == 3


# -- what is stored ------------------------------------------------------------------------------------------------------------------


async def test_era2_the_documents_are_kept_as_they_were_written(pair, service_url):
    spelled = b'{ "sequence":0, "eventId":"e-0","type":"run.started","timestamp":"2026-01-15T11:00:00.5+01:00","payload":{"x-a":1.50},"runId":"r"}'
    run_id = (await import_into(pair["eu"], [spelled])).run.run_id
    [row] = await stored(service_url, run_id)
    assert row.document == spelled
    assert json.loads(row.owner) == LEGACY_OWNER
    [served] = (await pair["us"].read(run_id)).events
    assert served.stamp.legacy_digest == sha256(spelled).digest()
    assert served.content.payload.startswith(b'{"x-a":1.50,"owner":{')


async def test_era2_an_attested_subject_is_stamped_once_and_carried_by_the_fork(pair):
    subject = log_pb.LegacySubject(subject_id="ada", lane="oidc", kind="agent")
    run_id = (await import_into(pair["eu"], OPEN_LOG, subject=subject)).run.run_id
    fork = (await pair["us"].fork(run_id, 1)).run.run_id
    for each in (run_id, fork):
        owner = (await pair["us"].read(each, 0, 1)).payloads[0]["owner"]
        assert owner["tenant"] == owner["subject"]["tenant"] == "local"
        assert (owner["subject"]["subjectId"], owner["subject"]["lane"], owner["subject"]["kind"]) == (
            "ada",
            "oidc",
            "agent",
        )


async def test_era2_appends_to_an_open_run_are_stored_in_v1_spelling_and_the_era_stays(pair, service_url):
    run_id = (await import_into(pair["eu"], OPEN_LOG)).run.run_id
    tool = event(
        {"agentId": "a", "toolName": "t", "callId": "c", "outcome": 1},
        "agent.tool-returned",
        node_id="pay",
        masked=["/outcome"],
    )
    await pair["us"].append(run_id, tool, event({"n": 1}))
    await pair["us"].append(run_id, event({}, "run.resume-started"))
    await asyncio.gather(*(pair["eu"].append(run_id, event({}, "run.resume-started")) for _ in range(3)))
    log = await pair["us"].read(run_id)
    appended = ["agent.tool-returned", "example.noted", *["run.resume-started"] * 4]
    assert [each.content.type for each in log.events[3:]] == appended
    assert log.events[3].content == tool.content
    spelled = ["agent.toolReturned", "example.noted", *["run.resuming"] * 4]
    assert [row.appended.content.type for row in (await stored(service_url, run_id))[3:]] == spelled
    run = (await pair["eu"].get(run_id)).run
    assert (run.era, run.head, run.record_bytes) == (2, log.last, sum(map(len, log.records)))
    for seq in range(1, 9):
        fork = (await pair["us"].fork(run_id, seq)).run
        assert (fork.era, fork.record_bytes) == (3, sum(map(len, log.records[:seq])))


@pytest.mark.parametrize(
    "bad", [event({}, "acme.noted"), event({}, "agent.reasoning.delta"), event({"took": 1}, "run.completed")]
)
async def test_era2_an_append_that_could_not_be_read_back_is_refused_and_changes_nothing(pair, bad):
    run = (await import_into(pair["eu"], OPEN_LOG)).run
    refusal = await refused(pair["us"].append(run.run_id, event(), bad))
    assert (refusal.code.name, refusal.field) == ("INVALID_ARGUMENT", "events")
    assert await pair["eu"].head(run.run_id) == run.head


async def test_era2_a_finished_run_stays_finished(pair):
    run_id = (await import_into(pair["eu"], SEED_LOG)).run.run_id
    assert (await refused(pair["eu"].append(run_id, event({}, "run.resumed")))).reason == "RUN_TERMINAL"
    await pair["us"].append(run_id, event())


# -- what has no v2 form -------------------------------------------------------------------------------------------------------------


async def _compare(wire, run_id):
    fork = (await wire.fork(run_id, 2)).run.run_id
    await wire.append(fork, event())
    return await compare(wire, run_id, fork)


async def _replay(wire, run_id):
    fork = (await wire.fork(run_id, 2, pb.FORK_MODE_REPLAY)).run.run_id
    return await wire.append(fork, event())


async def _diff(wire, run_id, *, first):
    other = (await import_into(wire, [*v1_log(STARTED, *[TOOL] * 6)])).run.run_id
    return await (wire.diff(run_id, other) if first else wire.diff(other, run_id))


READERS = {
    "read": lambda wire, run_id: wire.read(run_id),
    "tail": tail_of,
    "state": lambda wire, run_id: wire.state(run_id),
    "prefix": lambda wire, run_id: wire.prefix(run_id),
    "recomputed prefix": lambda wire, run_id: wire.prefix(run_id, recompute=True),
    "fork": lambda wire, run_id: wire.fork(run_id, 4),
    "compare": _compare,
    "replay": _replay,
    "diff as a": lambda wire, run_id: _diff(wire, run_id, first=True),
    "diff as b": lambda wire, run_id: _diff(wire, run_id, first=False),
}


@pytest.fixture(scope="module", params=[UNMAPPED, UNPROJECTABLE], ids=["unmapped", "unprojectable"])
def bad(request):
    return request.param


@pytest.mark.parametrize("reader", READERS)
async def test_era2_every_reader_tells_an_event_without_a_v2_form(two, bad, reader):
    answer = await import_into(two["eu"], v1_log(STARTED, TOOL, bad, TOOL, TOOL))
    run_id = answer.run.run_id
    assert (answer.run.untranslatable_seq, answer.untranslatable_events) == (2, 1)
    for region in ("eu", "us"):
        refusal = await refused(READERS[reader](two[region], run_id))
        assert refusal.code.name == "INTERNAL"
        assert (refusal.metadata["retryable"], refusal.metadata["seq"]) == ("false", "2")
        assert refusal.metadata["type"] == bad[0]
        if bad is UNMAPPED:
            assert refusal.reason == "EVENT_TYPE_UNMAPPED"
        else:
            assert refusal.reason == "PAYLOAD_UNPROJECTABLE"
            assert (refusal.metadata["keys"], refusal.metadata["event_id"]) == ("took", "evt-0002")
        assert [(each.seq, each.reason, each.message) for each in answer.untranslatable] == [
            (2, refusal.reason, refusal.message)
        ]


async def test_era2_what_stands_before_it_is_read_forked_and_folded(two, bad):
    run_id = (await import_into(two["eu"], v1_log(STARTED, TOOL, bad, TOOL))).run.run_id
    assert len((await two["us"].read(run_id, 0, 2)).records) == 2
    assert (await two["us"].fork(run_id, 2)).run.head == (await two["us"].prefix(run_id, 2)).last
    assert (await two["us"].state(run_id, 2)).at_seq == 2
    received = []

    async def follow():
        async for answer in two["eu"].tail(run_id):
            received.extend(answer.page.records)

    assert (await refused(follow())).metadata["seq"] == "2"
    assert len(received) == 2


# -- damage ----------------------------------------------------------------------------------------------------------------------------


async def test_era2_a_damaged_row_is_healed_from_the_leader_and_else_told(copied, near_and_far):
    run_id = (await import_into(copied["eu"], OPEN_LOG)).run.run_id
    await near_and_far.refresh()
    expected = await copied["eu"].read(run_id)
    await near_and_far.damage(FLIP_RECORD, run_id, 1)
    healed = await copied["us"].read(run_id)
    assert healed.records == expected.records
    assert "LEADER" in healed.sources
    await near_and_far.damage_leader(FLIP_RECORD, run_id, 1)
    refusal = await refused(copied["us"].read(run_id))
    assert (refusal.reason, refusal.metadata["seq"]) == ("CHAIN_BROKEN", "1")


async def test_era2_damage_that_looks_like_an_unknown_type_is_damage(copied, near_and_far):
    """The type of seq 1 becomes another one that no table knows: its chain tells it from a document that came so."""
    run_id = (await import_into(copied["eu"], OPEN_LOG)).run.run_id
    await near_and_far.refresh()
    [(record,)] = await execute(
        near_and_far.copy_url, "SELECT record FROM events WHERE run_id = %s AND seq = 1", [run_id]
    )
    await near_and_far.damage(
        "UPDATE events SET record = %s WHERE run_id = %s AND seq = 1",
        record.replace(b"agent.tool", b"agens.tool"),
        run_id,
    )
    assert [each.content.type for each in (await copied["us"].read(run_id)).events][1] == "agent.tool-called"


# -- importing -------------------------------------------------------------------------------------------------------------------------


async def test_era2_an_import_is_answered_again_and_another_body_is_refused(pair):
    key = request_id()
    first = await import_into(pair["eu"], OPEN_LOG, request_id=key)
    again = await import_into(pair["us"], OPEN_LOG, request_id=key)
    assert (first.repeated, again.repeated, again.run) == (False, True, first.run)
    assert (await refused(import_into(pair["us"], SEED_LOG, request_id=key))).reason == "IDEMPOTENCY_KEY_MISMATCH"
    assert (
        await refused(import_into(pair["us"], OPEN_LOG, request_id=key, tags=["x"]))
    ).reason == "IDEMPOTENCY_KEY_MISMATCH"


async def test_era2_nobody_sees_an_import_before_it_is_complete_and_it_goes_on_where_it_broke_off(pair, service_url):
    documents, key = v1_log(STARTED, *[TOOL] * 20), request_id()
    broken = [*documents[:15], b"no event"]
    header = {"request_id": key, "content_digest": digest_of(documents)}
    assert (await refused(import_into(pair["eu"], broken, batch=5, **header))).field == "events[15]"
    listed = await pair["eu"].list(page_size=1_000, workflow_id="v1-flow")
    count = "SELECT count(DISTINCT run_id) FROM events WHERE run_id LIKE 'local/%%' AND run_id NOT IN (SELECT run_id FROM runs)"
    assert await execute(service_url, count) == [(1,)]
    run = (await import_into(pair["eu"], documents, batch=7, **header)).run
    assert run.run_id not in {each.run_id for each in listed.runs}
    assert await execute(service_url, count) == [(0,)]
    assert (await pair["us"].read(run.run_id)).last == run.head
    assert run.head.seq == 20


async def test_era2_two_imports_at_once_with_one_request_id_make_one_run(pair):
    key = request_id()
    answers = await asyncio.gather(
        *(import_into(pair[each], OPEN_LOG, request_id=key, home_region="eu") for each in ("eu", "us"))
    )
    assert len({each.run.run_id for each in answers}) == 1
    assert not all(each.repeated for each in answers)


async def test_era2_a_check_stores_nothing(pair, service_url):
    before = await execute(service_url, "SELECT count(*) FROM events")
    answer = await import_into(pair["eu"], v1_log(STARTED, UNMAPPED), check_only=True)
    assert (answer.run.run_id, answer.run.head.seq, answer.untranslatable_events) == ("", 1, 1)
    assert await execute(service_url, "SELECT count(*) FROM events") == before


async def test_era2_the_workflow_is_the_first_event_s_unless_it_is_named(pair):
    assert (await import_into(pair["eu"], OPEN_LOG, workflow_id="")).run.workflow_id == "v1-flow"
    assert (await import_into(pair["eu"], OPEN_LOG, workflow_id="named")).run.workflow_id == "named"
    refusal = await refused(import_into(pair["eu"], [document(0, "example.x", {})], workflow_id=""))
    assert refusal.field == "header.workflow_id"


@pytest.mark.parametrize(
    ("documents", "header", "field"),
    [
        ([], {}, "events"),
        ([document(1, "example.x", {})], {}, "events[0].sequence"),
        ([document(0, "example.x", {}), document(2, "example.x", {})], {}, "events[1].sequence"),
        (OPEN_LOG, {"content_digest": b"short"}, "header.content_digest"),
        (OPEN_LOG, {"content_digest": b"x" * 32}, "header.content_digest"),
        (OPEN_LOG, {"request_id": "short"}, "request_id"),
        (OPEN_LOG, {"subject": log_pb.LegacySubject(lane="saml")}, "subject.lane"),
        (OPEN_LOG, {"home_region": "mars"}, "home_region"),
    ],
)
async def test_era2_a_bad_import_is_refused_by_its_field(pair, documents, header, field):
    refusal = await refused(import_into(pair["eu"], documents, **header))
    assert (refusal.code.name, refusal.field) == ("INVALID_ARGUMENT", field)


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ([], "header"),
        ([log_pb.ImportRunRequest(events=log_pb.ImportEvents(documents=OPEN_LOG))], "header"),
        ([log_pb.ImportRunRequest()], "header"),
    ],
)
async def test_era2_an_import_begins_with_its_header(pair, messages, field):
    call = pair["eu"].log.ImportRun(iter(messages), timeout=20, metadata=pair["eu"].metadata)
    assert (await refused(call)).field == field


@pytest.mark.parametrize("documents", [v1_log(*[TOOL] * 1_001), v1_log(*[("example.x", {"t": "x" * 1_000_000})] * 5)])
async def test_era2_a_message_of_an_import_has_the_bounds_of_an_append(two, documents):
    refusal = await refused(import_into(two["eu"], documents, batch=2_000))
    assert (refusal.reason, refusal.field) == ("PAYLOAD_TOO_LARGE", "events")


# -- one seat --------------------------------------------------------------------------------------------------------------------------


def _texts(tree):
    """Every string of a module, f-strings put together."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node, "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value


def _function_of(tree, node):
    around = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and node in ast.walk(each)]
    return around[-1].name if around else ""


def test_era2_only_the_page_statement_reads_records_and_its_only_caller_translates():
    """The seat of the translation: no other statement of the server selects ``events.record``."""
    reads = re.compile(r"SELECT\b(?:(?!\bFROM\b).)*\b(?:record|\*)(?:(?!\bFROM\b).)*FROM\s+events\b", re.DOTALL)
    found, callers = set(), set()
    for path in Path(isoline_server.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        found |= {(path.name, _function_of(tree, node)) for node, text in _texts(tree) if reads.search(text)}
        calls = [
            each for each in ast.walk(tree) if isinstance(each, ast.Call) and getattr(each.func, "id", "") == "page_sql"
        ]
        if calls:
            [page] = [each for each in ast.walk(tree) if isinstance(each, ast.AsyncFunctionDef) and each.name == "page"]
            callers.add((path.name, len(calls), ast.unparse(page.body[-1])))
    assert found == {("sql_reader.py", "page_sql")}
    assert callers == {("sql_reader.py", 1, "return self._translate(stored, start_byte)")}
