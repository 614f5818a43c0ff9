"""What stands around every call: deadlines, internal errors, spans."""

import asyncio

import grpc
import pytest
from structlog.testing import capture_logs

from api.wire import TIMEOUT_S, event, refused, request_id, wire_to
from isoline.v1 import log_service_pb2 as log_pb
from isoline_server import telemetry
from isoline_server.operations.lane import Lane
from isoline_server.operations.reading import Reading
from support.waiting import eventually

SECRET = "SELECT * FROM runs WHERE tenant = 'rival' -- /etc/isoline/secret.toml"


async def broken(*args, **kwargs):
    raise RuntimeError(SECRET)


async def broken_pages(*args, **kwargs):
    raise RuntimeError(SECRET)
    yield


READS = {
    "get": lambda wire, run_id: wire.get(run_id),
    "state": lambda wire, run_id: wire.state(run_id),
    "prefix": lambda wire, run_id: wire.prefix(run_id),
    "read": lambda wire, run_id: wire.read(run_id),
    "tail": lambda wire, run_id: wire.tail(run_id).read(),
    "diff": lambda wire, run_id: wire.diff(run_id, run_id),
}


@pytest.mark.parametrize("call", READS)
async def test_an_internal_error_tells_the_caller_nothing_of_the_inside(wire, monkeypatch, call):
    run_id = await wire.new_run(1)
    monkeypatch.setattr(Reading, "run", broken)
    told = await refused(READS[call](wire, run_id))
    assert (told.code.name, told.reason, told.metadata) == ("INTERNAL", "INTERNAL_ERROR", {"retryable": "true"})
    assert "SELECT" not in told.message
    assert "secret" not in told.message


async def test_an_internal_error_in_the_middle_of_a_stream_tells_nothing_either(wire, monkeypatch):
    run_id = await wire.new_run(1)
    monkeypatch.setattr(Reading, "pages", broken_pages)
    told = await refused(wire.read(run_id))
    assert (told.code.name, SECRET in told.message) == ("INTERNAL", False)


async def test_an_internal_error_of_a_streamed_append_tells_nothing_either(wire, monkeypatch):
    run_id = await wire.new_run(1)
    monkeypatch.setattr(Lane, "append", broken)

    async def requests():
        yield log_pb.AppendStreamRequest(
            append=log_pb.AppendRequest(request_id=request_id(), run_id=run_id, events=[event()])
        )

    (answer,) = [answer async for answer in wire.append_stream(requests())]
    assert (answer.error.reason, SECRET in answer.error.message) == ("INTERNAL_ERROR", False)


async def test_an_internal_error_is_in_the_log(wire, monkeypatch):
    run_id = await wire.new_run(1)
    monkeypatch.setattr(Reading, "run", broken)
    with capture_logs() as logs:
        await refused(wire.get(run_id))
    assert [(line["event"], line["method"]) for line in logs] == [("internal error", "/isoline.v1.LogService/GetRun")]
    assert str(logs[0]["exc_info"]) == SECRET


async def test_a_server_goes_on_after_an_internal_error(wire, monkeypatch):
    run_id = await wire.new_run(1)
    with monkeypatch.context() as patched:
        patched.setattr(Reading, "run", broken)
        await refused(wire.get(run_id))
    assert (await wire.get(run_id)).run.head.seq == 0


# -- deadlines -----------------------------------------------------------------------------------------------------------------------


class Held:
    """A read that takes until it is cancelled."""

    def __init__(self):
        self.begun, self.cancelled = asyncio.Event(), asyncio.Event()

    async def run(self, *args, **kwargs):
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@pytest.fixture
async def held(monkeypatch):
    made = Held()
    monkeypatch.setattr(Reading, "run", made.run)
    return made


@pytest.mark.parametrize("call", READS)
async def test_a_read_ends_with_the_deadline_of_its_caller(wire, held, call):
    asked = {
        "get": wire.call("GetRun", log_pb.GetRunRequest(run_id=RUN), 0.2),
        "state": wire.call("GetState", log_pb.GetStateRequest(run_id=RUN), 0.2),
        "prefix": wire.call("GetPrefix", log_pb.GetPrefixRequest(run_id=RUN), 0.2),
        "read": wire.read(RUN, timeout_s=0.2),
        "tail": wire.tail(RUN, timeout_s=0.2).read(),
        "diff": wire.call("DiffRuns", log_pb.DiffRunsRequest(a_run_id=RUN, b_run_id=RUN), 0.2),
    }
    told = await refused(asked.pop(call))
    for other in asked.values():
        other.close() if asyncio.iscoroutine(other) else other.cancel()
    assert told.code is grpc.StatusCode.DEADLINE_EXCEEDED
    await asyncio.wait_for(held.cancelled.wait(), TIMEOUT_S)


RUN = "local/eu-cccccccccccccccccccccccccc"


async def test_a_read_ends_with_its_caller(wire, held):
    call = wire.call("GetRun", log_pb.GetRunRequest(run_id=RUN))
    asking = asyncio.ensure_future(refused(call))
    await held.begun.wait()
    call.cancel()
    await asyncio.wait_for(held.cancelled.wait(), TIMEOUT_S)
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_an_append_whose_deadline_has_passed_already_does_nothing_later(wire):
    run_id = await wire.new_run()
    told = await refused(wire.append(run_id, event(), timeout_s=0.0))
    assert told.code in {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE}
    assert (await wire.append(run_id, event())).first_seq == 0


# -- spans ---------------------------------------------------------------------------------------------------------------------------


class Spans:
    """Stands in for a tracer and counts what it began and ended."""

    def __init__(self):
        self.begun = self.ended = 0
        self.statuses = []

    def start_span(self, *args, **kwargs):
        self.begun += 1
        return self

    def set_attribute(self, key, value):
        if key == telemetry.RPC_STATUS:
            self.statuses.append(value)

    def set_status(self, status):
        pass

    def end(self):
        self.ended += 1


@pytest.fixture
def spans(monkeypatch):
    made = Spans()
    monkeypatch.setattr(telemetry, "tracer", made)
    return made


async def all_ended(spans):
    return spans.begun and spans.begun == spans.ended


async def test_the_span_of_a_refused_call_ends(wire, spans):
    await refused(wire.get("no run id"))
    await eventually(lambda: all_ended(spans), what="the end of the span")
    assert spans.statuses == ["INVALID_ARGUMENT"]


async def test_the_span_of_a_caller_without_a_key_ends(guarded, spans):
    async with wire_to(guarded.address) as stranger:
        await refused(stranger.get("acme/eu-cccccccccccccccccccccccccc"))
    await eventually(lambda: all_ended(spans), timeout_s=5, what="the end of the span")
    assert spans.statuses == ["UNAUTHENTICATED"]
