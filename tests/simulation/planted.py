"""Bugs to plant: each takes one thing away that a guarantee stands on, as small as it can be, and the simulation must notice.

What belongs here: the bugs. What does not: how fast they are found (``test_planted_bugs``).
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from isoline_server.domain.effect import ClaimEffectCommand, Effect, EffectState, Move, decide_claim
from isoline_server.domain.errors import RunNotFound
from isoline_server.domain.ids import RunId
from isoline_server.domain.run import Freshness, Mark, Run, Seen, Source
from isoline_server.operations import claim_effect, lane
from isoline_server.operations.ports import RawPage
from isoline_server.operations.reading import Page, Reading
from simulation.database import Conditions
from simulation.link import Weather


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    """``breaks``: the guarantees of which one at least must be seen to be broken within so many ``seeds``."""

    name: str
    breaks: tuple[str, ...]
    seeds: int
    plant: Callable[[Conditions, Weather], None] = lambda _conditions, _weather: None
    patched: Callable[[], AbstractContextManager[Any]] = nullcontext


def _without(condition: str) -> Callable[[Conditions, Weather], None]:
    def plant(conditions: Conditions, _: Weather) -> None:
        setattr(conditions, condition, False)

    return plant


def _not_frank(_: Conditions, weather: Weather) -> None:
    weather.frank = False


def _no_receipt_looked_up() -> AbstractContextManager[Any]:
    async def answer_nothing(self: lane.Lane, batch: Sequence[lane.Pending]) -> None:
        """A lane that never looks whether it did it already."""

    return patch.object(lane.Lane, "_answer_from_receipts", answer_nothing)


def _unverified_local_page() -> AbstractContextManager[Any]:
    def trust(self: Reading, run: Run, raw: RawPage, before: Mark, source: Source) -> Page:
        last = Mark(seq=before.seq + len(raw.records), digest=raw.digests[-1], end_byte=raw.last_end_byte)
        return Page(records=tuple(raw.records), before=before, last=last, source=source)

    return patch.object(Reading, "_verified", trust)


def _end_where_local_ends() -> AbstractContextManager[Any]:
    honest = Reading.run

    async def local_head(self: Reading, run_id: RunId, freshness: Freshness) -> tuple[Run, Seen]:
        del freshness
        return await honest(self, run_id, Freshness.LOCAL)

    return patch.object(Reading, "run", local_head)


def _local_absence() -> AbstractContextManager[Any]:
    honest = Reading.run

    async def believe(self: Reading, run_id: RunId, freshness: Freshness) -> tuple[Run, Seen]:
        if freshness is Freshness.LOCAL and await self._ask_local(_shows(run_id)) is False:
            raise RunNotFound(run_id)
        return await honest(self, run_id, freshness)

    return patch.object(Reading, "run", believe)


def _shows(run_id: RunId) -> Callable[[Any], Any]:
    async def look(reader: Any) -> bool:
        return await reader.run(run_id) is not None

    return look


@contextmanager
def _early_acknowledgement() -> Iterator[None]:
    honest = lane.Lane._send
    under_way: set[asyncio.Task[Any]] = set()

    async def send(self: lane.Lane, groups: dict[RunId, Any]) -> frozenset[RunId]:
        task = asyncio.create_task(honest(self, groups))
        under_way.add(task)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return frozenset(groups)

    with patch.object(lane.Lane, "_send", send):
        yield


def _granted_again() -> AbstractContextManager[Any]:
    def decide(effect: Effect, command: ClaimEffectCommand) -> Move | None:
        move = decide_claim(effect, command)
        if move is None or move.state is not EffectState.IN_DOUBT:
            return move
        return replace(move, state=EffectState.CLAIMED, lease_epoch=command.lease_epoch)

    return patch.object(claim_effect, "decide_claim", decide)


PLANTED = (
    PlantedBug(name="receipts are not unique", breaks=("G8",), seeds=100, plant=_without("unique_receipts")),
    PlantedBug(name="no receipt is looked up", breaks=("G8",), seeds=100, patched=_no_receipt_looked_up),
    PlantedBug(name="an append's epoch is not checked", breaks=("G10",), seeds=400, plant=_without("append_epoch")),
    PlantedBug(name="an effect's epoch is not checked", breaks=("G10",), seeds=400, plant=_without("effect_epoch")),
    PlantedBug(
        name="a request leaves without a live lease", breaks=("G10",), seeds=100, plant=_without("outbound_lease_lives")
    ),
    PlantedBug(
        name="a run is claimed while it is leased", breaks=("G10",), seeds=100, plant=_without("claim_waits_for_lease")
    ),
    PlantedBug(name="an incomplete local page is served", breaks=("G3",), seeds=100, patched=_unverified_local_page),
    PlantedBug(name="the log ends where the replica does", breaks=("G3",), seeds=100, patched=_end_where_local_ends),
    PlantedBug(name="the replica's not found is believed", breaks=("G3",), seeds=200, patched=_local_absence),
    PlantedBug(name="an unknown fate counts as not done", breaks=("G8",), seeds=400, plant=_not_frank),
    PlantedBug(
        name="acknowledged before it is committed", breaks=("G1", "G8"), seeds=100, patched=_early_acknowledgement
    ),
    PlantedBug(name="a stale head is not compared", breaks=("G1", "G8"), seeds=100, plant=_without("compare_and_set")),
    PlantedBug(name="an effect is granted again after a takeover", breaks=("G10",), seeds=200, patched=_granted_again),
)
