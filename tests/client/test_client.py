import pytest

from client.double import RUN_ID, alter
from isoline.v1 import host_service_pb2, log_service_pb2
from isoline_client import InvalidRequest, NewEvent, TooLarge, VerificationFailed, wire

EVENT = NewEvent(
    "node.completed", {"a": 1}, node_id="n", masked=["/a"], schema_version=2, causation_id="because-of-that-1"
)


def test_the_table_of_calls_is_the_contracts():
    services = [
        log_service_pb2.DESCRIPTOR.services_by_name["LogService"],
        host_service_pb2.DESCRIPTOR.services_by_name["HostService"],
    ]
    theirs = {f"{each.full_name}/{method.name}": method for each in services for method in each.methods}
    ours = {each.path: each for each in vars(wire).values() if isinstance(each, wire.Method)}
    assert theirs.keys() - ours.keys() == {"isoline.v1.LogService/AppendStream"}
    for path, method in ours.items():
        theirs_too = theirs[path]
        assert method.parse(b"").DESCRIPTOR is theirs_too.output_type
        assert method.streams is theirs_too.server_streaming
        assert method.sends is theirs_too.client_streaming
        asked = theirs_too.input_type
        if "header" in asked.fields_by_name:  # of many messages the first says what is asked
            asked = asked.fields_by_name["header"].message_type
        assert method.changes is ("request_id" in asked.fields_by_name)


async def test_an_event_travels_whole(client, near):
    await client.run(RUN_ID).append(EVENT, expected_seq=0, engine="e1", engine_seq=3)
    (request,) = near.requests("Append")
    assert (request.run_id, request.expected_seq, request.engine, request.engine_seq) == (RUN_ID, 0, "e1", 3)
    (new,) = request.events
    assert (new.content.type, new.content.node_id, new.content.payload) == ("node.completed", "n", b'{"a":1}')
    assert (list(new.content.masked), new.content.schema_version, new.causation_id) == (["/a"], 2, "because-of-that-1")
    (event,) = [event async for event in client.run(RUN_ID).read()]
    assert (event.payload, event.masked, event.schema_version) == ({"a": 1}, ("/a",), 2)


async def test_without_an_expected_seq_none_is_sent(client, near):
    await client.run(RUN_ID).append(EVENT)
    assert not near.requests("Append")[0].HasField("expected_seq")


async def test_an_append_that_is_too_large_or_empty_is_not_sent(client, near):
    run = client.run(RUN_ID)
    with pytest.raises(TooLarge, match="1001 events are over the limit of 1000"):
        await run.append([EVENT] * 1001)
    with pytest.raises(TooLarge, match="payload bytes are over the limit"):
        await run.append([NewEvent("a.b", b"x" * 1024 * 1024)] * 5)
    with pytest.raises(InvalidRequest):
        await run.append([])
    assert not near.seen


async def test_an_answer_for_fewer_events_than_were_sent_is_not_believed(client, near):
    def shifted(answer):
        answer.last.seq -= 1
        return answer

    near.plan("Append", alter(shifted))
    with pytest.raises(VerificationFailed, match="fewer events"):
        await client.run(RUN_ID).append(EVENT)


async def test_a_made_run_comes_with_its_info(client):
    run = await client.create_run("w", tags=["a"], home_region="eu")
    assert (run.run_id, run.made.workflow_id, run.made.head.seq, run.repeated) == (RUN_ID, "w", -1, False)
    assert client.run(RUN_ID).made is None


async def test_a_fork_says_where_it_comes_from(client, near, world):
    world.fill(3)
    fork = await client.run(RUN_ID).fork(2, mode="replay", overlay={"a": 1}, expected_prefix_digest=b"d" * 32)
    assert (fork.made.fork.source_run_id, fork.made.fork.from_seq, fork.made.fork.mode) == (RUN_ID, 2, "replay")
    (request,) = near.requests("ForkRun")
    assert (request.run_options_overlay, request.expected_prefix_digest) == (b'{"a":1}', b"d" * 32)
    await client.run(RUN_ID).fork(mode="replay")
    assert not near.requests("ForkRun")[1].HasField("from_seq")


async def test_info_tells_the_head_and_the_end(client, world):
    world.fill(2)
    world.end()
    info = await client.run(RUN_ID).info()
    assert (info.head.seq, info.head.digest, info.terminal_seq) == (2, world.digests[2], 2)
    assert (info.fork, info.source, info.created_at.year) == (None, "leader", 1970)


async def test_a_state_is_proven_and_parsed(client, near):
    state = await client.run(RUN_ID).state(0)
    assert (state.at_seq, state.status, state.variables, state.channels) == (0, "running", {"x": 1}, {})
    assert state.source == "stale"

    def tampered(answer):
        answer.state += b" "
        return answer

    near.plan("GetState", alter(tampered))
    with pytest.raises(VerificationFailed):
        await client.run(RUN_ID).state()


async def test_a_prefix_is_a_position(client, world):
    world.fill(3)
    assert (await client.run(RUN_ID).prefix(2)).last == (1, world.digests[1])
    assert (await client.run(RUN_ID).prefix()).last == (2, world.digests[2])


async def test_runs_are_listed_over_pages(client, near):
    assert [info.run_id async for info in client.list_runs(page_size=2)] == [f"acme/eu-{n}" for n in range(5)]
    assert [request.page_token for request in near.requests("ListRuns")] == ["", "2", "4"]


async def test_a_comparison_scores_and_names_the_first_divergence(client, near):
    found = await client.compare(client.run("a"), "b")
    assert (found.b_run_id, found.from_seq, found.equal, found.score, found.first_divergence_seq) == (
        "b",
        3,
        True,
        1.0,
        None,
    )

    def diverged(answer):
        answer.masked_equal, answer.matched_events, answer.first_divergence_seq = False, 3, 0
        return answer

    near.plan("CompareForks", alter(diverged))
    found = await client.compare("a", "b")
    assert (found.equal, found.score, found.first_divergence_seq) == (False, 0.75, 0)


async def test_a_diff_names_what_is_only_on_one_side(client):
    diff = await client.diff(client.run("a"), "b")
    assert (diff.a_run_id, diff.b_run_id, diff.diverged_at_seq) == ("a", "b", None)
    (change,) = diff.event_diffs
    assert (change.seq, change.op, change.a_event, change.b_event.payload) == (2, "added", None, {"a": 1})


async def test_a_server_whose_chain_begins_elsewhere_is_not_ours(client, near):
    assert (await client.capabilities()).limits == {"a": 1}
    near.plan("GetCapabilities", alter(lambda answer: type(answer)(chain_start=b"x" * 32)))
    with pytest.raises(VerificationFailed, match="chain begins elsewhere"):
        await client.capabilities()


async def test_what_a_region_does_not_know_is_none(client):
    status = await client.region_status()
    assert (status.region, status.topology, status.lag_ms, status.lag_bytes) == ("eu", "postgres", None, 0)


async def test_a_writer_of_a_run_appends_to_it(client, world):
    async with client.run(RUN_ID).writer(batch_events=4, engine="e1") as writer:
        futures = [await writer.write(EVENT) for _ in range(10)]
    assert [await future for future in futures] == list(range(10))
    assert len(world.records) == 10
