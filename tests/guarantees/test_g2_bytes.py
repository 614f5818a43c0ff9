"""G2: the bytes of an event are made once; equal (seq, digest) proves equal prefixes."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from api.wire import CHAIN_START, chain, event
from guarantees.copies import execute
from isoline.v1 import common_pb2 as pb
from isoline_server import codec
from isoline_server.domain.chain import first_break
from isoline_server.domain.event import EventContent, EventStamp

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "records").glob("*.json"))
GOLDEN_DIGEST = "5998bffafba53e2fd14c02f3f5cdde250886a7bc578e032b5ef84ed174b1b0bf"
"""The chain over all golden records of format 1. A changed file changes it; a new format gets new files and its own line here."""


def golden(path):
    """What was encoded, and the bytes it must give."""
    stored = json.loads(path.read_text())
    content, stamp = stored["content"], stored["stamp"]
    return (
        EventContent(**{**content, "payload": content["payload"].encode(), "masked": tuple(content["masked"])}),
        EventStamp(**{**stamp, "event_id": bytes.fromhex(stamp["event_id"])}),
        bytes.fromhex(stored["record"]),
    )


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_g2_an_event_gives_exactly_its_golden_bytes(path):
    content, stamp, record = golden(path)
    assert codec.encode(content, stamp) == record


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_g2_golden_bytes_give_their_event_back(path):
    content, stamp, record = golden(path)
    event = codec.decode(record)
    assert (event.content, event.stamp) == (content, stamp)


def test_g2_nothing_in_an_event_has_an_open_order():
    """Protobuf leaves the order of a map's entries open, and nothing else that a program sets."""
    parts = [pb.Event.DESCRIPTOR]
    for part in parts:
        parts += [each.message_type for each in part.fields if each.message_type is not None]
    assert not [part.full_name for part in parts if part.GetOptions().map_entry]


def test_g2_the_golden_chain_still_verifies():
    rows, digest = [], CHAIN_START
    for path in GOLDEN:
        record, digest = golden(path)[2], bytes.fromhex(json.loads(path.read_text())["digest"])
        rows.append((record, digest))
    assert first_break(CHAIN_START, 0, rows) is None
    assert digest.hex() == GOLDEN_DIGEST


async def test_g2_the_digest_of_an_append_is_the_chain_over_the_bytes_that_are_read(pair):
    run_id = await pair["eu"].new_run()
    first = await pair["eu"].append(run_id, event({"a": 1}), event({"b": 2}))
    second = await pair["us"].append(run_id, event({"c": 3}))
    records = (await pair["us"].read(run_id)).records
    assert chain(records[:2]) == first.last.digest
    assert chain(records) == second.last.digest == sha256(first.last.digest + records[2]).digest()


async def test_g2_bytes_are_served_as_they_are_stored(pair, service_url):
    run_id = await pair["eu"].new_run(3)
    stored = await execute(service_url, "SELECT record FROM events WHERE run_id = %s ORDER BY seq", [run_id])
    for region in ("eu", "us"):
        assert (await pair[region].read(run_id)).records == [bytes(row[0]) for row in stored]


async def test_g2_a_payload_is_kept_verbatim(two):
    payload = '{ "n" : 1.0 , "ä":"\\u00e4",\n"big": 1e2, "z": 1, "a": 2 }'.encode()
    run_id = await two["eu"].new_run()
    await two["eu"].append(run_id, event(payload))
    assert (await two["us"].read(run_id)).events[0].content.payload == payload


async def test_g2_a_record_of_a_later_version_is_served_unchanged(two, databases):
    """Bytes that this version does not know are part of the record, and nothing re-encodes them."""
    run_id = await two["eu"].new_run(1)
    record = (await two["eu"].read(run_id)).records[0] + b"\xfa\x3e\x05later"
    url = two.servers["eu"]._settings.leader_url
    await execute(
        url, "UPDATE events SET record = %s, digest = %s WHERE run_id = %s", [record, chain([record]), run_id]
    )
    await execute(url, "UPDATE runs SET head_digest = %s WHERE run_id = %s", [chain([record]), run_id])
    assert (await two["us"].read(run_id)).records == [record]
    assert (await two["us"].append(run_id, event())).last.seq == 1
    assert (await two["eu"].read(run_id)).records[0] == record


async def test_g2_the_stamp_is_filled_in_by_the_server_that_accepts(two):
    run_id = await two["eu"].new_run()
    for region in ("eu", "us"):
        await two[region].append(run_id, event())
    assert [each.stamp.region for each in (await two["eu"].read(run_id)).events] == ["eu", "us"]


async def test_g2_event_ids_of_one_append_are_distinct_and_grow(two):
    run_id = await two["eu"].new_run(50)
    ids = [each.stamp.event_id for each in (await two["eu"].read(run_id)).events]
    assert ids == sorted(set(ids))
    assert {len(each) for each in ids} == {16}


async def test_g2_a_prefix_has_one_digest_by_every_way_of_asking(two):
    run_id = await two["eu"].new_run(20)
    digest = chain((await two["eu"].read(run_id, until_seq=13)).records)
    for recompute in (False, True):
        prefix = await two["us"].prefix(run_id, 13, recompute=recompute)
        assert (prefix.last.seq, prefix.last.digest) == (12, digest)


async def test_g2_the_empty_prefix_is_the_start_of_the_chain(two):
    run_id = await two["eu"].new_run()
    assert (await two["us"].prefix(run_id)).last == pb.Position(seq=-1, digest=CHAIN_START)
    assert (await two["us"].read(run_id)).last == pb.Position(seq=-1, digest=CHAIN_START)
