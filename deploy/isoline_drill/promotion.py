"""When a standby may be promoted, which one, and what a promotion leaves behind: rules and values. No server is asked here.

A commit is acknowledged when the leader and ``QUORUM`` of its ``n`` standbys have it on disk. Of any ``n - QUORUM + 1`` standbys, at least
one therefore has every acknowledged commit; and once so many are detached from the leader, too few are left for another one. The same
number is thus needed for both: that nothing is lost, and that a leader that still runs somewhere acknowledges nothing more.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Self

from isoline_server.store.leadership import PROOF_HOLDS_S

QUORUM: Final = 1
"""Standbys that a commit waits for: the ``1`` of ``ANY 1``."""
PROMOTION_WAIT_S: Final = PROOF_HOLDS_S + 0.25
"""From the last standby's detachment until a promotion: as long as servers answer from what the old leader proved last, and a margin for
clocks of different machines, which drift apart by far less in a second."""


class PromotionRefused(RuntimeError):
    """A promotion could lose acknowledged rows, or leave two leaders. Nothing was promoted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One instant on the two clocks: the first to measure with, the second to write down."""

    monotonic_s: float
    unix_s: float

    @classmethod
    def now(cls) -> Self:
        return cls(monotonic_s=time.monotonic(), unix_s=time.time())

    @classmethod
    def at_unix(cls, unix_s: float) -> Self:
        """A moment that somebody wrote down, as far as the wall clock has not been set since."""
        now = cls.now()
        return cls(monotonic_s=now.monotonic_s - (now.unix_s - unix_s), unix_s=unix_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A promotion that took place. ``positions`` are the ends of the received WAL of all standbys that were detached for it."""

    old: str
    new: str
    positions: Mapping[str, str]
    forced: bool
    """It went on without so many standbys that acknowledged rows may be lost."""
    detached: Moment
    """From here on the old leader acknowledges nothing (unless ``forced``)."""
    promoted: Moment
    """The new leader accepts writes, and acknowledges them from ``follower_streaming`` on."""
    follower_streaming: Moment | None
    """The first standby follows the new leader; ``None``: none did in time, and commits wait for one."""


def detachments_needed(standbys: int) -> int:
    """Of a leader's standbys, how many must be detached for a promotion."""
    return standbys - QUORUM + 1


def check_excluded(old: str, standbys: Collection[str], *, excluded: Collection[str], force: bool) -> bool:
    """May a promotion begin, when the standbys in ``excluded`` will not take anything from the old leader any more?

    Says whether that takes force; raises ``PromotionRefused`` if it does and none was given.
    """
    needed = detachments_needed(len(standbys))
    if len(excluded) >= needed:
        return False
    if force:
        return True
    lost = ", ".join(name for name in standbys if name not in excluded)
    raise PromotionRefused(
        f"{needed} of the {len(standbys)} standbys of {old} must be detached from it, and only {len(excluded)} can be; out of reach: {lost}. "
        f"What {old} acknowledged may be on none of the others, and it may acknowledge more while they are out of sight. "
        "Bring them back, or pass force=True to accept the loss of acknowledged rows"
    )


def choose(positions: Mapping[str, str], new: str | None) -> str:
    """The standby that has received most (the first of equals), or ``new`` if it has received as much."""
    if not positions:
        raise PromotionRefused("no standby can be reached, so none can be promoted")
    best = max(positions, key=lambda name: wal_bytes(positions[name]))
    if new is None:
        return best
    if new not in positions:
        raise PromotionRefused(f"{new} cannot be reached, or must rejoin first; promotable: {', '.join(positions)}")
    if wal_bytes(positions[new]) < wal_bytes(positions[best]):
        raise PromotionRefused(
            f"{new} has received WAL up to {positions[new]} and {best} up to {positions[best]}: acknowledged rows would be lost; "
            f"promote {best}"
        )
    return new


def wal_bytes(position: str) -> int:
    """A place in the WAL (``16/B374D848``) as a number of bytes from its beginning."""
    high, _, low = position.partition("/")
    return (int(high, 16) << 32) + int(low, 16)
