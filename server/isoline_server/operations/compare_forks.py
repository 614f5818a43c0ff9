"""Compare two forks (guarantee G7): their prefixes by digest, and what each executed behind the boundary record by record."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from isoline_server.domain.compare import Comparer, Comparison, DecodeContent, boundary_of
from isoline_server.domain.ids import RunId
from isoline_server.domain.run import Run
from isoline_server.operations.diff_runs import compared_end
from isoline_server.operations.reading import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class ForksCompared:
    """Which runs, and how they compare."""

    a: Run
    b: Run
    found: Comparison


async def compare_forks(reading: Reading, decode: DecodeContent, a_id: RunId, b_id: RunId) -> ForksCompared:
    """Compare run ``a`` with run ``b``. While a run is open its end is not known: only what both hold is compared."""
    a, b = await asyncio.gather(reading.fresh_run(a_id), reading.fresh_run(b_id))
    from_seq = boundary_of(a, b)
    a_open, b_open = a.head.terminal_seq is None, b.head.terminal_seq is None
    end = compared_end(a, b, a_open=a_open, b_open=b_open)
    comparer = Comparer(from_seq, decode)
    async with (
        aclosing(_records(reading, a, from_seq, end)) as left,
        aclosing(_records(reading, b, from_seq, end)) as right,
    ):
        for seq in range(from_seq, end):
            comparer.take(seq, await anext(left, None), await anext(right, None))
    prefix_equal = await _same_prefix(reading, a, b, from_seq)
    return ForksCompared(a=a, b=b, found=comparer.result(prefix_equal=prefix_equal, truncated=a_open or b_open))


async def _same_prefix(reading: Reading, a: Run, b: Run, until_seq: int) -> bool:
    """Equal digests prove equal bytes (guarantee G2). A run that does not reach so far has another prefix."""
    if min(a.head.seq, b.head.seq) < until_seq - 1:
        return False
    (left, _), (right, _) = await asyncio.gather(reading.mark(a, until_seq - 1), reading.mark(b, until_seq - 1))
    return left.digest == right.digest


async def _records(reading: Reading, run: Run, from_seq: int, end: int) -> AsyncGenerator[bytes]:
    until_seq = min(end, run.head.seq + 1)
    if from_seq >= until_seq:
        return
    async for page in reading.pages(run, from_seq, until_seq):
        for record in page.records:
            yield record
