"""Compare two runs (OpenWOP v2 runs.md, diff): read both page by page behind the prefix they share by lineage, and compare their states."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from isoline_server.domain import lineage
from isoline_server.domain.canonical import JsonObject
from isoline_server.domain.diff import Differ, LogDiff, state_diff
from isoline_server.domain.event import EventContent
from isoline_server.domain.ids import RunId
from isoline_server.domain.run import Freshness, Run
from isoline_server.operations.get_state import StateReader
from isoline_server.operations.reading import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsDiff:
    """What differs, and how many events were equal by lineage and therefore not read."""

    a: Run
    b: Run
    log: LogDiff
    state: JsonObject
    shared_events: int


async def diff_runs(reading: Reading, states: StateReader, a_id: RunId, b_id: RunId, limit: int) -> RunsDiff:
    """Compare run ``a`` with run ``b``, reporting at most ``limit`` events. While a run is open its end is not known: only as much as both
    hold is compared then, and the answer says ``truncated``."""
    a, b = await asyncio.gather(reading.fresh_run(a_id), reading.fresh_run(b_id))
    shared = min(lineage.shared_prefix(a, b), a.head.seq + 1, b.head.seq + 1)
    a_open, b_open = a.head.terminal_seq is None, b.head.terminal_seq is None
    differ = Differ(limit=limit)
    end = compared_end(a, b, a_open=a_open, b_open=b_open)
    async with (
        aclosing(_contents(reading, states, a, shared, min(end, a.head.seq + 1))) as left,
        aclosing(_contents(reading, states, b, shared, min(end, b.head.seq + 1))) as right,
    ):
        for seq in range(shared, end):
            differ.compare(seq, await anext(left, None), await anext(right, None))
            if differ.full:
                break
    state_a, state_b = await asyncio.gather(
        states.state_at(a_id, a.head.seq + 1, Freshness.LATEST), states.state_at(b_id, b.head.seq + 1, Freshness.LATEST)
    )
    return RunsDiff(
        a=a,
        b=b,
        log=differ.result(still_open=a_open or b_open),
        state=state_diff(state_a.state, state_b.state),
        shared_events=shared,
    )


def compared_end(a: Run, b: Run, *, a_open: bool, b_open: bool) -> int:
    """The exclusive end of the comparison: the longer log's, but no further than an open log goes."""
    ends = [run.head.seq + 1 for run, is_open in ((a, a_open), (b, b_open)) if is_open]
    return min([*ends, max(a.head.seq, b.head.seq) + 1])


async def _contents(
    reading: Reading, states: StateReader, run: Run, from_seq: int, until_seq: int
) -> AsyncGenerator[EventContent]:
    if from_seq >= until_seq:
        return
    async for page in reading.pages(run, from_seq, until_seq):
        for seq, record in enumerate(page.records, start=page.first_seq):
            yield states.content(record, seq)
