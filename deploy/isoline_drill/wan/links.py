"""Which regions there are, the one-way links between them, and what each fault means for which link. No packets, no streams, no clock."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, Protocol, TypeVar

REGIONS_MAX: Final = 200  # a region's number is one byte of its address
REGION_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")  # becomes part of a file's name


class Link(Protocol):
    """One way from one region to another."""

    delay_s: float
    loss_share: float

    def cut(self) -> None:
        """Let nothing through from now on; cutting twice changes nothing."""
        ...

    def mend(self) -> None:
        """End the cut, if there is one."""
        ...


AnyLink = TypeVar("AnyLink", bound=Link)


class Links(Generic[AnyLink]):
    """A full mesh of links. Every method that is given a region raises ``ValueError`` for one that it does not know."""

    def __init__(self, regions: Sequence[str], make: Callable[[str, str], AnyLink]) -> None:
        """``make`` is called with the sender and the receiver of each link."""
        check_regions(regions)
        self._regions = tuple(regions)
        self._links = {(a, b): make(a, b) for a in regions for b in regions if a != b}

    def __iter__(self) -> Iterator[AnyLink]:
        return iter(self._links.values())

    def get(self, sender: str, receiver: str) -> AnyLink:
        for region in (sender, receiver):
            self._check(region)
        if sender == receiver:
            raise ValueError(f"a link joins two regions, and both are {sender!r}")
        return self._links[sender, receiver]

    def delay(self, a: str, b: str, round_trip_ms: float) -> None:
        if not 0 <= round_trip_ms < float("inf"):
            raise ValueError(f"round_trip_ms must be 0 or more, and is {round_trip_ms}")
        for link in self._both_ways(a, b):
            link.delay_s = round_trip_ms / 2 / 1000

    def loss(self, a: str, b: str, share: float) -> None:
        if not 0 <= share <= 1:
            raise ValueError(f"share must be between 0 and 1, and is {share}")
        for link in self._both_ways(a, b):
            link.loss_share = share

    def cut(self, a: str, b: str) -> None:
        for link in self._both_ways(a, b):
            link.cut()

    def cut_one_way(self, sender: str, receiver: str) -> None:
        self.get(sender, receiver).cut()

    def isolate(self, region: str) -> None:
        self._check(region)
        for pair, link in self._links.items():
            if region in pair:
                link.cut()

    def heal(self) -> None:
        for link in self:
            link.mend()
            link.loss_share = 0.0

    def _both_ways(self, a: str, b: str) -> tuple[AnyLink, AnyLink]:
        return self.get(a, b), self.get(b, a)

    def _check(self, region: str) -> None:
        if region not in self._regions:
            raise ValueError(f"region {region!r} is none of {', '.join(self._regions)}")


def check_regions(regions: Sequence[str]) -> None:
    """Raises ``ValueError`` unless these are names of different regions."""
    if not 1 <= len(regions) <= REGIONS_MAX:
        raise ValueError(f"regions must be 1 to {REGIONS_MAX}, and are {len(regions)}")
    if len(set(regions)) != len(regions):
        raise ValueError(f"regions must differ, and are {', '.join(regions)}")
    for region in regions:
        if not REGION_NAME.fullmatch(region):
            raise ValueError(f"region must match {REGION_NAME.pattern}, and is {region!r}")
