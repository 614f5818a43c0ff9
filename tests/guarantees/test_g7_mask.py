"""G7: two replays are equal but for what they declare. Behind the boundary stamps and declared values are masked; before it, nothing is."""

import pytest

from api.wire import event, events, refused
from guarantees.replays import END, RUN, SIX, completed, replay_of, source_of, started, step, steps
from isoline.v1 import log_service_pb2 as log_pb


def drew(node, value, outputs=1):
    """A completion that declares what it drew from the clock."""
    return event(
        {"nodeId": node, "outputs": outputs, "draws": [value]}, "node.completed", node_id=node, masked=["/draws/0"]
    )


async def compare(wire, a, b):
    return await wire.call("CompareForks", log_pb.CompareForksRequest(a_run_id=a, b_run_id=b))


def verdicts(found):
    return found.prefix_equal, found.raw_suffix_equal, found.masked_equal


async def replayed(wire, source, from_seq, *new):
    fork = await replay_of(wire, source, from_seq)
    await wire.append(fork, *new)
    return fork


async def test_g7_two_replays_differ_by_their_stamps_only(pair):
    source = await source_of(pair["eu"])
    forks = [await replayed(pair[region], source, 5, *SIX[5:]) for region in ("eu", "us")]
    found = await compare(pair["us"], *forks)
    assert verdicts(found) == (True, False, True)
    assert (found.from_seq, found.compared_events, found.matched_events) == (5, 9, 9)
    assert not found.HasField("first_divergence_seq")
    assert not found.truncated


async def test_g7_a_run_compared_with_its_replay(pair):
    source = await source_of(pair["eu"])
    found = await compare(pair["us"], source, await replayed(pair["us"], source, 0, *SIX))
    assert (found.from_seq, *verdicts(found), found.matched_events) == (0, True, False, True, 14)


async def test_g7_declared_values_may_differ_behind_the_boundary(pair):
    source = await source_of(pair["eu"], [RUN, started("a"), drew("a", 1), END])
    forks = [await replayed(pair["us"], source, 2, drew("a", value), END) for value in (2, 3)]
    assert verdicts(await compare(pair["us"], *forks)) == (True, False, True)


async def test_g7_nothing_else_may_differ(pair):
    source = await source_of(pair["eu"], [RUN, started("a"), drew("a", 1), END])
    forks = [await replayed(pair["us"], source, 2, drew("a", 1, outputs), END) for outputs in (1, 2)]
    found = await compare(pair["us"], *forks)
    assert verdicts(found) == (True, False, False)
    assert (found.first_divergence_seq, found.compared_events, found.matched_events) == (2, 3, 0)


async def test_g7_the_mask_never_reaches_before_the_boundary(pair):
    """Two sources that differ in a declared value only: their forks' prefixes differ, though behind a mask they would not."""
    forks = []
    for value in (1, 2):
        source = await source_of(pair["eu"], [RUN, started("a"), drew("a", value), *step("b"), END])
        forks.append(await replayed(pair["us"], source, 4, completed("b"), END))
    assert verdicts(await compare(pair["us"], *forks)) == (False, False, True)


async def test_g7_of_two_boundaries_the_earlier_counts(pair):
    source = await source_of(pair["eu"], [RUN, started("a"), drew("a", 1), *step("b"), END])
    early = await replayed(pair["us"], source, 2, drew("a", 2), *step("b"), END)
    late = await replayed(pair["us"], source, 4, completed("b"), END)
    found = await compare(pair["us"], late, early)
    assert (found.from_seq, *verdicts(found), found.matched_events) == (2, True, False, True, 4)


async def test_g7_the_prefix_is_shared_and_the_suffix_is_the_same_bytes_of_one_run(two):
    source = await source_of(two["eu"])
    fork = await replayed(two["us"], source, 5, *SIX[5:])
    assert verdicts(await compare(two["us"], fork, fork)) == (True, True, True)


async def test_g7_two_replays_that_diverge_alike_are_equal(two):
    source = await source_of(two["eu"])
    forks = [await replayed(two["us"], source, 0, RUN, *step("a", 2), *steps("bcdef"), END) for _ in range(2)]
    assert verdicts(await compare(two["us"], *forks)) == (True, False, True)


@pytest.mark.parametrize("shorter", ["a", "b"])
async def test_g7_an_event_more_is_a_difference_once_both_have_ended(two, shorter):
    source = await source_of(two["eu"], [RUN, *steps("ab"), END])
    whole = await replayed(two["us"], source, 1, *steps("ab"), END)
    short = await replayed(two["us"], source, 1, *steps("a"), END)
    found = await compare(two["us"], *((short, whole) if shorter == "a" else (whole, short)))
    assert not found.masked_equal
    assert (found.first_divergence_seq, found.truncated) == (3, False)


async def test_g7_an_open_run_is_compared_as_far_as_it_goes(two):
    source = await source_of(two["eu"])
    ended = await replayed(two["us"], source, 0, *SIX)
    still_open = await replayed(two["us"], source, 0, *SIX[:6])
    found = await compare(two["us"], ended, still_open)
    assert (*verdicts(found), found.compared_events, found.truncated) == (True, False, True, 6, True)


async def test_g7_a_mask_over_more_pages_than_one(two):
    source = await two["eu"].new_run(2)
    forks = []
    for at in (1, 2):
        fork = (await two["us"].fork(source, 1)).run.run_id
        for first in range(0, 5000, 1000):
            many = [event({"n": n, "at": at}, masked=["/at"]) for n in range(first, first + 1000)]
            await two["us"].append(fork, *many)
        forks.append(fork)
    found = await compare(two["us"], *forks)
    assert (*verdicts(found), found.compared_events) == (True, False, True, 5000)


async def test_g7_two_runs_that_are_no_forks_have_no_boundary(two):
    runs = [await two["eu"].new_run(2) for _ in range(2)]
    assert (await refused(compare(two["eu"], *runs))).field == "b_run_id"
    branches = [(await two["us"].fork(runs[0], 1)).run.run_id for _ in range(2)]
    for branch in branches:
        await two["us"].append(branch, *events(2))
    assert verdicts(await compare(two["us"], *branches)) == (True, False, True)
