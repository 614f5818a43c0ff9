"""What a WAN is to those who use it: addresses, a way to run programs inside a region, and faults. No mechanism."""

from collections.abc import Sequence
from types import TracebackType
from typing import Literal, Protocol, Self

Kind = Literal["namespaces", "proxies"]


class Wan(Protocol):
    """The network between some regions. Faults act at once, also on connections that exist; packets under way are lost with a cut.

    Used by one process, from any thread. Leaving the context removes everything that was set up.
    """

    kind: Kind
    regions: Sequence[str]

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def host(self, region: str) -> str:
        """The address on which a program of the region listens: reachable as it is from inside the region."""
        ...

    def address(self, viewer: str, owner: str, port: int) -> tuple[str, int]:
        """Where a program in ``viewer`` reaches a port of a program in ``owner``; may open a proxy, whose address then stays the same."""
        ...

    def namespace(self, region: str) -> str | None:
        """Path of the network namespace in which the region's programs must run (``/run/netns/…``); None: anywhere."""
        ...

    def delay(self, a: str, b: str, round_trip_ms: float) -> None:
        """Set the round trip time between two regions, half of it each way."""
        ...

    def loss(self, a: str, b: str, share: float) -> None:
        """Lose this share of the packets, both ways. Raises ``NotImplementedError`` where only streams are known."""
        ...

    def cut(self, a: str, b: str) -> None:
        """Let nothing through between two regions: silence, not refusal."""
        ...

    def cut_one_way(self, sender: str, receiver: str) -> None:
        """Let nothing through from one region to another; the other way still works."""
        ...

    def isolate(self, region: str) -> None:
        """Cut a region off from all others."""
        ...

    def heal(self) -> None:
        """End every cut and every loss; delays stay."""
        ...
