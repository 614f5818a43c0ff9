"""Batches of input to events of a run: in order, one batch under way, counted, and with a word for every way it can end.

No options and no output here: ``append`` is the command.
"""

import asyncio
import re
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from isoline_client.cli.engine import Recorded
from isoline_client.cli.failures import CommandError
from isoline_client.cli.feed import Batch, Feed
from isoline_client.cli.lines import Line, LineError
from isoline_client.errors import IsolineError, OutcomeUnknown
from isoline_client.run import Run
from isoline_client.verify import Position

GRACE_S: Final = 3.0
"""How long Ctrl-C waits to learn what became of the batch that is under way."""

_EVENT_FIELD: Final = re.compile(r"events\[(\d+)\]\.?")


Advance = Callable[[int], None]


@dataclass(slots=True)
class Totals:
    """What was appended so far."""

    events: int = 0
    already_there: int = 0
    first_seq: int | None = None
    last: Position | None = None
    last_line: int = 0
    timestamps_left_out: int = 0
    complete: bool = False


class Appending:
    """Appends batches of one input to one run, and counts."""

    def __init__(self, run: Run, engine: str, expected_seq: int | None, *, keep_timestamps: bool) -> None:
        self.run_id = run.run_id
        self.totals = Totals()
        self.in_doubt: list[Line] = []
        """Lines that may or may not have been appended."""
        self._run = run
        self._engine = engine
        self._expected_seq = expected_seq
        self._keep_timestamps = keep_timestamps
        self._recorded = Recorded(run, engine)
        self._counter = 1

    async def put(self, batch: Batch) -> None:
        """Append a batch; with an engine, only what is not there yet."""
        lines, looked = batch.lines, False
        while True:
            there = await self._pass_over(lines)
            lines = lines[there:]
            if not lines:
                return
            try:
                await self._append(lines)
            except IsolineError as error:
                used_before = bool(self._engine) and error.code == "ALREADY_EXISTS"
                if not used_before or (looked and not there):
                    raise _at_its_line(error, lines) from None
            else:
                return
            self._recorded.look()
            looked = True

    async def close(self) -> None:
        await self._recorded.close()

    async def _pass_over(self, lines: list[Line]) -> int:
        """Count the leading lines that the engine has appended before."""
        there = await self._recorded.count_equal(lines, self._counter)
        if there and self._recorded.last is not None:
            self.totals.already_there += there
            self._count(lines[:there], self._recorded.first_seq, self._recorded.last)
        return there

    async def _append(self, lines: list[Line]) -> None:
        self.in_doubt = lines
        try:
            appended = await self._run.append(
                [line.event for line in lines],
                expected_seq=self._expected_seq,
                engine=self._engine,
                engine_seq=self._counter if self._engine else 0,
            )
        except OutcomeUnknown:
            raise
        except IsolineError:
            self.in_doubt = []
            raise
        self.in_doubt = []
        if appended.repeated and self._engine:
            self.totals.already_there += len(lines)
        else:
            self.totals.events += len(lines)
        self._count(lines, appended.first_seq, appended.last)

    def _count(self, lines: list[Line], first_seq: int, last: Position) -> None:
        totals = self.totals
        totals.first_seq = first_seq if totals.first_seq is None else totals.first_seq
        totals.last = last
        totals.last_line = lines[-1].number
        if not self._keep_timestamps:
            totals.timestamps_left_out += sum(line.has_timestamp for line in lines)
        self._counter += len(lines)
        if self._expected_seq is not None:
            self._expected_seq = last.seq + 1


async def carry_over(feed: Feed, appending: Appending, advance: Advance) -> None:
    """Append every batch; while one is under way the next is read. What an earlier batch ends with comes before what reading ends with."""
    under_way: asyncio.Task[None] | None = None
    try:
        async with aclosing(feed.batches()) as batches:
            async for batch in batches:
                await _done(under_way)
                under_way = asyncio.create_task(_put(appending, batch, advance, by_bytes=feed.size is not None))
        await _done(under_way)
    except (LineError, CommandError) as error:
        await _done(under_way)
        raise _in_words(error) from None
    finally:
        await _settle(under_way)
    appending.totals.complete = True


async def _put(appending: Appending, batch: Batch, advance: Advance, *, by_bytes: bool) -> None:
    if batch.lines:
        await appending.put(batch)
    advance(batch.input_bytes if by_bytes else len(batch.lines))


async def _done(task: "asyncio.Task[None] | None") -> None:
    if task is not None:
        await asyncio.shield(task)


async def _settle(task: "asyncio.Task[None] | None") -> None:
    """Interrupted: give what is under way a moment to end, so that it is known what was appended."""
    if task is None or task.done():
        return
    await asyncio.wait([task], timeout=GRACE_S)
    task.cancel()
    await asyncio.wait([task])


def _in_words(error: LineError | CommandError) -> CommandError:
    return CommandError(str(error), line=error.number) if isinstance(error, LineError) else error


def _at_its_line(error: IsolineError, lines: list[Line]) -> IsolineError:
    """The same error, with the number of the line that the server found at fault."""
    found = _EVENT_FIELD.search(error.message)
    if found is not None and int(found[1]) < len(lines):
        number = lines[int(found[1])].number
        error.message = f"line {number}: {_EVENT_FIELD.sub('', error.message)}"
        error.metadata = {name: _EVENT_FIELD.sub("", value) for name, value in error.metadata.items()} | {
            "line": str(number)
        }
    return error


def where_it_ended(appending: Appending) -> str:
    last, in_doubt = appending.totals.last_line, appending.in_doubt
    before = f"lines up to {last} of the input are in the run" if last else "no line of the input is in the run"
    if not in_doubt:
        return f"{before}, none behind them" if last else before
    doubted = f"{in_doubt[0].number} to {in_doubt[-1].number}"
    return f"{before}; it is not known whether lines {doubted} are, and none behind them is. {_ADVICE}"


_ADVICE: Final = "With --engine the same command, given again, appends what is missing."
