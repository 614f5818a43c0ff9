"""G1: one dense order a run, whoever appends from wherever."""

import asyncio

import grpc
from grpc import aio

from api.wire import event, events, refusal_of, refused, request_id
from isoline.v1 import log_service_pb2 as log_pb


async def engine_writes(wire, run_id, engine, sizes):
    """Append batches one after the other; return the seqs that were acknowledged, by counter."""
    given, counter = {}, 1
    for size in sizes:
        batch = [event({"engine": engine, "counter": counter + place}) for place in range(size)]
        answer = await persistently(wire, run_id, batch, {"engine": engine, "engine_seq": counter})
        given.update({(engine, counter + place): answer.first_seq + place for place in range(size)})
        counter += size
    return given


async def persistently(wire, run_id, batch, fields):
    """Append, and again with the same request id when the head was too contended: that is allowed, and does nothing."""
    fields = {"request_id": request_id(), **fields}
    while True:
        try:
            return await wire.append(run_id, *batch, **fields)
        except aio.AioRpcError as error:
            if refusal_of(error).reason != "HEAD_CONTENDED":
                raise


async def several_engines_write(pair):
    run_id = await pair["eu"].new_run()
    sizes = [1, 3, 2, 1, 5, 1, 2] * 3
    writing = (engine_writes(pair[region], run_id, f"{region}-{n}", sizes) for region in ("eu", "us") for n in range(3))
    acknowledged = {}
    for given in await asyncio.gather(*writing):
        acknowledged |= given
    return run_id, acknowledged


async def test_g1_engines_on_several_servers_get_one_dense_order(pair):
    run_id, acknowledged = await several_engines_write(pair)
    assert sorted(acknowledged.values()) == list(range(6 * 45))
    log = await pair["us"].read(run_id)
    stands = {(each["engine"], each["counter"]): seq for seq, each in enumerate(log.payloads)}
    assert stands == acknowledged


async def test_g1_each_engine_keeps_its_own_order(pair):
    run_id, _ = await several_engines_write(pair)
    counters = {}
    for each in (await pair["eu"].read(run_id)).events:
        assert each.stamp.engine_seq == counters.get(each.stamp.engine, 0) + 1
        counters[each.stamp.engine] = each.stamp.engine_seq
    assert set(counters.values()) == {45}


async def test_g1_every_server_reads_the_same_order(pair):
    run_id, _ = await several_engines_write(pair)
    eu, us = await pair["eu"].read(run_id), await pair["us"].read(run_id)
    assert eu.records == us.records
    assert eu.last == us.last == await pair["us"].head(run_id)


async def test_g1_writers_without_counters_share_one_order_too(pair):
    run_id = await pair["eu"].new_run()
    appends = [
        pair[region].append(run_id, *events(2, who=f"{region}{n}")) for n in range(30) for region in ("eu", "us")
    ]
    first_seqs = sorted(answer.first_seq for answer in await asyncio.gather(*appends))
    assert first_seqs == list(range(0, 120, 2))
    who = [each["who"] for each in (await pair["eu"].read(run_id)).payloads]
    assert who[::2] == who[1::2], "the events of one append stand together"


async def test_g1_of_many_that_expect_one_seq_one_wins_and_no_number_is_lost(pair):
    run_id = await pair["eu"].new_run(3)
    racing = [
        pair[region].append(run_id, event({"who": n}), expected_seq=3) for n in range(8) for region in ("eu", "us")
    ]
    answers = await asyncio.gather(*racing, return_exceptions=True)
    won = [answer for answer in answers if isinstance(answer, log_pb.AppendResponse)]
    assert [answer.first_seq for answer in won] == [3]
    assert {answer.code() for answer in answers if answer not in won} == {grpc.StatusCode.ABORTED}
    assert (await pair["us"].append(run_id, event())).first_seq == 4


async def test_g1_runs_that_are_written_together_have_each_their_own_order(pair):
    """Their appends share statements, and a race that one of them loses moves none of the others."""
    runs = [await pair["eu"].new_run() for _ in range(6)]
    sizes = [2, 1, 3] * 3
    writing = {
        (run_id, engine): engine_writes(pair[engine], run_id, engine, sizes)
        for run_id in runs
        for engine in ("eu", "us")
    }
    given = dict(zip(writing, await asyncio.gather(*writing.values()), strict=True))
    for run_id in runs:
        stands = [(each["engine"], each["counter"]) for each in (await pair["us"].read(run_id)).payloads]
        assert {each: seq for seq, each in enumerate(stands)} == given[run_id, "eu"] | given[run_id, "us"]


async def test_g1_a_stale_hint_does_not_break_the_order(pair):
    run_id = await pair["eu"].new_run()
    seqs = [(await pair["eu" if n % 2 else "us"].append(run_id, event())).first_seq for n in range(10)]
    assert seqs == list(range(10))


async def test_g1_a_stream_of_appends_is_taken_in_the_order_sent(pair):
    run_id = await pair["eu"].new_run()

    async def requests():
        for n in range(200):
            yield log_pb.AppendStreamRequest(
                append=log_pb.AppendRequest(request_id=request_id(), run_id=run_id, events=[event({"n": n})])
            )

    answers = [answer async for answer in pair["us"].append_stream(requests())]
    assert [answer.appended.first_seq for answer in answers] == list(range(200))
    assert [each["n"] for each in (await pair["eu"].read(run_id)).payloads] == list(range(200))


async def test_g1_an_expected_seq_beyond_the_head_is_refused_with_both_numbers(pair):
    run_id = await pair["eu"].new_run(3)
    told = await refused(pair["us"].append(run_id, event(), expected_seq=4))
    assert (told.code, told.reason) == (grpc.StatusCode.ABORTED, "SEQ_CONFLICT")
    assert (told.metadata["expected_seq"], told.metadata["actual_seq"]) == ("4", "3")
    assert (await pair["eu"].head(run_id)).seq == 2
