"""The codemap and what one v1 event reads as. The golden translation is compared byte for byte: it is hashed in every region."""

import json
from contextlib import suppress
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isoline_server import codec
from isoline_server.domain import chain
from isoline_server.domain.codemap import Codemap, CodemapInvalid, Shape
from isoline_server.domain.errors import Damaged, EventTypeUnmapped, InvalidField, PayloadUnprojectable, TooLarge
from isoline_server.domain.event import EventContent, EventStamp
from isoline_server.domain.legacy import legacy_subject
from isoline_server.era2 import Era2
from isoline_server.openwop import codemap
from support.v1 import GOLDEN, LEGACY_OWNER, SEED_LOG, document

ERA2 = Era2(codemap())
SUBJECT = legacy_subject("", "", "")
RENAMED = """
run.resuming>run.resume-started run.dead_lettered>run.dead-lettered replay.divergedAtRefusal>replay.diverged-at-refusal
agent.reasoning.delta>agent.reasoning-delta agent.promptResolved>agent.prompt-resolved
model.capability.substituted>model.capability-substituted model.capability.insufficient>model.capability-insufficient
envelope.retry.attempted>envelope.retry-attempted envelope.retry.exhausted>envelope.retry-exhausted
envelope.nlToFormat.engaged>envelope.nl-to-format-engaged envelope.recovery.applied>envelope.recovery-applied
agent.toolCalled>agent.tool-called agent.toolReturned>agent.tool-returned agent.invocation.started>agent.invocation-started
agent.invocation.completed>agent.invocation-completed deployment.canary.adjusted>deployment.canary-adjusted
deployment.state.changed>deployment.state-changed roster.run.initiated>roster.run-initiated tool.session.opened>tool.session-opened
tool.session.closed>tool.session-closed trigger.subscription.state.changed>trigger.subscription-state-changed
trigger.delivery.attempted>trigger.delivery-attempted budget.threshold.crossed>budget.threshold-crossed
runOrchestrator.decided>orchestrator.decided core.dispatch.fanOut>dispatch.fanned-out core.dispatch.join>dispatch.joined
agent.memory.consolidated>agent.memory-consolidated core.workflowChain.event>workflow-chain.event
core.workflowChain.confidence-escalated>workflow-chain.confidence-escalated connector.auth_expired>connector.auth-expired
voice.speech_start>voice.speech-start voice.endpoint_candidate>voice.endpoint-candidate voice.turn_commit>voice.turn-commit
voice.synthesis_chunk>voice.synthesis-chunk voice.barge_in>voice.barge-in
compensation.manual_intervention_required>compensation.manual-intervention-required
"""


def take(raw, seq=0):
    return ERA2.take(raw, seq, f"events[{seq}]", "local", SUBJECT)


def read(raw, seq=0):
    """The event that a document reads as."""
    return codec.decode(ERA2.translated(take(raw, seq).stored, seq))


# -- the table -----------------------------------------------------------------------------------------------------------------------


def test_the_table_is_the_registry_of_118_names_36_of_them_renamed():
    rows = list(codemap())
    assert len(rows) == 118
    assert {f"{v1}>{v2}" for v1, v2 in rows if v1 != v2} == set(RENAMED.split())
    assert len(RENAMED.split()) == 36


def test_the_table_is_a_bijection():
    table = codemap()
    for v1, v2 in table:
        assert table.v2_type(v1) == v2
        assert table.v1_type(v2) == v1


@pytest.mark.parametrize(
    ("rows", "shapes"),
    [
        pytest.param([("a.b", "a.b"), ("a.c", "a.b")], {}, id="two v1 names of one v2 name"),
        pytest.param([("a.b", "a.c"), ("a.b", "a.d")], {}, id="two v2 names of one v1 name"),
        pytest.param([("a.b", "a.c"), ("a.d", "a.b")], {}, id="a v1 name that is another row's v2 name"),
        pytest.param([("a.b", "a.b.c")], {}, id="no v2 name"),
        pytest.param([("a.b", "a.b")], {"a.c": Shape()}, id="a shape of no type"),
    ],
)
def test_a_table_that_is_no_bijection_is_refused(rows, shapes):
    with pytest.raises(CodemapInvalid):
        Codemap(rows, shapes)


def test_how_many_types_are_compared_with_a_definition():
    """The others are in ``notIncluded`` of the subset, refer to another file, or are open (``run.resumed``): the docs say so."""
    checked = {v2 for _, v2 in codemap() if codemap().is_checked(v2)}
    assert len(checked) == 53
    assert {"run.started", "node.failed", "approval.granted", "negotiation.decided"} <= checked
    assert not {"interrupt.requested", "channel.written", "run.resumed", "conversation.opened"} & checked


# -- translating ---------------------------------------------------------------------------------------------------------------------


def golden_lines():
    digest = chain.CHAIN_START
    for seq, raw in enumerate(SEED_LOG):
        record = ERA2.translated(take(raw, seq).stored, seq)
        digest = chain.extend(digest, record)
        content = codec.decode(record).content
        yield {
            "seq": seq,
            "type": content.type,
            "payload": content.payload.decode(),
            "record": record.hex(),
            "digest": digest.hex(),
        }


def test_the_seed_log_reads_as_the_golden_records():
    expected = [json.loads(line) for line in GOLDEN.joinpath("seed.v2.jsonl").read_text().splitlines()]
    assert list(golden_lines()) == expected


@pytest.mark.parametrize("row", RENAMED.split())
def test_every_renamed_type_reads_as_its_v2_name_and_is_stored_as_it_was(row):
    v1, v2 = row.split(">")
    raw = document(0, v1, {})
    assert read(raw).content.type == v2
    assert raw in take(raw).stored


def test_an_event_keeps_what_its_document_says_and_nothing_is_made_up():
    members = {"nodeId": "pay", "causationId": "evt-cause", "schemaVersion": 2, "engineVersion": 7, "runId": "v1-run"}
    raw = document(3, "node.completed", {"nodeId": "pay", "outputs": {"n": 1.0}}, **members)
    event = read(raw, 3)
    content, stamp = event.content, event.stamp
    assert content.payload == b'{"nodeId": "pay", "outputs": {"n": 1.0}}'
    assert (content.node_id, content.schema_version, content.engine_version) == ("pay", 2, 7)
    assert (stamp.causation_id, stamp.recorded_at_us, stamp.region) == ("evt-cause", 1_768_471_203_000_000, "")
    assert (stamp.event_id, stamp.legacy.event_id) == (b"", "evt-0003")
    assert stamp.legacy.document_digest == sha256(raw).digest()
    bare = read(document(0, "run.completed", {"durationMs": 3000}))
    assert bare.content.payload == b'{"durationMs": 3000}'  # v2 requires outputs; the log has none


def test_an_event_id_that_is_a_ulid_is_kept_as_one():
    stamp = read(document(0, "node.skipped", {"nodeId": "a"}, eventId="01ARZ3NDEKTSV4RRFFQ69G5FAV")).stamp
    assert stamp.event_id.hex() == "01563e3ab5d3d6764c61efb99302bd5b"
    assert stamp.legacy.event_id == ""


def test_a_payload_keeps_its_spelling():
    raw = b'{"sequence":0,"timestamp":"2026-01-15T10:00:00Z","eventId":"e","type":"example.x","payload":{ "b":1.50, "a":"\\u00e9" }}'
    assert read(raw).content.payload == b'{ "b":1.50, "a":"\\u00e9" }'


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("2026-01-15T10:00:00Z", 1_768_471_200_000_000),
        ("2026-01-15T11:00:00.5+01:00", 1_768_471_200_500_000),
        ("2026-01-15T10:00:00.123456000Z", 1_768_471_200_123_456),
        ("1969-12-31T23:59:59.999999Z", -1),
    ],
)
def test_a_timestamp_is_kept_to_the_microsecond(text, microseconds):
    assert read(document(0, "example.x", {}, timestamp=text)).stamp.recorded_at_us == microseconds


def test_run_started_without_an_owner_gets_the_legacy_one_behind_its_own_members():
    event = read(document(0, "run.started", {"workflowId": "w"}))
    assert json.loads(event.content.payload) == {"workflowId": "w", "owner": LEGACY_OWNER}
    assert event.content.payload.startswith(b'{"workflowId": "w","owner":{')
    assert json.loads(read(document(0, "run.started", {})).content.payload) == {"owner": LEGACY_OWNER}


def test_an_owner_that_the_log_tells_is_left_alone():
    owner = {"tenant": "local", "subject": {"issuer": "https://id.example", "subjectId": "u", "tenant": "local"}}
    raw = document(0, "run.started", {"workflowId": "w", "owner": owner})
    assert json.loads(read(raw).content.payload)["owner"] == owner


@pytest.mark.parametrize(
    ("subject", "field"),
    [
        (("a b", "", ""), "subject.subject_id"),
        (("", "saml", ""), "subject.lane"),
        (("", "", "robot"), "subject.kind"),
        (("", "anonymous", "user"), "subject.kind"),
    ],
)
def test_a_subject_that_v2_does_not_know_is_refused(subject, field):
    with pytest.raises(InvalidField) as error:
        legacy_subject(*subject)
    assert error.value.field == field


# -- what has no v2 form ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("v1", ["acme.done", "run.resume-started", "agent.tool-called", "example.camelCase", "a.b.c.d"])
def test_a_type_without_a_row_or_a_registered_org_is_unmapped(v1):
    taken = take(document(4, v1, {}), 4)
    assert taken.refusal == EventTypeUnmapped(v1, 4)
    assert taken.record == taken.stored
    with pytest.raises(EventTypeUnmapped):
        ERA2.translated(taken.stored, 4)


def test_a_vendor_type_of_the_free_org_stays_as_it_is():
    assert read(document(0, "example.group.noted", {"any": 1})).content.type == "example.group.noted"


@pytest.mark.parametrize(
    ("v1", "payload", "keys"),
    [
        ("run.completed", {"outputs": {}, "took": 3, "by": "x"}, "took,by"),
        ("node.failed", {"nodeId": "a", "error": {"code": "c", "message": "m", "stack": "s"}}, "error.stack"),
        ("approval.granted", {"gate": "g", "approvers": []}, "gate,approvers"),
        ("node.dispatched", {"childRunId": "r", "childWorkflowId": "w", "x-note": 1}, "x-note"),
    ],
)
def test_a_member_without_a_seat_is_told_and_never_dropped(v1, payload, keys):
    taken = take(document(2, v1, payload), 2)
    assert taken.refusal == PayloadUnprojectable(v1, keys, "evt-0002", 2)


def test_the_hatch_and_the_open_members_take_anything():
    payload = {"nodeId": "a", "outputs": {"any": {"thing": 1}}, "x-note": 1, "vendor.acme": 2, "openwop-trace": 3}
    assert json.loads(read(document(0, "node.completed", payload)).content.payload) == payload


def test_a_type_whose_definition_is_not_at_hand_keeps_its_payload():
    assert json.loads(read(document(0, "conversation.opened", {"any": 1})).content.payload) == {"any": 1}


# -- malformed documents ---------------------------------------------------------------------------------------------------------------

GOOD = {"eventId": "e", "type": "example.x", "payload": {}, "timestamp": "2026-01-15T10:00:00Z", "sequence": 0}


def changed(**members):
    return json.dumps({name: value for name, value in (GOOD | members).items() if value is not ...}).encode()


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        *((changed(**{name: ...}), f"events[0].{name}") for name in GOOD),
        (changed(sequence=1), "events[0].sequence"),
        (changed(sequence=True), "events[0].sequence"),
        (changed(sequence="0"), "events[0].sequence"),
        (changed(eventId="a b"), "events[0].eventId"),
        (changed(eventId=7), "events[0].eventId"),
        (changed(type="x"), "events[0].type"),
        (changed(payload=[]), "events[0].payload"),
        (changed(payload={"n": 2**60}), "events[0].payload"),
        (changed(timestamp="2026-01-15 10:00:00Z"), "events[0].timestamp"),
        (changed(timestamp="2026-01-15T10:00:00"), "events[0].timestamp"),
        (changed(timestamp="2026-02-30T10:00:00Z"), "events[0].timestamp"),
        (changed(timestamp="2026-01-15T10:00:00.0000001Z"), "events[0].timestamp"),
        (changed(nodeId=""), "events[0].nodeId"),
        (changed(nodeId=None), "events[0].nodeId"),
        (changed(schemaVersion=0), "events[0].schemaVersion"),
        (changed(engineVersion="7"), "events[0].engineVersion"),
        (changed(vendor=1), "events[0].vendor"),
        (b"{}", "events[0].eventId"),
        (b"", "events[0]"),
        (b"[]", "events[0]"),
        (b"\xff", "events[0]"),
        (b"{} {}", "events[0]"),
        (b'{"a":1,"a":1}', "events[0]"),
        (b'{"a":1,}', "events[0]"),
        (b'{"a":' + b"[" * 100_000, "events[0]"),
        (b'{"a":' + b"9" * 10_000 + b"}", "events[0]"),
    ],
)
def test_a_malformed_document_is_refused_by_its_field(raw, field):
    with pytest.raises(InvalidField) as error:
        take(raw)
    assert error.value.field == field


def test_a_document_over_the_limit_is_refused():
    with pytest.raises(TooLarge):
        take(changed(payload={"a": "x" * 2**20}))


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_no_bytes_are_taken_for_a_stored_event_by_chance(raw):
    with pytest.raises(Damaged):
        ERA2.translated(raw, 0)


# -- the writer's rule -----------------------------------------------------------------------------------------------------------------


def record_of(event_type, payload=b"{}"):
    return codec.encode(
        EventContent(type=event_type, payload=payload, node_id="n", masked=("/at",) if b"at" in payload else ()),
        EventStamp(event_id=b"0123456789abcdef", recorded_at_us=5, region="eu", engine="e", engine_seq=2),
    )


@pytest.mark.parametrize("row", [f"{v1}>{v2}" for v1, v2 in codemap()])
def test_an_append_is_stored_in_v1_spelling_and_reads_back_as_it_was_written(row):
    v1, v2 = row.split(">")
    record = record_of(v2)
    stored = ERA2.stored_append(record)
    assert v1.encode() in stored
    assert ERA2.translated(stored, 9) == record


def test_an_append_of_a_vendor_type_is_stored_unchanged():
    record = record_of("example.noted", b'{"at": 1}')
    assert ERA2.translated(ERA2.stored_append(record), 9) == record


@pytest.mark.parametrize(
    ("event_type", "payload"),
    [("acme.noted", b"{}"), ("agent.reasoning.delta", b"{}"), ("run.completed", b'{"outputs":{},"took":1}')],
)
def test_an_append_that_would_not_read_back_is_refused(event_type, payload):
    with pytest.raises(InvalidField):
        ERA2.stored_append(record_of(event_type, payload))


@pytest.mark.parametrize(
    "make",
    [
        lambda: take(document(0, "run.started", {}, runId="v1-run")).stored,
        lambda: ERA2.stored_append(record_of("run.paused")),
    ],
)
def test_every_bit_of_a_stored_event_is_under_the_chain(make):
    """A changed bit makes bytes that are no stored event, that have no v2 form, or that read as another record."""
    stored = make()
    record = ERA2.translated(stored, 0)
    for place in range(len(stored) * 8):
        damaged = bytearray(stored)
        damaged[place // 8] ^= 1 << place % 8
        with suppress(Damaged, EventTypeUnmapped, PayloadUnprojectable):
            assert ERA2.translated(bytes(damaged), 0) != record


@pytest.mark.parametrize(
    "more", [b"\x28\x01", b"\x1a\x00", b"\x12\x02{}"], ids=["a field", "an empty one", "another document"]
)
def test_a_stored_event_has_one_spelling(more):
    stored = take(SEED_LOG[1], 1).stored
    with pytest.raises(Damaged):
        ERA2.translated(stored + more, 1)
