"""Messages that are published to a queue or a topic."""

from dataclasses import dataclass
from typing import Final, Protocol

from isoline_client.guard.policy import ask
from isoline_client.guard.seams.seam import REGISTRY, Seam

QUEUE: Final = REGISTRY.add(
    Seam(
        name="queue.publish",
        kind="queue",
        module=__name__,
        unseen="a broker's own library that was not wrapped by GuardedQueue and has its sockets in C (librdkafka)",
    )
)


class Queue(Protocol):
    """What a node can publish to. An implementation owns its connection; publishing is done when the broker has the message."""

    async def publish(self, topic: str, body: bytes, *, key: str = "") -> None: ...


@dataclass(frozen=True, slots=True)
class GuardedQueue:
    """A queue that asks before each message."""

    inner: Queue

    async def publish(self, topic: str, body: bytes, *, key: str = "") -> None:
        ask(QUEUE.name, topic)
        await self.inner.publish(topic, body, key=key)
