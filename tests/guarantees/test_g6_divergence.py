"""G6: a replay against changed code goes on and says where it differs, once for each stretch. The server says it, not the executor."""

import pytest

from guarantees.test_g6_no_second_effect import diverged
from support.counting import Counting
from support.executing import Floor, find, log, types


@pytest.mark.parametrize(
    ("change", "kind", "point", "node_id", "at_seq"),
    [
        ("middle", "extra", "node.started", "new", 7),
        ("argument", "output", "node.started", "s3", 5),
        ("fewer", "missing", "node.started", "s3", 5),
        ("more", "extra", "node.started", "s7", 13),
        ("swapped", "missing", "node.started", "s3", 5),
        ("value", "output", "node.completed", "s3", 6),
    ],
)
async def test_each_change_of_code_is_reported_once_where_it_is(
    eu: Floor, change: str, kind: str, point: str, node_id: str, at_seq: int
) -> None:
    run = await eu.run("six", modules="flows.six")
    fork = await eu.fork(run, modules=f"flows.six_{change}")
    (said,) = await diverged(fork)
    assert (said["divergenceKind"], said["divergencePoint"]) == (kind, point)
    assert (said["x-isoline-node-id"], said["atSequence"]) == (node_id, at_seq)
    assert said["sourceRunId"] == run.run_id
    assert (await log(fork))[-1].type == "run.completed"


async def test_the_same_code_differs_nowhere(eu: Floor) -> None:
    run = await eu.run("six", modules="flows.six")
    for from_seq in range(14):
        assert await diverged(await eu.fork(run, from_seq=from_seq, modules="flows.six")) == [], from_seq


async def test_a_report_names_the_event_that_differs(eu: Floor) -> None:
    run = await eu.run("six", modules="flows.six")
    fork = await eu.fork(run, modules="flows.six_value")
    events = await log(fork)
    (place,) = [place for place, event in enumerate(events) if event.type == "replay.diverged"]
    said, differing = events[place], events[place - 1]
    assert (differing.type, differing.node_id) == ("node.completed", "s3")
    assert said.payload["x-replay-event-id"] == said.causation_id == differing.event_id
    assert said.payload["originalEventId"] == (await log(run))[said.payload["atSequence"]].event_id


async def test_a_refusal_where_the_source_has_an_answer_fails_the_replay(eu: Floor, outside: Counting) -> None:
    """Newer code takes no answer of the model's: nothing is substituted, the replay ends there."""
    run = await eu.run("poem", {"url": outside.url})
    fork = await eu.fork(run, modules="flows.later")
    (*_, said, ended) = await log(fork)
    assert said.type == "replay.diverged-at-refusal"
    assert (said.payload["originalEnvelopeKind"], said.payload["replayEnvelopeKind"]) == ("valid", "refusal")
    assert said.payload["nodeId"] == "poem"
    assert (ended.type, ended.payload["error"]["code"]) == ("run.failed", "replay_diverged_at_refusal")
    assert outside.count == 2


async def test_a_refusal_on_both_sides_is_no_difference(eu: Floor, outside: Counting) -> None:
    outside.answer("/model", (451, {}))
    run = await eu.run("poem", {"url": outside.url})
    assert (await find(run, "envelope.refusal", "poem"))[0].payload["refusalText"] == "not that"
    replay = await eu.fork(run)
    assert await types(replay) == await types(run)
    assert await diverged(replay) == []
    assert [hit.path for hit in outside.hits] == ["/model"]
