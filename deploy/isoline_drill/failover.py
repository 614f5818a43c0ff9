"""The regions' databases as drills see them, whoever promotes: an operator (``databases``) or Patroni (``patroni``). An interface, and values.

Drills name no way of failing over but for choosing one at the start; what is different about the two is on their own side of this.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Protocol, Self

from isoline_drill.promotion import Moment

Way = Literal["operator", "patroni"]
WAYS: Final[tuple[Way, ...]] = ("operator", "patroni")

Return = Literal["streams already", "followed", "rewound", "copied"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejoined:
    """How a region came back: on the data it had, after pg_rewind, or with a new copy, and then ``reason`` may say why."""

    region: str
    way: Return
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that was done on the way, for the timeline."""

    at: Moment
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """Another region leads. ``detection_s`` is a setting: how long nobody acts; ``acting`` is when somebody did."""

    old: str
    new: str
    detection_s: float
    acting: Moment
    promoted: Moment
    """The new leader accepts writes, and acknowledges them from ``follower_streaming`` on."""
    follower_streaming: Moment | None
    """The first standby follows the new leader; ``None``: none did in time, and commits wait for one."""
    steps: Sequence[Step]


class Databases(Protocol):
    """One PostgreSQL node a region, and the verbs of a drill. Everything runs between entering the context and leaving it."""

    way: Way
    ttl_s: int | None
    """How long a leader's lease lasts; None: there is no lease, and an operator decides that it is gone."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def leader(self) -> str:
        """The region that leads, as known here."""
        ...

    def url(self, viewer: str, owner: str) -> str:
        """How a program in one region reaches the node of another (or of its own). The same for as long as the databases run."""
        ...

    def wait_caught_up(self, region: str) -> None:
        """Until a standby shows everything that is committed on the leader at the time of the call."""
        ...

    def kill(self, region: str) -> None:
        """SIGKILL everything of a region that has to do with its database, as a power cut would end it. It is gone on return."""
        ...

    def pause_replay(self, region: str) -> None:
        """Let a standby receive but not show: from now on it answers with the past."""
        ...

    def resume_replay(self, region: str) -> None:
        """Let a paused standby catch up; it does so in its own time."""
        ...

    def fail_over(self, detection_s: float) -> TakenOver:
        """Have another region lead, now that the leader is out of reach. ``detection_s`` is how long an operator waits before acting."""
        ...

    def rejoin(self, region: str) -> Rejoined:
        """Bring a region back as a hot standby of the leader, without whatever it has that the leader does not. On return it streams."""
        ...
