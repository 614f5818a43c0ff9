"""A WAN without distance: all regions on 127.0.0.1. For tests of what lies above the WAN; faults of the network need a real one."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from isoline_drill.wan.base import Kind

REGIONS = ("eu", "us", "ap")


class Loopback:
    kind: Kind = "proxies"
    regions: Sequence[str] = REGIONS

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def host(self, region: str) -> str:
        return "127.0.0.1"

    def address(self, viewer: str, owner: str, port: int) -> tuple[str, int]:
        return "127.0.0.1", port

    def namespace(self, region: str) -> str | None:
        return None

    def delay(self, a: str, b: str, round_trip_ms: float) -> None:
        raise NotImplementedError

    def loss(self, a: str, b: str, share: float) -> None:
        raise NotImplementedError

    def cut(self, a: str, b: str) -> None:
        raise NotImplementedError

    def cut_one_way(self, sender: str, receiver: str) -> None:
        raise NotImplementedError

    def isolate(self, region: str) -> None:
        raise NotImplementedError

    def heal(self) -> None:
        return
