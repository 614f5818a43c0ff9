"""Workflows that the benchmarks have executed: one that sends a datagram every second node, one that only computes. Loops, so that a run is as
long as it is asked to be."""

import socket

from isoline_client.workflow import When, Workflow

ROUNDS_MAX = 100_000

sending = Workflow.define("bench.sending", version=1, max_loopback_iterations=ROUNDS_MAX)


@sending.node(role="side-effect")
async def send(ctx, inputs):
    """An effect that is cheap and leaves for real: whoever listens at the port counts it. No ledger, which would be measured along."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"%d" % ctx.visit, ("127.0.0.1", inputs["run"]["port"]))
    return {"sent": ctx.visit}


@sending.node(role="pure", after=[send])
async def think(ctx, inputs):
    return {"dice": await ctx.random(), "more": ctx.visit < inputs["run"]["rounds"]}


sending.edge(think, send, when=When("/more", True))

computing = Workflow.define("bench.computing", version=1, max_loopback_iterations=ROUNDS_MAX)


@computing.node(role="pure")
async def first(ctx, _inputs):
    return {"visit": ctx.visit}


@computing.node(role="pure", after=[first])
async def second(ctx, inputs):
    return {"more": ctx.visit < inputs["run"]["rounds"]}


computing.edge(second, first, when=When("/more", True))
