"""G3: a region serves from its own replica what is complete and verifies there, and else from the leader. A replica may be slow to help,
never wrong; only the leader may say that something does not exist."""

import asyncio
import time

import grpc
import pytest
from structlog.testing import capture_logs

from api.wire import SOON_S, TIMEOUT_S, UNKNOWN_RUN, chain, event, events, refused
from guarantees.copies import DELETE_EVENT, FLIP_DIGEST, FLIP_RECORD, REWRITE
from isoline.v1 import common_pb2 as pb
from isoline.v1 import log_service_pb2 as log_pb
from isoline_server import telemetry
from support.waiting import eventually

LOCAL = pb.FRESHNESS_LOCAL


# -- standbys ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.topology
async def test_g3_every_region_serves_the_same_bytes_from_its_own_replica(world):
    run_id = await world["us"].new_run(50)
    world.caught_up()
    logs = [await world[region].read(run_id) for region in ("eu", "us", "ap")]
    assert [log.sources for log in logs] == [["LOCAL"]] * 3
    assert logs[0].records == logs[1].records == logs[2].records


@pytest.mark.topology
async def test_g3_a_replica_that_lags_is_passed_over(world):
    run_id = await world["us"].new_run(5)
    world.caught_up()
    world.cluster.pause_replay("us")
    await world["eu"].append(run_id, *events(5))
    whole, old = await world["us"].read(run_id, 5), await world["us"].read(run_id, 0, 5)
    assert (whole.sources, len(whole.records)) == (["LEADER"], 5)
    assert old.sources == ["LOCAL"]
    assert whole.records == (await world["eu"].read(run_id, 5)).records


@pytest.mark.topology
async def test_g3_a_replica_that_holds_a_part_serves_that_part(world):
    run_id = await world["us"].new_run(5)
    world.caught_up()
    world.cluster.pause_replay("us")
    await world["eu"].append(run_id, *events(5))
    log = await world["us"].read(run_id)
    assert log.sources == ["LOCAL", "LEADER"]
    assert [page.first_seq for page in log.pages] == [0, 5]
    assert log.last == await world["eu"].head(run_id)


@pytest.mark.topology
async def test_g3_a_replica_that_caught_up_serves_again(world):
    run_id = await world["us"].new_run(1)
    world.cluster.pause_replay("us")
    await world["eu"].append(run_id, event())
    assert "LEADER" in (await world["us"].read(run_id)).sources
    world.cluster.resume_replay("us")
    world.caught_up()
    assert (await world["us"].read(run_id)).sources == ["LOCAL"]


@pytest.mark.topology
async def test_g3_a_run_that_a_lagging_replica_does_not_show_exists(world):
    world.caught_up()
    world.cluster.pause_replay("us")
    run_id = await world["eu"].new_run(2)
    assert pb.Source.Name((await world["us"].get(run_id, LOCAL)).source) == "SOURCE_LEADER"
    assert len((await world["us"].read(run_id, freshness=LOCAL)).records) == 2
    assert (await world["us"].state(run_id, freshness=LOCAL)).at_seq == 2


@pytest.mark.topology
async def test_g3_a_local_read_of_a_lagging_replica_says_where_it_ends(world):
    run_id = await world["us"].new_run(5)
    world.caught_up()
    world.cluster.pause_replay("us")
    await world["eu"].append(run_id, event())
    local = await world["us"].get(run_id, LOCAL)
    assert (local.run.head.seq, pb.Source.Name(local.source)) == (4, "SOURCE_LOCAL")
    assert (await world["us"].get(run_id)).run.head.seq == 5
    assert (await world["us"].read(run_id, freshness=LOCAL)).last.seq == 4


@pytest.mark.topology
async def test_g3_a_seq_beyond_a_lagging_replica_is_not_said_to_be_outside_the_log(world):
    """What a caller saw elsewhere exists, though the replica of this region does not show it yet."""
    run_id = await world["us"].new_run(5)
    world.caught_up()
    world.cluster.pause_replay("us")
    await world["us"].get(run_id, LOCAL)
    last = (await world["eu"].append(run_id, *events(5))).last
    assert (await world["us"].read(run_id, 8, freshness=LOCAL)).last == last
    assert (await world["us"].read(run_id, 0, 3, known=last)).last.seq == 2
    assert (await world["us"].read(run_id, 10, freshness=LOCAL, known=last)).last == last


@pytest.mark.topology
async def test_g3_a_tail_in_any_region_gives_every_event_once_and_in_order(world):
    run_id = await world["eu"].new_run(2)
    tails = [world[region].tail(run_id, stop_at_terminal=True) for region in ("eu", "us", "ap")]
    following = [asyncio.ensure_future(follow(tail)) for tail in tails]
    for n in range(10):
        await asyncio.gather(world["us"].append(run_id, event({"n": n})), world["eu"].append(run_id, event({"n": n})))
    await world["ap"].append(run_id, event({"outputs": {}}, "run.completed"))
    records = (await world["eu"].read(run_id)).records
    assert len(records) == 23
    assert await asyncio.gather(*following) == [records] * 3


async def follow(tail):
    return [record async for step in tail for record in step.page.records]


@pytest.mark.topology
async def test_g3_a_live_tail_beside_a_lagging_replica_goes_on(world):
    run_id = await world["eu"].new_run(2)
    world.caught_up()
    tail = aiter(world["us"].tail(run_id))
    first = await anext(tail)
    world.cluster.pause_replay("us")
    await world["eu"].append(run_id, *events(3))
    async with asyncio.timeout(TIMEOUT_S):
        second = await anext(tail)
    assert [len(step.page.records) for step in (first, second)] == [2, 3]
    assert second.page.last == await world["eu"].head(run_id)


@pytest.mark.topology
async def test_g3_with_the_leader_down_a_lagging_replica_says_that_it_may_be_behind(world):
    run_id = await world["eu"].new_run(3)
    world.caught_up()
    world.cluster.pause_replay("us")
    await world["eu"].append(run_id, *events(2))
    world.cluster.kill("primary")
    log = await world["us"].read(run_id)
    assert (len(log.records), log.sources) == (3, ["STALE"])


@pytest.mark.topology
async def test_g3_with_the_leader_down_known_ranges_are_still_served(world):
    run_id = await world["eu"].new_run(20)
    records = (await world["eu"].read(run_id)).records
    world.caught_up()
    world.cluster.kill("primary")
    for region in ("us", "ap"):
        log = await world[region].read(run_id, 0, 20)
        assert (log.records, log.sources) == (records, ["LOCAL"])


@pytest.mark.topology
async def test_g3_with_the_leader_down_the_newest_local_head_is_tagged_stale(world):
    run_id = await world["eu"].new_run(3)
    world.caught_up()
    world.cluster.kill("primary")
    found = await world["us"].get(run_id)
    assert (found.run.head.seq, pb.Source.Name(found.source)) == (2, "SOURCE_STALE")
    for answer in (await world["us"].state(run_id), await world["us"].prefix(run_id)):
        assert pb.Source.Name(answer.source) == "SOURCE_STALE"
    assert (await world["us"].read(run_id)).sources == ["STALE"]


@pytest.mark.topology
async def test_g3_a_stale_answer_says_how_old_it_may_be(world):
    """Never younger than it is: what was appended after the replica stood still is not in it, and its age reaches back to then."""
    run_id = await world["eu"].new_run(3)
    world.caught_up()
    world.cluster.pause_replay("us")
    since_s = time.monotonic()
    await world["eu"].append(run_id, *events(2))
    fresh = await world["us"].get(run_id)
    assert not fresh.HasField("staleness_ms")
    world.cluster.kill("primary")
    for ask in (world["us"].get, world["us"].state, world["us"].prefix):
        least_ms = (time.monotonic() - since_s) * 1000
        answer = await ask(run_id)
        assert pb.Source.Name(answer.source) == "SOURCE_STALE"
        assert answer.staleness_ms >= least_ms
    (page,) = (await world["us"].read(run_id)).pages
    assert (len(page.records), page.staleness_ms >= least_ms) == (3, True)


@pytest.mark.topology
async def test_g3_with_the_leader_down_the_state_of_a_known_range_is_served(world):
    run_id = await world["eu"].new_run(3)
    before = await world["eu"].state(run_id, 3)
    world.caught_up()
    world.cluster.kill("primary")
    state = await world["us"].state(run_id, 3)
    assert (state.state, state.prefix_digest, pb.Source.Name(state.source)) == (
        before.state,
        before.prefix_digest,
        "SOURCE_LOCAL",
    )


@pytest.mark.topology
async def test_g3_with_the_leader_down_nothing_is_said_not_to_exist(world):
    run_id = await world["eu"].new_run(3)
    world.caught_up()
    world.cluster.kill("primary")
    us = world["us"]
    last = (await us.get(run_id)).run.head
    asked = {
        "a run": us.get(UNKNOWN_RUN),
        "a longer range": us.read(run_id, 0, 9),
        "a later start": us.read(run_id, 9),
        "a later position": us.read(run_id, 0, 3, known=pb.Position(seq=9, digest=last.digest)),
        "a later state": us.state(run_id, 9),
        "a later fork point": us.fork(run_id, 9),
    }
    told = {name: await refused(call) for name, call in asked.items()}
    assert {name: refusal.code.name for name, refusal in told.items()} == dict.fromkeys(asked, "UNAVAILABLE")


@pytest.mark.topology
async def test_g3_with_the_leader_down_a_tail_beyond_the_replica_is_not_said_to_be_outside_the_log(world):
    run_id = await world["eu"].new_run(3)
    world.caught_up()
    world.cluster.kill("primary")
    told = await refused(world["us"].tail(run_id, 9).read())
    assert told.code is grpc.StatusCode.UNAVAILABLE


@pytest.mark.topology
@pytest.mark.parametrize(
    "write",
    [
        lambda world, run_id: world["us"].append(run_id, event(), timeout_s=SOON_S),
        lambda world, run_id: world["eu"].create(timeout_s=SOON_S),
        lambda world, run_id: world["us"].fork(run_id, 0, timeout_s=SOON_S),
    ],
    ids=["append", "create", "fork"],
)
async def test_g3_with_the_leader_down_writes_are_refused_as_unavailable_or_unknown(world, early, write):
    run_id = await world["eu"].new_run(1)
    world.caught_up()
    world.cluster.kill("primary")
    told = await refused(write(world, run_id))
    assert told.code is grpc.StatusCode.UNAVAILABLE
    assert told.reason in {"STORE_UNAVAILABLE", "OUTCOME_UNKNOWN"}


@pytest.mark.topology
async def test_g3_with_the_leader_back_writes_go_on(world):
    run_id = await world["eu"].new_run(1)
    world.cluster.kill("primary")
    appending = asyncio.ensure_future(world["us"].append(run_id, event(), expected_seq=1))
    world.cluster.restart("primary")
    assert (await appending).last.seq == 1


# -- a replica that is damaged -------------------------------------------------------------------------------------------------------


class Counted:
    """Stands in for a counter of the telemetry."""

    def __init__(self):
        self.sources = []

    def add(self, amount, attributes):
        self.sources += [attributes[telemetry.SOURCE]] * amount


@pytest.fixture
def chain_breaks(monkeypatch):
    counted = Counted()
    monkeypatch.setattr(telemetry, "chain_breaks", counted)
    return counted


async def copied_run(copied, near_and_far, many=10):
    run_id = await copied["eu"].new_run(many)
    await near_and_far.refresh()
    await eventually(lambda: is_local(copied, run_id), what="the copy is read")
    return run_id


async def is_local(copied, run_id):
    return (await copied["us"].read(run_id, 0, 1)).sources == ["LOCAL"]


async def test_g3_an_intact_copy_is_served_as_local(copied, near_and_far, chain_breaks):
    run_id = await copied_run(copied, near_and_far)
    assert (await copied["us"].read(run_id)).sources == ["LOCAL"]
    assert chain_breaks.sources == []


@pytest.mark.parametrize("damage", [FLIP_RECORD, FLIP_DIGEST, DELETE_EVENT], ids=["record", "digest", "hole"])
@pytest.mark.parametrize("seq", [0, 6, 9])
async def test_g3_a_damaged_replica_is_passed_over_with_the_same_bytes(copied, near_and_far, damage, seq):
    run_id = await copied_run(copied, near_and_far)
    await near_and_far.damage(damage, run_id, seq)
    assert (await copied["us"].read(run_id)).records == (await copied["eu"].read(run_id)).records


@pytest.mark.parametrize("damage", [FLIP_RECORD, FLIP_DIGEST, DELETE_EVENT], ids=["record", "digest", "hole"])
async def test_g3_a_read_that_begins_behind_damage_serves_the_same_bytes(copied, near_and_far, damage):
    run_id = await copied_run(copied, near_and_far)
    await near_and_far.damage(damage, run_id, 3)
    assert (await copied["us"].read(run_id, 4)).records == (await copied["eu"].read(run_id, 4)).records


async def test_g3_damage_is_reported_with_the_run_and_the_seq(copied, near_and_far, chain_breaks):
    run_id = await copied_run(copied, near_and_far)
    await near_and_far.damage(FLIP_RECORD, run_id, 6)
    with capture_logs() as logs:
        assert (await copied["us"].read(run_id)).sources == ["LEADER"]
    assert chain_breaks.sources == ["local"]
    assert [
        (line["event"], line["run_id"], line["seq"], line["source"]) for line in logs if line["log_level"] == "error"
    ] == [("chain broken", run_id, 6, "local")]


async def test_g3_a_state_is_never_folded_from_damaged_records(copied, near_and_far):
    run_id = await copied_run(copied, near_and_far)
    await near_and_far.damage(FLIP_RECORD, run_id, 2)
    eu, us = await copied["eu"].state(run_id), await copied["us"].state(run_id)
    assert (us.state, us.prefix_digest) == (eu.state, eu.prefix_digest)
    assert pb.Source.Name(us.source) == "SOURCE_LEADER"


async def test_g3_a_recomputed_prefix_is_right_on_a_damaged_replica(copied, near_and_far):
    run_id = await copied_run(copied, near_and_far)
    await near_and_far.damage(FLIP_DIGEST, run_id, 9)
    assert (await copied["us"].prefix(run_id, recompute=True)).last == await copied["eu"].head(run_id)


async def test_g3_a_fork_through_a_damaged_replica_is_pinned_by_the_true_digest(copied, near_and_far):
    run_id = await copied_run(copied, near_and_far)
    await near_and_far.damage(FLIP_DIGEST, run_id, 4)
    child = (await copied["us"].fork(run_id, 5)).run
    assert child.head.digest == chain((await copied["eu"].read(run_id, 0, 5)).records)
    await copied["us"].append(child.run_id, event())
    assert len((await copied["eu"].read(child.run_id)).records) == 6


async def test_g3_a_repeated_fork_through_a_damaged_replica_gets_the_true_digest(copied, near_and_far):
    run_id = await copied_run(copied, near_and_far)
    first = await copied["eu"].fork(run_id, 5, request_id="the-fork-of-a-damaged-run")
    await near_and_far.damage(FLIP_DIGEST, run_id, 4)
    again = await copied["us"].fork(run_id, 5, request_id="the-fork-of-a-damaged-run")
    assert (again.repeated, again.run) == (True, first.run)


async def test_g3_a_replica_with_another_history_is_passed_over(copied, near_and_far):
    """A replica that is not one of this service: its chain verifies, but it does not lead to the head that the leader has."""
    run_id = await copied_run(copied, near_and_far, many=2)
    records = (await copied["eu"].read(run_id)).records
    other = [record[:-1] + b"!" for record in records]
    for seq, record in enumerate(other):
        await near_and_far.damage(REWRITE, record, chain(other[: seq + 1]), run_id, seq)
    assert (await copied["us"].read(run_id)).records == records


async def test_g3_a_replica_whose_other_history_shows_only_at_its_end_is_found_out(copied, near_and_far):
    """Its first page was served by then, so the read must fail rather than go on with the true history."""
    run_id = await copied["eu"].new_run()
    for n in range(2):
        await copied["eu"].append(run_id, event({"n": n, "filler": "x" * 600_000}))
    await near_and_far.refresh()
    other = [record[:-1] + b"!" for record in (await copied["eu"].read(run_id)).records]
    for seq, record in enumerate(other):
        await near_and_far.damage(REWRITE, record, chain(other[: seq + 1]), run_id, seq)
    told = await refused(copied["us"].read(run_id))
    assert (told.reason, told.metadata["seq"], told.metadata["source"]) == ("CHAIN_BROKEN", "0", "local")


async def test_g3_a_replica_that_answers_with_an_error_is_passed_over(copied, near_and_far):
    """Such as one whose pages fail their checksums, or that has not received a new table yet."""
    run_id = await copied_run(copied, near_and_far)
    await near_and_far.damage("ALTER TABLE events RENAME TO unreadable")
    try:
        assert (await copied["us"].read(run_id)).sources == ["LEADER"]
        assert len((await copied["us"].state(run_id)).state) > 0
    finally:
        await near_and_far.damage("ALTER TABLE unreadable RENAME TO events")


async def test_g3_when_the_leader_is_damaged_too_nothing_is_served(copied, near_and_far, chain_breaks):
    run_id = await copied_run(copied, near_and_far)
    await near_and_far.damage_leader(FLIP_RECORD, run_id, 6)
    await near_and_far.damage(FLIP_RECORD, run_id, 6)
    first_page = copied["us"].call("ReadEvents", log_pb.ReadEventsRequest(run_id=run_id)).read()
    told = await refused(first_page)
    assert (told.code, told.reason) == (grpc.StatusCode.DATA_LOSS, "CHAIN_BROKEN")
    assert (told.metadata["seq"], told.metadata["run_id"], told.metadata["source"]) == ("6", run_id, "leader")
    assert "leader" in chain_breaks.sources


async def test_g3_a_damaged_leader_does_not_keep_an_intact_replica_from_serving(copied, near_and_far):
    run_id = await copied_run(copied, near_and_far)
    records = (await copied["us"].read(run_id)).records
    await near_and_far.damage_leader(FLIP_RECORD, run_id, 6)
    assert (await copied["us"].read(run_id)).records == records
    assert (await refused(copied["eu"].read(run_id))).reason == "CHAIN_BROKEN"


async def test_g3_records_before_the_damage_are_still_served(copied, near_and_far):
    run_id = await copied_run(copied, near_and_far)
    await near_and_far.damage_leader(FLIP_RECORD, run_id, 6)
    await near_and_far.damage(FLIP_RECORD, run_id, 6)
    assert len((await copied["us"].read(run_id, 0, 6)).records) == 6


async def test_g3_a_hole_in_the_leader_is_named(copied, near_and_far):
    run_id = await copied_run(copied, near_and_far)
    await near_and_far.damage_leader(DELETE_EVENT, run_id, 4)
    told = await refused(copied["eu"].read(run_id))
    assert (told.reason, told.metadata["seq"]) == ("CHAIN_BROKEN", "4")


async def test_g3_a_state_over_a_damaged_leader_is_refused(copied, near_and_far):
    run_id = await copied_run(copied, near_and_far)
    await near_and_far.damage_leader(FLIP_RECORD, run_id, 6)
    told = await refused(copied["eu"].state(run_id))
    assert (told.reason, told.metadata["seq"]) == ("CHAIN_BROKEN", "6")


# -- positions ---------------------------------------------------------------------------------------------------------------------


async def test_g3_an_answer_extends_a_position_seen_in_another_region(two):
    run_id = await two["eu"].new_run(10)
    seen = (await two["eu"].read(run_id, 0, 6)).last
    log = await two["us"].read(run_id, 6, known=seen)
    assert log.pages[0].before == seen


async def test_g3_a_position_of_another_history_is_refused(two):
    run_id, other = await two["eu"].new_run(10), await two["eu"].new_run(10)
    seen = (await two["eu"].read(other, 0, 6)).last
    told = await refused(two["us"].read(run_id, 6, known=seen))
    assert (told.code, told.reason, told.metadata["seq"]) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "PREFIX_MISMATCH",
        "5",
    )


async def test_g3_every_read_takes_a_position_seen_elsewhere(two):
    run_id, other = await two["eu"].new_run(10), await two["eu"].new_run(10)
    own, foreign = (await two["eu"].read(run_id, 0, 6)).last, (await two["eu"].read(other, 0, 6)).last
    for ask in (two["us"].get, two["us"].state, two["us"].prefix, two["us"].read):
        await ask(run_id, known=own)
        told = await refused(ask(run_id, known=foreign))
        assert (told.reason, told.metadata["seq"]) == ("PREFIX_MISMATCH", "5")


async def test_g3_unknown_runs_are_not_found_by_a_fresh_read(two):
    for call in (
        two["us"].get(UNKNOWN_RUN),
        two["us"].get(UNKNOWN_RUN, LOCAL),
        two["us"].read(UNKNOWN_RUN),
        two["us"].state(UNKNOWN_RUN),
    ):
        assert (await refused(call)).code is grpc.StatusCode.NOT_FOUND
    stream = two["us"].tail(UNKNOWN_RUN, timeout_s=TIMEOUT_S)
    assert (await refused(stream.read())).code is grpc.StatusCode.NOT_FOUND
