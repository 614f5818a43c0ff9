"""gRPC calls of a node. The executor's own calls to the log are made outside of nodes."""

from typing import Final

from isoline_client.guard.seams.seam import REGISTRY, Point, Seam

_SYNC: Final = ("UnaryUnary", "UnaryStream", "StreamUnary", "StreamStream")

GRPC: Final = REGISTRY.add(
    Seam(
        name="grpc.channel",
        kind="other",
        module=__name__,
        note="gRPC: channels made and calls started by a node, also over a channel opened before",
        unseen="gRPC core itself, whose sockets are C: no audit event",
        points=(
            Point(module="grpc._channel", path="Channel.__init__"),
            *(Point(module="grpc._channel", path=f"_{each}MultiCallable.__call__") for each in _SYNC),
            Point(module="grpc._channel", path="_UnaryUnaryMultiCallable.future"),
            Point(module="grpc._channel", path="_UnaryUnaryMultiCallable.with_call"),
            Point(module="grpc._channel", path="_SingleThreadedUnaryStreamMultiCallable.__call__"),
            Point(module="grpc.aio._channel", path="Channel.__init__"),
            *(Point(module="grpc.aio._channel", path=f"{each}MultiCallable.__call__") for each in _SYNC),
        ),
    )
)
