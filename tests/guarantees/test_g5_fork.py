"""G5: a fork shares its source's prefix. Nothing is copied, whatever its length, and the shared bytes are equal by construction."""

import pytest

from api.wire import CHAIN_START, event, events, refused, request_id
from guarantees.copies import execute
from isoline.v1 import common_pb2 as pb
from isoline_server.domain.limits import LINEAGE_RANGES_MAX

REPLAY, BRANCH = pb.FORK_MODE_REPLAY, pb.FORK_MODE_BRANCH


async def rows(url, run_id):
    """How many rows a run has of its own: (events, lineage ranges)."""
    counted = "SELECT (SELECT count(*) FROM events WHERE run_id = %s), (SELECT count(*) FROM lineage WHERE run_id = %s)"
    return (await execute(url, counted, [run_id, run_id]))[0]


def ranges(run):
    return [(part.start_seq, part.end_seq, part.origin_run_id) for part in run.lineage]


async def test_g5_a_fork_shares_its_prefix_byte_for_byte(pair):
    source = await pair["eu"].new_run(10)
    child = (await pair["us"].fork(source, 6)).run
    await pair["eu"].append(child.run_id, *events(3, child=True))
    shared, whole = await pair["eu"].read(source, 0, 6), await pair["us"].read(child.run_id)
    assert whole.records[:6] == shared.records
    assert len(whole.records) == 9
    assert (await pair["eu"].prefix(child.run_id, 6)).last == shared.last


@pytest.mark.parametrize("length", [1, 10, 3000])
async def test_g5_a_fork_takes_the_same_space_whatever_the_length_of_its_prefix(pair, service_url, length):
    source = await pair["eu"].new_run(length + 1)
    child = (await pair["us"].fork(source, length)).run.run_id
    assert await rows(service_url, child) == (0, 1)
    assert await rows(service_url, source) == (length + 1, 0)


async def test_g5_a_fork_is_pinned_by_its_source_its_seq_and_its_digest(pair):
    source = await pair["eu"].new_run(10)
    boundary = (await pair["us"].read(source, 0, 6)).last
    child = (await pair["us"].fork(source, 6, run_options_overlay=b'{"a": 1}')).run
    assert (child.fork.source_run_id, child.fork.from_seq, child.fork.prefix_digest) == (source, 6, boundary.digest)
    assert (child.fork.mode, child.fork.run_options_overlay) == (BRANCH, b'{"a": 1}')
    assert child.head == boundary
    assert ranges(child) == [(0, 6, source)]
    assert (await pair["eu"].get(child.run_id)).run == child


async def test_g5_a_fork_does_not_see_what_its_source_appends_later(pair):
    source = await pair["eu"].new_run(6)
    child = (await pair["us"].fork(source, 5)).run.run_id
    await pair["eu"].append(source, event({"later": True}))
    await pair["us"].append(child, event({"child": True}))
    assert [each.get("child") for each in (await pair["eu"].read(child)).payloads] == [None] * 5 + [True]
    assert len((await pair["us"].read(source)).records) == 7


async def test_g5_a_fork_never_writes_into_its_source(pair):
    source = await pair["eu"].new_run(6)
    before = await pair["eu"].head(source)
    child = (await pair["us"].fork(source, 3)).run.run_id
    await pair["us"].append(child, *events(5))
    assert await pair["eu"].head(source) == before


async def test_g5_a_fork_at_zero_shares_nothing(pair):
    source = await pair["eu"].new_run(3)
    child = (await pair["us"].fork(source, 0)).run
    assert (child.head.seq, child.head.digest, ranges(child)) == (-1, CHAIN_START, [])
    assert (await pair["us"].append(child.run_id, event())).first_seq == 0


async def test_g5_a_replay_without_a_seq_begins_at_zero(two):
    source = await two["eu"].new_run(3)
    child = (await two["us"].fork(source, None, REPLAY)).run
    assert (child.fork.from_seq, child.fork.mode) == (0, REPLAY)


async def test_g5_a_fork_of_a_fork_of_a_fork_names_every_origin_directly(pair):
    first = await pair["eu"].new_run(5)
    runs = [first]
    for depth in range(1, 4):
        child = (await pair["us" if depth % 2 else "eu"].fork(runs[-1], 2 + 2 * depth - 1)).run.run_id
        await pair["eu"].append(child, *events(4, depth=depth))
        runs.append(child)
    last = (await pair["us"].get(runs[-1])).run
    assert ranges(last) == [(0, 3, runs[0]), (3, 5, runs[1]), (5, 7, runs[2])]
    log = await pair["us"].read(runs[-1])
    assert [each.get("depth", 0) for each in log.payloads] == [0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 3]
    assert log.records[:7] == (await pair["eu"].read(runs[2], 0, 7)).records


async def test_g5_a_fork_inside_the_inherited_part_skips_its_parent(pair):
    first = await pair["eu"].new_run(10)
    second = (await pair["us"].fork(first, 8)).run.run_id
    await pair["us"].append(second, *events(3))
    third = (await pair["eu"].fork(second, 4)).run
    assert third.fork.source_run_id == second
    assert ranges(third) == [(0, 4, first)]


async def test_g5_lineage_has_a_depth_limit_that_is_said(two):
    run_id = await two["eu"].new_run(2)
    for depth in range(1, LINEAGE_RANGES_MAX + 1):
        run = (await two["us"].fork(run_id, depth)).run
        run_id = run.run_id
        await two["us"].append(run_id, *events(2))
    assert len(run.lineage) == LINEAGE_RANGES_MAX
    told = await refused(two["eu"].fork(run_id, LINEAGE_RANGES_MAX + 1))
    assert (told.code.name, told.reason) == ("FAILED_PRECONDITION", "LINEAGE_TOO_DEEP")
    assert (told.metadata["ranges"], told.metadata["limit"]) == (str(LINEAGE_RANGES_MAX + 1), str(LINEAGE_RANGES_MAX))
    assert len((await two["eu"].read(run_id)).records) == LINEAGE_RANGES_MAX + 2


async def test_g5_forks_may_begin_at_every_event_and_reads_may_begin_anywhere_in_them(two):
    source = await two["eu"].new_run(4)
    for from_seq in range(4):
        child = (await two["us"].fork(source, from_seq)).run.run_id
        await two["us"].append(child, *events(2))
        whole = (await two["eu"].read(child)).records
        for start in range(len(whole) + 1):
            assert (await two["us"].read(child, start)).records == whole[start:]


async def test_g5_a_fork_may_live_in_another_region_than_its_source(two):
    source = await two["eu"].new_run(3, home_region="eu")
    child = (await two["eu"].fork(source, 2, home_region="us")).run
    assert (child.home_region, child.run_id.split("/")[1][:3]) == ("us", "us-")
    assert (await two["eu"].append(child.run_id, event())).first_seq == 2


async def test_g5_a_fork_of_an_ended_run_may_begin_at_its_end_and_goes_on(two):
    source = await two["eu"].new_run(2)
    await two["eu"].append(source, event({"outputs": {}}, "run.completed"))
    child = (await two["us"].fork(source, 2)).run
    assert not child.HasField("terminal_seq")
    assert (await two["us"].append(child.run_id, event({}, "node.started", node_id="a"))).first_seq == 2


async def test_g5_a_fork_right_behind_an_append_that_another_server_made_is_possible(two):
    source = await two["eu"].new_run(1)
    await two["us"].get(source)
    await two["eu"].append(source, *events(3))
    assert (await two["us"].fork(source, 3)).run.head.seq == 2


# -- refusals ------------------------------------------------------------------------------------------------------------------------


async def count_runs(wire):
    return len((await wire.list(page_size=1000)).runs)


async def refused_fork(two, source, *args, **fields):
    """The refusal, after checking that nothing was made of it."""
    fields = {"request_id": request_id(), **fields}
    before = await count_runs(two["eu"])
    told = await refused(two["us"].fork(source, *args, **fields))
    assert await count_runs(two["eu"]) == before
    return told


@pytest.mark.parametrize("mode", [REPLAY, BRANCH])
@pytest.mark.parametrize("from_seq", [4, 5, 999_999, 2**53 - 1])
async def test_g5_no_fork_begins_where_the_source_has_no_event(two, from_seq, mode):
    source = await two["eu"].new_run(4)
    told = await refused_fork(two, source, from_seq, mode)
    assert (told.code.name, told.reason) == ("FAILED_PRECONDITION", "FORK_POINT_INVALID")
    assert (told.metadata["from_seq"], told.metadata["last_seq"]) == (str(from_seq), "3")


@pytest.mark.parametrize("from_seq", [-1, -(2**63), 2**53, 2**63 - 1])
async def test_g5_a_fork_point_that_is_no_seq_is_refused(two, from_seq):
    told = await refused_fork(two, await two["eu"].new_run(4), from_seq)
    assert (told.code.name, told.field) == ("INVALID_ARGUMENT", "from_seq")


async def test_g5_an_empty_run_cannot_be_forked(two):
    told = await refused_fork(two, await two["eu"].new_run(), 0)
    assert told.reason == "FORK_POINT_INVALID"


async def test_g5_a_branch_must_say_where_it_begins(two):
    told = await refused_fork(two, await two["eu"].new_run(4), None, BRANCH)
    assert (told.code.name, told.field) == ("INVALID_ARGUMENT", "from_seq")


@pytest.mark.parametrize("mode", [0, 3])
async def test_g5_a_fork_needs_a_mode(two, mode):
    told = await refused_fork(two, await two["eu"].new_run(4), 1, mode)
    assert (told.code.name, told.field) == ("INVALID_ARGUMENT", "mode")


async def test_g5_a_replay_takes_no_overlay(two):
    told = await refused_fork(two, await two["eu"].new_run(4), 1, REPLAY, run_options_overlay=b'{"a":1}')
    assert (told.code.name, told.reason, told.field) == (
        "INVALID_ARGUMENT",
        "OVERLAY_NOT_ALLOWED",
        "run_options_overlay",
    )


@pytest.mark.parametrize("overlay", [b"", b"{}", b"{ }"])
async def test_g5_a_replay_takes_an_empty_overlay(two, overlay):
    source = await two["eu"].new_run(4)
    assert (await two["us"].fork(source, 1, REPLAY, run_options_overlay=overlay)).run.fork.mode == REPLAY


@pytest.mark.parametrize("overlay", [b"[]", b"{", b'{"a":NaN}', b"\xff"])
async def test_g5_an_overlay_must_be_a_json_object(two, overlay):
    told = await refused_fork(two, await two["eu"].new_run(4), 1, run_options_overlay=overlay)
    assert (told.code.name, told.field) == ("INVALID_ARGUMENT", "run_options_overlay")


@pytest.mark.parametrize("mode", [REPLAY, BRANCH])
async def test_g5_no_fork_begins_behind_a_terminal_event(two, mode):
    source = await two["eu"].new_run(2)
    await two["eu"].append(
        source, event({}, "run.failed"), event({}, "compensation.started"), event({}, "compensation.completed")
    )
    told = await refused_fork(two, source, 3, mode)
    assert (told.reason, told.metadata["from_seq"]) == ("FORK_POINT_INVALID", "3")
    assert (await two["us"].fork(source, 2, mode)).run.head.seq == 1


async def test_g5_a_prefix_that_the_caller_did_not_expect_is_refused(two):
    source, other = await two["eu"].new_run(4), await two["eu"].new_run(4)
    expected = (await two["eu"].prefix(other, 2)).last.digest
    told = await refused_fork(two, source, 2, expected_prefix_digest=expected)
    assert (told.code.name, told.reason) == ("FAILED_PRECONDITION", "PREFIX_MISMATCH")
    assert (told.metadata["seq"], told.metadata["expected_digest"]) == ("1", expected.hex())


async def test_g5_a_prefix_that_the_caller_expects_is_accepted(two):
    source = await two["eu"].new_run(4)
    expected = (await two["eu"].prefix(source, 2)).last.digest
    assert (await two["us"].fork(source, 2, expected_prefix_digest=expected)).run.head.digest == expected


async def test_g5_an_expected_digest_has_32_bytes(two):
    told = await refused_fork(two, await two["eu"].new_run(4), 2, expected_prefix_digest=b"short")
    assert (told.code.name, told.field) == ("INVALID_ARGUMENT", "expected_prefix_digest")


async def test_g5_a_region_that_is_not_of_the_service_holds_no_fork(two):
    told = await refused_fork(two, await two["eu"].new_run(4), 2, home_region="mars")
    assert (told.code.name, told.field) == ("INVALID_ARGUMENT", "home_region")


async def test_g5_forks_of_one_source_show_no_difference_before_they_part(two):
    source = await two["eu"].new_run(6)
    a, b = [(await two[region].fork(source, 4)).run.run_id for region in ("eu", "us")]
    diff = await two["eu"].diff(a, b)
    assert (diff.shared_events, diff.HasField("diverged_at_seq"), list(diff.event_diffs)) == (4, False, [])
    await two["us"].append(a, event({"n": 1}))
    await two["us"].append(b, event({"n": 2}))
    assert (await two["eu"].diff(a, b)).diverged_at_seq == 4
