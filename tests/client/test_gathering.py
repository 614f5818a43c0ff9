"""Appends of one turn of the event loop in one call: what goes together, and that each keeps its own answer, deadline and caller."""

import asyncio
from dataclasses import dataclass, field

import pytest

from isoline.v1 import log_service_pb2 as log_pb
from isoline_client import limits
from isoline_client.errors import (
    ClientClosed,
    DeadlineExceeded,
    RunNotFound,
    SeqConflict,
    ServerError,
    Unavailable,
)
from isoline_client.gathering import Gathering


@dataclass
class Server:
    """Answers appends, and remembers in which calls they came."""

    alone: list[str] = field(default_factory=list)
    together: list[list[str]] = field(default_factory=list)
    errors: dict[str, log_pb.AppendError] = field(default_factory=dict)
    failure: Exception | None = None
    gate: asyncio.Event | None = None
    held: asyncio.Event = field(default_factory=asyncio.Event)
    answers_missing: int = 0

    async def take_alone(self, request, timeout_s):
        if request.request_id == "held":
            await self.held.wait()
        else:
            self.alone.append(request.request_id)
        return log_pb.AppendResponse(first_seq=1)

    async def take_together(self, request, timeout_s):
        ids = [each.request_id for each in request.appends]
        self.together.append(ids)
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        answers = [self._answer(each) for each in ids][self.answers_missing :]
        return log_pb.AppendManyResponse(answers=answers)

    def _answer(self, request_id):
        answer = log_pb.AppendStreamResponse(request_id=request_id)
        if request_id in self.errors:
            answer.error.CopyFrom(self.errors[request_id])
        else:
            answer.appended.first_seq = int(request_id.rpartition("-")[2])
        return answer


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def fresh(server):
    """With nothing under way."""
    return Gathering(server.take_alone, server.take_together)


@pytest.fixture
async def gathering(server, fresh):
    """With an append under way: the next ones gather."""
    held = asyncio.ensure_future(fresh.append(append("held"), 60.0))
    await asyncio.sleep(0)
    yield fresh
    server.held.set()
    await held


def append(request_id, home="eu", payload=b"{}"):
    request = log_pb.AppendRequest(request_id=request_id, run_id=f"tenant/{home}-01arz3ndektsv4rrffq69g5fav")
    request.events.add().content.payload = payload
    return request


async def answers(gathering, requests, timeout_s=5.0):
    return await asyncio.gather(*(gathering.append(each, timeout_s) for each in requests), return_exceptions=True)


async def test_the_first_goes_at_once_and_what_comes_meanwhile_gathers(server, fresh):
    first = asyncio.ensure_future(fresh.append(append("held"), 5.0))
    more = asyncio.ensure_future(answers(fresh, [append("a-2"), append("a-3")]))
    await more
    assert (first.done(), server.alone, server.together) == (False, [], [["a-2", "a-3"]])
    server.held.set()
    await first
    await fresh.append(append("a-4"), 5.0)
    assert (server.alone, len(server.together)) == (["a-4"], 1)


async def test_what_is_alone_in_its_turn_goes_alone(server, gathering):
    assert (await gathering.append(append("a-1"), 5.0)).first_seq == 1
    assert (server.alone, server.together) == (["a-1"], [])


async def test_what_is_appended_in_one_turn_goes_in_one_call_and_each_gets_its_own_answer(server, gathering):
    told = await answers(gathering, [append(f"a-{n}") for n in range(5)])
    assert [each.first_seq for each in told] == [0, 1, 2, 3, 4]
    assert (server.alone, server.together) == ([], [["a-0", "a-1", "a-2", "a-3", "a-4"]])


async def test_the_next_turn_does_not_wait_for_the_one_before(server, gathering):
    server.gate = asyncio.Event()
    first = asyncio.ensure_future(answers(gathering, [append("a-1"), append("a-2")]))
    while not server.together:
        await asyncio.sleep(0)
    assert (await gathering.append(append("a-3"), 5.0)).first_seq == 1
    assert not first.done()
    server.gate.set()
    assert [each.first_seq for each in await first] == [1, 2]


async def test_home_regions_do_not_wait_for_each_other(server, gathering):
    await answers(gathering, [append("a-1"), append("b-2", home="ap"), append("a-3"), append("b-4", home="ap")])
    assert server.together == [["a-1", "a-3"], ["b-2", "b-4"]]


async def test_a_call_holds_no_more_than_the_limits_allow(server, gathering):
    many = limits.APPEND_MANY_MAX + 1
    assert len(await answers(gathering, [append(f"a-{n}") for n in range(many)])) == many
    half = b"x" * (limits.APPEND_BYTES_MAX // 2)
    await answers(gathering, [append(f"b-{n}", payload=half) for n in range(3)])
    assert [len(each) for each in server.together] == [limits.APPEND_MANY_MAX, 1, 1, 1, 1]


async def test_one_that_is_refused_is_told_so_and_nobody_else(server, gathering):
    metadata = {"run_id": "r", "expected_seq": "3", "actual_seq": "9"}
    server.errors["a-2"] = log_pb.AppendError(code=10, message="no", reason="SEQ_CONFLICT", metadata=metadata)
    server.errors["a-3"] = log_pb.AppendError(code=5, message="not there", reason="NOT_FOUND", metadata={"run_id": "r"})
    first, conflict, missing = await answers(gathering, [append("a-1"), append("a-2"), append("a-3")])
    assert first.first_seq == 1
    assert isinstance(conflict, SeqConflict)
    assert (conflict.expected_seq, conflict.actual_seq, conflict.code) == (3, 9, "ABORTED")
    assert isinstance(missing, RunNotFound)


async def test_a_code_of_a_later_time_is_an_error_and_not_a_silence(server, gathering):
    server.errors["a-1"] = log_pb.AppendError(code=99, message="new", reason="NEWER_THAN_THIS")
    new, second = await answers(gathering, [append("a-1"), append("a-2")])
    assert isinstance(new, ServerError)
    assert (new.reason, new.code, second.first_seq) == ("NEWER_THAN_THIS", "UNKNOWN", 2)


@pytest.mark.parametrize("failure", [Unavailable(message="gone"), ClientClosed(message="closed")])
async def test_when_the_call_fails_each_is_told(server, gathering, failure):
    server.failure = failure
    assert await answers(gathering, [append("a-1"), append("a-2")]) == [failure, failure]


async def test_a_wrong_number_of_answers_is_taken_for_none(server, gathering):
    server.answers_missing = 1
    told = await answers(gathering, [append("a-1"), append("a-2")])
    assert [(type(each), each.code) for each in told] == [(ServerError, "INTERNAL")] * 2


async def test_a_server_that_does_not_know_such_calls_is_asked_one_by_one(server, gathering):
    server.failure = ServerError(message="unknown method", code="UNIMPLEMENTED")
    assert [each.first_seq for each in await answers(gathering, [append("a-1"), append("a-2")])] == [1, 1]
    await answers(gathering, [append("a-3"), append("a-4")])
    assert (len(server.together), sorted(server.alone)) == (1, ["a-1", "a-2", "a-3", "a-4"])


async def test_each_waits_for_its_own_deadline(server, gathering):
    server.gate = asyncio.Event()
    patient = asyncio.ensure_future(gathering.append(append("a-1"), 60.0))
    with pytest.raises(DeadlineExceeded, match=r"0\.05 s"):
        await gathering.append(append("a-2"), 0.05)
    server.gate.set()
    assert (await patient).first_seq == 1


@pytest.mark.parametrize("leaver", [0, 1])
async def test_one_that_goes_away_before_it_is_sent_takes_nobody_along(server, gathering, leaver):
    tasks = [asyncio.ensure_future(gathering.append(append(f"a-{n}"), 5.0)) for n in range(3)]
    await asyncio.sleep(0)  # all are in the turn, and nothing is sent
    tasks[leaver].cancel()
    told = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(told.pop(leaver), asyncio.CancelledError)
    assert [each.first_seq for each in told] == [n for n in range(3) if n != leaver]
    assert server.together == [[f"a-{n}" for n in range(3) if n != leaver]]


async def test_one_that_goes_away_later_takes_nobody_along(server, gathering):
    server.gate = asyncio.Event()
    tasks = [asyncio.ensure_future(gathering.append(append(f"a-{n}"), 5.0)) for n in range(2)]
    while not server.together:
        await asyncio.sleep(0)
    tasks[0].cancel()
    server.gate.set()
    assert (await tasks[1]).first_seq == 1
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
