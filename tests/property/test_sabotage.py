"""Is the state machine any good? Each guarantee is broken here on purpose, one at a time, in the two servers of this process; the machine
must notice, and name the guarantee. Runs in the ``long`` profile only, for it tells about the tests and not about the product::

    HYPOTHESIS_PROFILE=long python -m pytest -s tests/property/test_sabotage.py

Where two lines hold one guarantee, breaking one of them breaks nothing: without the compare-and-set of the head, the key of ``events``
still keeps the order. Then both are broken.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import pytest

from isoline.v1 import common_pb2 as pb
from isoline_server.api import translate
from isoline_server.domain import append, fork, state
from isoline_server.domain.receipt import Receipt
from isoline_server.domain.run import Freshness, Source
from isoline_server.embedded import EmbeddedCluster
from isoline_server.operations import lane, make_run, reading
from isoline_server.store import sql_reader, sql_writer
from property.model import Broken
from property.test_log_machine import PROFILE, PROFILES, check_histories
from property.world import World

pytestmark = [
    pytest.mark.property,
    pytest.mark.topology,
    pytest.mark.skipif(PROFILE is PROFILES["default"], reason="sabotage: only with HYPOTHESIS_PROFILE=long"),
]


@dataclass(frozen=True)
class Sabotage:
    """What is broken, how, and which guarantees may be named by the machine when it notices."""

    what: str
    breaks: Callable[[pytest.MonkeyPatch], None]
    noticed_as: tuple[str, ...]


def no_compare_and_set(patch: pytest.MonkeyPatch) -> None:
    """The head moves whoever moved it before, and of two events with one seq the second is dropped."""
    _without(patch, "append_sql", " AND runs.head_seq = g.old_seq AND runs.head_digest = g.old_digest")
    _without(patch, "append_single_sql", " AND head_seq = %(seq)b::BIGINT - 1 AND head_digest = %(old_digest)b::BYTEA")


def _without(patch: pytest.MonkeyPatch, name: str, comparison: str) -> None:
    whole = getattr(sql_writer, name)

    def without(region: Any) -> str:
        text = whole(region)
        assert comparison in text
        return text.replace(comparison, "").replace(
            "\n), kept AS", " ON CONFLICT (region, run_id, seq) DO NOTHING\n), kept AS"
        )

    patch.setattr(sql_writer, name, without)


def no_receipts(patch: pytest.MonkeyPatch) -> None:
    """No append leaves a receipt."""
    whole = lane._group_write
    patch.setattr(lane, "_group_write", lambda run_id, group: replace(whole(run_id, group), receipts=[]))


def acknowledge_without_writing(patch: pytest.MonkeyPatch) -> None:
    """Every seventh statement is acknowledged, and was not sent."""
    whole = sql_writer.SqlLogWriter.append
    sent: list[int] = []

    async def now_and_then(self: Any, region: Any, groups: Any) -> Any:
        sent.append(1)
        return frozenset(group.run_id for group in groups) if len(sent) % 7 == 0 else await whole(self, region, groups)

    patch.setattr(sql_writer.SqlLogWriter, "append", now_and_then)


def write_twice(patch: pytest.MonkeyPatch) -> None:
    """One event in a batch stands there twice."""
    whole = lane.decide_append

    def doubled(head: Any, last_engine_seq: int, command: Any, stamping: Any, encode: Any) -> Any:
        if len(command.contents) == 2 and not command.engine:
            command = replace(command, contents=(command.contents[0],) * 2)
        return whole(head, last_engine_seq, command, stamping, encode)

    patch.setattr(lane, "decide_append", doubled)


def flipped_byte_near(patch: pytest.MonkeyPatch) -> None:
    """What the replica shows a second time has another byte, and nobody looks at its chain."""
    whole = sql_reader.SqlLogReader.page
    shown: set[bytes] = set()

    async def flipped(self: Any, *args: Any, **bounds: Any) -> Any:
        page = await whole(self, *args, **bounds)
        if self.source is Source.LEADER or not page.records or page.records[-1] not in shown:
            shown.update(page.records)
            return page
        *others, last = page.records
        return replace(page, records=[*others, last[:-1] + bytes([last[-1] ^ 1])])

    patch.setattr(sql_reader.SqlLogReader, "page", flipped)
    _believe_everything(patch)


def _believe_everything(patch: pytest.MonkeyPatch) -> None:
    def believed(_: Any, __: Any, raw: Any, before: Any, source: Any) -> Any:
        if not raw.records:
            return None
        last = reading.Mark(seq=before.seq + len(raw.records), digest=raw.digests[-1], end_byte=raw.last_end_byte)
        return reading.Page(records=tuple(raw.records), before=before, last=last, source=source)

    patch.setattr(reading.Reading, "_verified", believed)


def stale_replica_taken_for_fresh(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks whether the replica is complete: its head is the head."""
    whole = reading.Reading.run
    patch.setattr(reading.Reading, "run", lambda self, run_id, _: whole(self, run_id, Freshness.LOCAL))


def lineage_one_too_long(patch: pytest.MonkeyPatch) -> None:
    """The event at the boundary is taken from the parent."""
    _lineage_off_by(patch, 1)


def lineage_one_too_short(patch: pytest.MonkeyPatch) -> None:
    """The last inherited event is looked for in the child."""
    _lineage_off_by(patch, -1)


def _lineage_off_by(patch: pytest.MonkeyPatch, off: int) -> None:
    whole = fork.lineage.child_lineage

    def wrong(parent: Any, from_seq: int) -> Any:
        ranges = whole(parent, from_seq)
        return (*ranges[:-1], replace(ranges[-1], end_seq=ranges[-1].end_seq + off)) if ranges else ranges

    patch.setattr(fork.lineage, "child_lineage", wrong)


def fork_behind_the_boundary(patch: pytest.MonkeyPatch) -> None:
    """The boundary is taken as included: a fork holds one event more than was asked for."""

    async def included(self: Any, source: Any, from_seq: int) -> Any:
        return (await self._reading.mark(source, from_seq))[0]

    patch.setattr(make_run.RunMaker, "_boundary", included)


def chain_not_extended(patch: pytest.MonkeyPatch) -> None:
    """A digest is that of its record alone; and the servers, when they verify, believe so too."""
    patch.setattr(append, "sha256", lambda data: sha256(data[32:]))
    _believe_everything(patch)


def record_encoded_again(patch: pytest.MonkeyPatch) -> None:
    """What is served is not what is stored, but the same event in other bytes."""
    whole = translate.page

    def again(record: bytes) -> bytes:
        event = pb.Event.FromString(record)
        event.content.schema_version = event.content.schema_version or 1
        return event.SerializeToString()

    patch.setattr(translate, "page", lambda page: whole(replace(page, records=tuple(map(again, page.records)))))


def payload_spelled_again(patch: pytest.MonkeyPatch) -> None:
    """A payload is stored without its white space."""
    whole = lane.decide_append

    def spelled(head: Any, last_engine_seq: int, command: Any, stamping: Any, encode: Any) -> Any:
        contents = tuple(content._replace(payload=content.payload.strip()) for content in command.contents)
        return whole(head, last_engine_seq, replace(command, contents=contents), stamping, encode)

    patch.setattr(lane, "decide_append", spelled)


def another_body_is_taken(patch: pytest.MonkeyPatch) -> None:
    """A repeat is known by its id alone."""
    whole = lane._answer_from_receipt

    def blind(pending: Any, receipt: Receipt) -> None:
        whole(pending, replace(receipt, request_hash=pending.request_hash))

    patch.setattr(lane, "_answer_from_receipt", blind)


def counters_not_checked(patch: pytest.MonkeyPatch) -> None:
    """An engine may skip a number."""
    patch.setattr(append, "_check_engine", lambda *_: None)


def pauses_not_folded(patch: pytest.MonkeyPatch) -> None:
    """A pause is not folded."""
    patch.setitem(state._STEPS, "run.paused", lambda *_: None)


SABOTAGES = (
    Sabotage("dense order", no_compare_and_set, ("dense order",)),
    Sabotage("exactly once: a repeat is written again", no_receipts, ("first answer", "exactly once")),
    Sabotage(
        "exactly once: acknowledged and not written",
        acknowledge_without_writing,
        ("exactly once", "dense order", "first answer", "same prefix", "refusal"),
    ),
    Sabotage("exactly once: an event twice", write_twice, ("exactly once",)),
    Sabotage("exactly once: other bytes", payload_spelled_again, ("exactly once",)),
    Sabotage("region prefix: a flipped byte", flipped_byte_near, ("same prefix", "fork prefix")),
    Sabotage("region prefix: incomplete", stale_replica_taken_for_fresh, ("same prefix",)),
    Sabotage("fork prefix: lineage too long", lineage_one_too_long, ("fork prefix",)),
    Sabotage("fork prefix: lineage too short", lineage_one_too_short, ("fork prefix",)),
    Sabotage("fork prefix: boundary included", fork_behind_the_boundary, ("fork prefix",)),
    Sabotage("chain: not extended", chain_not_extended, ("chain",)),
    Sabotage("chain: encoded again", record_encoded_again, ("chain", "same prefix")),
    Sabotage("one id, two bodies", another_body_is_taken, ("first answer",)),
    Sabotage("engine order", counters_not_checked, ("refusal", "dense order")),
    Sabotage("state", pauses_not_folded, ("state",)),
)


@pytest.fixture(scope="module")
def world(topology: EmbeddedCluster) -> Iterator[World]:
    with World(topology, "sabotaged") as made:
        yield made


@pytest.mark.timeout(600)
@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda sabotage: sabotage.what)
def test_the_machine_notices(world: World, monkeypatch: pytest.MonkeyPatch, sabotage: Sabotage) -> None:
    sabotage.breaks(monkeypatch)
    with pytest.raises(Broken) as noticed:
        check_histories(world, PROFILES["default"])
    print(f"noticed as {noticed.value}")
    assert str(noticed.value).startswith(sabotage.noticed_as)
