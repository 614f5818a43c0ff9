"""G4: status, variables and channels at a seq are a pure fold of the prefix, byte-equal everywhere."""

import asyncio
import json
from hashlib import sha256

import pytest
import rfc8785

from api.wire import event
from guarantees.copies import execute
from isoline.v1 import common_pb2 as pb
from isoline_server.domain.limits import SNAPSHOT_EVERY_EVENTS
from support.waiting import eventually

STEPS = [
    event({"inputs": {"city": "Zürich", "n": 1.0}}, "run.started"),
    event({"typeId": "roll"}, "node.started", node_id="a"),
    event({"name": "dice", "next": 4}, "variable.changed"),
    event({"channel": "notes", "reducer": "append", "value": "one", "seq": 0}, "channel.written"),
    event({"outputs": {}}, "node.completed", node_id="a"),
    event({"name": "city"}, "variable.changed"),
    event({"channel": "notes", "reducer": "append", "value": "two", "seq": 1}, "channel.written"),
    event({"outputs": {"done": True}}, "run.completed"),
]


async def story(wire):
    run_id = await wire.new_run()
    await wire.append(run_id, *STEPS)
    return run_id


def told(state):
    return state.at_seq, state.state, state.state_digest, state.prefix_digest


@pytest.mark.topology
@pytest.mark.parametrize("at_seq", range(len(STEPS) + 1))
async def test_g4_the_state_is_byte_equal_from_three_regions(world, at_seq):
    run_id = await story(world["us"])
    world.caught_up()
    states = [await world[region].state(run_id, at_seq) for region in ("eu", "us", "ap")]
    assert told(states[0]) == told(states[1]) == told(states[2])
    assert {pb.Source.Name(state.source) for state in states} == {"SOURCE_LOCAL"}


@pytest.mark.parametrize("from_seq", range(len(STEPS)))
async def test_g4_a_fork_begins_with_the_state_of_its_source(two, from_seq):
    run_id = await story(two["eu"])
    child = (await two["us"].fork(run_id, from_seq)).run.run_id
    assert told(await two["eu"].state(child)) == told(await two["us"].state(run_id, from_seq))


async def test_g4_the_state_is_what_the_events_say(two):
    run_id = await story(two["eu"])
    state = json.loads((await two["us"].state(run_id)).state)
    assert state == {"status": "completed", "variables": {"dice": 4, "n": 1}, "channels": {"notes": ["one", "two"]}}
    assert json.loads((await two["us"].state(run_id, 5)).state)["variables"] == {"city": "Zürich", "dice": 4, "n": 1}


async def test_g4_a_state_is_canonical_json_with_its_digest(two):
    state = await two["eu"].state(await story(two["us"]), 5)
    assert state.state == rfc8785.dumps(json.loads(state.state))
    assert state.state_digest == sha256(state.state).digest()


async def test_g4_a_state_names_the_prefix_that_was_folded(two):
    run_id = await story(two["eu"])
    assert (await two["us"].state(run_id, 5)).prefix_digest == (await two["us"].prefix(run_id, 5)).last.digest


async def test_g4_the_payload_spelling_does_not_change_the_state(two):
    spellings = (b'{"inputs":{"b":1,"a":10}}', b'{ "inputs" : {"a":1e1, "\\u0062" : 1.0} }')
    states = []
    for payload in spellings:
        run_id = await two["eu"].new_run()
        await two["eu"].append(run_id, event(payload, "run.started"))
        states.append((await two["us"].state(run_id)).state)
    assert states[0] == states[1]


async def test_g4_the_empty_prefix_has_a_state_too(two):
    state = await two["eu"].state(await two["us"].new_run())
    assert (state.at_seq, state.folded_events) == (0, 0)
    assert json.loads(state.state) == {"channels": {}, "status": "pending", "variables": {}}


# -- snapshots -----------------------------------------------------------------------------------------------------------------------

LONG = 2 * SNAPSHOT_EVERY_EVENTS + 50


@pytest.fixture(scope="module")
async def long_run(two):
    """A run whose variable ``n`` counts its events, with two snapshots."""
    run_id = await two["eu"].new_run()
    for start in range(0, LONG, 1000):
        await two["eu"].append(
            run_id,
            *(event({"name": "n", "next": n}, "variable.changed") for n in range(start, min(LONG, start + 1000))),
        )
    await eventually(lambda: snapshots(two, run_id, 2), what="two snapshots")
    return run_id


async def snapshots(two, run_id, many):
    return len(await execute(url_of(two), "SELECT seq FROM snapshots WHERE run_id = %s", [run_id])) == many


def url_of(two):
    return two.servers["eu"]._settings.leader_url


def variable(state):
    return json.loads(state.state)["variables"]["n"]


@pytest.mark.parametrize(
    "at_seq",
    [
        1,
        SNAPSHOT_EVERY_EVENTS - 1,
        SNAPSHOT_EVERY_EVENTS,
        SNAPSHOT_EVERY_EVENTS + 1,
        2 * SNAPSHOT_EVERY_EVENTS - 1,
        LONG,
    ],
)
async def test_g4_snapshots_bound_the_folding(two, long_run, at_seq):
    state = await two["us"].state(long_run, at_seq)
    assert variable(state) == at_seq - 1
    assert state.folded_events == at_seq % SNAPSHOT_EVERY_EVENTS


async def test_g4_a_fork_is_folded_from_the_snapshot_of_its_source(two, long_run):
    child = (await two["us"].fork(long_run, SNAPSHOT_EVERY_EVENTS + 7)).run.run_id
    state = await two["eu"].state(child)
    assert (state.folded_events, variable(state)) == (7, SNAPSHOT_EVERY_EVENTS + 6)


async def test_g4_a_fork_in_front_of_a_snapshot_does_not_use_it(two, long_run):
    child = (await two["us"].fork(long_run, SNAPSHOT_EVERY_EVENTS - 1)).run.run_id
    await two["us"].append(child, *(event({"name": "n", "next": -n}, "variable.changed") for n in range(1, 4)))
    assert variable(await two["eu"].state(child)) == -3


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (
            "state",
            b'{"at_seq":1024,"channels":{},"format":1,"paused":false,"phase":"running","variables":{"n":-1},"waits":[]}',
        ),
        ("state", b"not a state"),
        ("state_digest", bytes(32)),
        ("prefix_digest", bytes(32)),
    ],
    ids=["other state", "no state", "other digest", "other prefix"],
)
async def test_g4_a_damaged_snapshot_is_ignored(two, long_run, column, value):
    keep = await execute(
        url_of(two), f"SELECT {column} FROM snapshots WHERE run_id = %s AND seq = %s", [long_run, SNAPSHOT_EVERY_EVENTS]
    )
    change = f"UPDATE snapshots SET {column} = %s WHERE run_id = %s AND seq = %s"
    await execute(url_of(two), change, [value, long_run, SNAPSHOT_EVERY_EVENTS])
    try:
        state = await two["us"].state(long_run, SNAPSHOT_EVERY_EVENTS + 1)
    finally:
        await execute(url_of(two), change, [keep[0][0], long_run, SNAPSHOT_EVERY_EVENTS])
    assert (variable(state), state.folded_events) == (SNAPSHOT_EVERY_EVENTS, SNAPSHOT_EVERY_EVENTS + 1)


@pytest.mark.parametrize("state", [b"not a state", b'{"format":2}', b'{"at_seq":1}'])
async def test_g4_a_snapshot_that_is_none_of_ours_is_ignored_whatever_its_digest(two, long_run, state):
    keep = await execute(
        url_of(two),
        "SELECT state, state_digest FROM snapshots WHERE run_id = %s AND seq = %s",
        [long_run, SNAPSHOT_EVERY_EVENTS],
    )
    change = "UPDATE snapshots SET state = %s, state_digest = %s WHERE run_id = %s AND seq = %s"
    await execute(url_of(two), change, [state, sha256(state).digest(), long_run, SNAPSHOT_EVERY_EVENTS])
    try:
        found = await two["us"].state(long_run, SNAPSHOT_EVERY_EVENTS + 1)
    finally:
        await execute(url_of(two), change, [*keep[0], long_run, SNAPSHOT_EVERY_EVENTS])
    assert variable(found) == SNAPSHOT_EVERY_EVENTS


async def test_g4_the_state_is_the_same_with_and_without_snapshots(two, long_run):
    with_them = await two["us"].state(long_run)
    kept = await execute(
        url_of(two),
        "DELETE FROM snapshots WHERE run_id = %s RETURNING region, run_id, seq, prefix_digest, state, state_digest",
        [long_run],
    )
    without = await two["us"].state(long_run)
    assert told(with_them) == told(without)
    assert (with_them.folded_events, without.folded_events) == (50, LONG)
    made = await execute(
        url_of(two),
        "SELECT region, run_id, seq, prefix_digest, state, state_digest FROM snapshots WHERE run_id = %s",
        [long_run],
    )
    assert sorted(made) == sorted(kept), "the reader that passed their places made them again"


async def test_g4_many_readers_at_once_get_one_state(two, long_run):
    states = await asyncio.gather(*(two[region].state(long_run) for region in ("eu", "us") for _ in range(5)))
    assert len({told(state) for state in states}) == 1
