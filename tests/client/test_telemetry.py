import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from client.double import RUN_ID, lose
from isoline_client import NewEvent, SeqConflict, telemetry

EVENT = NewEvent("node.completed", {"a": 1})


@pytest.fixture
def spans(monkeypatch):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "_tracer", provider.get_tracer("isoline_client"))
    return exporter.get_finished_spans


async def test_every_try_is_a_client_span_with_the_attributes_of_the_conventions(client, near, far, spans):
    near.plan("Append", lose())
    await client.run(RUN_ID).append(EVENT)
    lost, answered = spans()
    assert lost.name == answered.name == "isoline.v1.LogService/Append"
    assert lost.attributes == {
        "rpc.system.name": "grpc",
        "rpc.method": "isoline.v1.LogService/Append",
        "rpc.response.status_code": "UNAVAILABLE",
        "error.type": "UNAVAILABLE",
        "server.address": "127.0.0.1",
        "server.port": int(near.address.rpartition(":")[2]),
    }
    assert answered.attributes["rpc.response.status_code"] == "OK"
    assert answered.attributes["server.port"] == int(far.address.rpartition(":")[2])
    assert (lost.status.is_ok, answered.status.is_ok) == (False, True)


async def test_the_trace_goes_along_to_the_server(client, near, spans):
    await client.run(RUN_ID).append(EVENT)
    (span,) = spans()
    assert f"{span.context.trace_id:032x}" in near.metadata[0]["traceparent"]


async def test_a_stream_is_one_span_whether_it_ends_or_is_left(client, world, spans):
    world.fill(9)
    assert len([event async for event in client.run(RUN_ID).read()]) == 9
    pages = client.run(RUN_ID).read_pages()
    await anext(pages)
    await pages.aclose()
    assert [span.attributes["rpc.response.status_code"] for span in spans()] == ["OK", "CANCELLED"]


async def test_a_refusal_is_told_by_its_code(client, spans):
    with pytest.raises(SeqConflict):
        await client.run(RUN_ID).append(EVENT, expected_seq=5)
    (span,) = spans()
    assert span.attributes["rpc.response.status_code"] == "ABORTED"


async def test_without_an_sdk_nothing_is_sent_along(client, near):
    await client.run(RUN_ID).append(EVENT)
    assert "traceparent" not in near.metadata[0]
