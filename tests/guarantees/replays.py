"""Workflows as their events, for tests that append what an executor would."""

import json

from api.wire import Wire, event
from isoline.v1 import common_pb2 as pb
from isoline.v1 import log_service_pb2 as log_pb

REPLAY = pb.FORK_MODE_REPLAY
DIVERGED, AT_REFUSAL = "replay.diverged", "replay.diverged-at-refusal"

RUN = event({"workflowId": "flow", "inputs": {}, "transport": "rest"}, "run.started")
END = event({"outputs": {}}, "run.completed")


def started(node: str, inputs: str = "x") -> log_pb.NewEvent:
    return event({"nodeId": node, "typeId": "t", "attempt": 0, "digest": inputs}, "node.started", node_id=node)


def completed(node: str, outputs: int = 1) -> log_pb.NewEvent:
    return event({"nodeId": node, "outputs": {"value": outputs}}, "node.completed", node_id=node)


def refused_by_model(node: str) -> log_pb.NewEvent:
    return event({"nodeId": node, "provider": "p", "model": "m"}, "envelope.refusal", node_id=node)


def step(node: str, outputs: int = 1) -> list[log_pb.NewEvent]:
    return [started(node), completed(node, outputs)]


def steps(nodes: str) -> list[log_pb.NewEvent]:
    return [each for node in nodes for each in step(node)]


SIX = [RUN, *steps("abcdef"), END]
"""Fourteen events: the start of node ``d`` stands at seq 7, its completion at 8."""


async def source_of(wire: Wire, events: list[log_pb.NewEvent] = SIX, **fields: object) -> str:
    """A run with these events, and the handle to replay it."""
    run_id = await wire.new_run(**fields)
    await wire.append(run_id, *events)
    return run_id


async def replay_of(wire: Wire, source: str, from_seq: int = 0) -> str:
    return (await wire.fork(source, from_seq, REPLAY)).run.run_id


async def types(wire: Wire, run_id: str) -> list[str]:
    return [each.content.type for each in (await wire.read(run_id)).events]


async def divergences(wire: Wire, run_id: str) -> list[tuple[int, dict[str, object]]]:
    """Where a run says that it diverged, and what it says."""
    log = (await wire.read(run_id)).events
    return [(seq, json.loads(each.content.payload)) for seq, each in enumerate(log) if each.content.type == DIVERGED]
