"""Clients of a simulated world: they make runs, append, repeat, read and fork, through any region, and keep what they were told.

What belongs here: what is asked, and rules over one answer that can be judged at once. What does not: rules over all (``history``).
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from isoline_server.domain.append import AppendCommand, Outcome
from isoline_server.domain.errors import (
    ChainBroken,
    ForkPointInvalid,
    IsolineError,
    PrefixMismatch,
    RequestIdReused,
    RunNotFound,
    SeqOutOfRange,
    StoreUnavailable,
)
from isoline_server.domain.event import EventContent
from isoline_server.domain.fork import ForkCommand
from isoline_server.domain.ids import Region, RunId, Tenant
from isoline_server.domain.run import ForkMode, Freshness, Run, Source
from isoline_server.operations.append import append_events
from isoline_server.operations.read_events import ReadCommand, read_events
from isoline_server.operations.reading import Known, Page
from simulation.history import UNKNOWN, History, Request
from simulation.process import ConnectionLost, Premises, Process, Server, Unreachable

T = TypeVar("T")

TENANT = Tenant("acme")
WORKFLOW = "sim"
TRIES_MAX = 4
MIXED = (40, 30, 14, 4, 6, 6)
CROWDED = (90, 4, 6, 0, 0, 0)
"""How often each call is made: append, read, repeat, create, fork, reuse."""
CLIENT_ERRORS = (IsolineError, ConnectionLost, Unreachable, TimeoutError)


@dataclass(slots=True)
class Stage:
    """What the players of one world share. ``runs`` are those that somebody was told of."""

    premises: Premises
    history: History
    servers: list[Server]
    runs: list[RunId]
    tokens: list[tuple[RunId, Known]]
    """Prefix tokens that somebody was given."""
    crowded: bool
    """Everybody appends to one run, without a pause."""
    live_executors: bool = True

    def some_server(self) -> Server:
        return self.premises.rng.choice(self.servers)


TIMEOUTS_S = (0.05, 0.3, 2.0, 10.0)


async def append(
    stage: Stage,
    who: str,
    request: Request,
    command: AppendCommand,
    *,
    timeouts_s: Sequence[float] = TIMEOUTS_S,
    server: Server | None = None,
) -> Outcome:
    """One call of a request; ``command`` is its, or the same under another id or epoch. Raises one of ``CLIENT_ERRORS``."""
    rng = stage.premises.rng
    timeout_s, lane_says = rng.choice(timeouts_s), rng.random() < 0.4

    async def carry_out(process: Process) -> Outcome:
        if lane_says:
            # Without a deadline around it: the lane itself says what came of it when its time is over.
            return await process.lanes.append(command, stage.premises.now_s() + timeout_s)
        return await append_events(process.lanes, command, timeout_s)

    request.under_way += 1
    stage.premises.trace.add(who, "append", (command.run_id, command.request_id, command.lease_epoch))
    try:
        async with asyncio.timeout(timeout_s + rng.random() * (5.0 if lane_says else 1.0)):
            outcome = await (server or stage.some_server()).call(who, "append", carry_out)
    except CLIENT_ERRORS as error:
        request.failed(error)
        raise
    finally:
        request.under_way -= 1
    stage.history.check_first_answer(request, outcome)
    request.answers.append((outcome, command.lease_epoch))
    if request.answered is None:
        request.answered = stage.history.tick()
    return outcome


class Client:
    """One caller, with retries as a careful one makes them: under the same request id, until it knows or gives up."""

    def __init__(self, stage: Stage, name: str) -> None:
        self._stage = stage
        self._name = name
        self._rng: random.Random = stage.premises.rng
        self._count = 0
        self._heads: dict[RunId, int] = {}
        self._engine_seqs: dict[RunId, int] = {}

    async def work(self, calls: int) -> None:
        """Make so many calls, one after another."""
        await self._create()
        for _ in range(calls):
            crowded = self._stage.crowded
            await asyncio.sleep(self._rng.random() * (0.01 if crowded else self._rng.choice((0.01, 0.1, 1.5))))
            if not self._stage.runs:
                await self._create()
                continue
            what = self._rng.choices(
                (self._append, self._read, self._repeat, self._create, self._fork, self._reuse),
                CROWDED if crowded else MIXED,
            )[0]
            await what()

    # -- appending -----------------------------------------------------------------------------------------------------------------

    async def _append(self) -> None:
        await self._try(
            self._new_request(self._stage.runs[0] if self._stage.crowded else self._rng.choice(self._stage.runs))
        )

    def _new_request(self, run_id: RunId) -> Request:
        rng = self._rng
        ends = rng.random() < 0.03
        count = rng.choice((1, 1, 1, 2, 3))
        contents = tuple(self._content("run.completed" if ends else "sim.noted") for _ in range(1 if ends else count))
        expects = rng.random() < (0.05 if self._stage.crowded else 0.35)
        expected_seq = self._heads.get(run_id, -1) + 1 if expects else None
        engine = self._name if rng.random() < 0.3 else ""
        command = AppendCommand(
            tenant=TENANT,
            run_id=run_id,
            request_id=self._request_id(),
            contents=contents,
            causation_ids=("",) * len(contents),
            expected_seq=expected_seq,
            engine=engine,
            engine_seq=self._engine_seqs.get(run_id, 0) + 1 if engine else 0,
        )
        request = Request(command=command, invoked=self._stage.history.tick())
        self._stage.history.requests.append(request)
        return request

    async def _try(self, request: Request) -> None:
        command = request.command
        for _ in range(TRIES_MAX):
            try:
                outcome = await append(self._stage, self._name, request, command)
            except UNKNOWN:
                if command.engine and self._rng.random() < 0.5:
                    # An engine that came back knows its counter, and no request id.
                    command = replace(command, request_id=self._request_id())
                continue
            except CLIENT_ERRORS:
                return
            self._heads[command.run_id] = max(outcome.last_seq, self._heads.get(command.run_id, -1))
            self._stage.tokens.append((command.run_id, Known(seq=outcome.last_seq, digest=outcome.digest)))
            if command.engine:
                last = command.engine_seq + len(command.contents) - 1
                self._engine_seqs[command.run_id] = max(last, self._engine_seqs.get(command.run_id, 0))
            return

    async def _repeat(self) -> None:
        """Ask again what anybody asked before: perhaps while it is under way, perhaps long after."""
        if not self._stage.history.requests:
            return
        request = self._rng.choice(self._stage.history.requests[-12:])
        with suppress(*CLIENT_ERRORS):
            await append(self._stage, self._name, request, request.command)

    async def _reuse(self) -> None:
        """Another body under a request id that was acknowledged: never taken. (An engine's may have been answered by its counter alone.)"""
        requests = self._stage.history.requests[-12:]
        known = [request for request in requests if request.answers and not request.command.engine]
        if not known:
            return
        command = self._rng.choice(known).command
        other = replace(command, contents=(self._content("sim.noted"),), causation_ids=("",), engine="", engine_seq=0)
        try:
            await self._stage.some_server().call(
                self._name, "reuse", lambda process: append_events(process.lanes, other, 1.0)
            )
        except (RequestIdReused, *CLIENT_ERRORS):
            return
        self._stage.premises.report("G8", f"{command.request_id} was taken with another body")

    def _content(self, kind: str) -> EventContent:
        self._count += 1
        return EventContent(type=kind, payload=f'{{"m":"{self._name}-{self._count}"}}'.encode())

    def _request_id(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count:04}".ljust(16, "-")

    # -- making runs ---------------------------------------------------------------------------------------------------------------

    async def _create(self) -> None:
        request_id, executed = self._request_id(), self._rng.random() < 0.6
        home: Region = self._rng.choice(self._stage.premises.regions)

        async def carry_out(process: Process) -> tuple[Run, bool]:
            return await process.maker.create(
                tenant=TENANT,
                request_id=request_id,
                workflow_id=WORKFLOW,
                tags=(),
                home=home,
                asked_home=home,
                executed=executed,
                timeout_s=self._rng.choice((0.05, 2.0)),
            )

        await self._make("create", carry_out)

    async def _make(self, what: str, carry_out: Callable[[Process], Awaitable[tuple[Run, bool]]]) -> Run | None:
        """Try to make a run until it is known what came of it, and then once more at times: it must be the same run."""
        made: Run | None = None

        async def call(process: Process) -> tuple[Run, bool]:
            return await carry_out(process)

        surely_not = True
        for last in (*(False,) * TRIES_MAX, True):
            try:
                run, repeated = await self._stage.some_server().call(self._name, what, call)
            except UNKNOWN:
                surely_not = False
                continue
            except CLIENT_ERRORS as error:
                if last or not isinstance(error, (StoreUnavailable, Unreachable)):
                    raise
                continue
            if made is None and repeated and surely_not:
                self._stage.premises.report("G8", f"{run.run_id} was said not to have been made, and had been")
            if made is not None and (made.run_id != run.run_id or not repeated):
                self._stage.premises.report("G8", f"one request made {made.run_id} and {run.run_id}")
            if made is None:
                self._stage.runs.append(run.run_id)
            made = run
            if self._rng.random() < 0.7:
                return made
        return made

    async def _fork(self) -> None:
        source_run_id, known = self._some_token()
        if known is None or known.seq < 0:
            return
        home = self._rng.choice(self._stage.premises.regions)
        command = ForkCommand(
            source_run_id=source_run_id,
            from_seq=known.seq,
            mode=ForkMode.BRANCH,
            overlay=b"",
            home=home,
            expected_prefix_digest=b"",
        )
        request_id, begun = self._request_id(), len(self._stage.premises.database.commits)

        async def carry_out(process: Process) -> tuple[Run, bool]:
            return await process.maker.fork(
                tenant=TENANT,
                request_id=request_id,
                command=command,
                asked_home=home,
                timeout_s=self._rng.choice((0.05, 2.0)),
            )

        try:
            child = await self._make("fork", carry_out)
        except ForkPointInvalid as error:
            head_seq = self._stage.history.head_at(source_run_id, begun)
            if "no event" in str(error) and head_seq is not None and known.seq <= head_seq:
                self._stage.premises.report("G3", f"fork at {known.seq} of {source_run_id} was refused: {error}")
            return
        except RunNotFound:
            self._stage.premises.report("G3", f"fork: {source_run_id} exists and was said not to")
            return
        except CLIENT_ERRORS:
            return
        if child is not None and child.fork is not None and known.seq > 0:
            true = self._stage.history.true_record(source_run_id, known.seq - 1)
            if true is None or true[1] != child.fork.prefix_digest:
                self._stage.premises.report("G5", f"fork {child.run_id} pins another prefix than its source's")

    # -- reading -------------------------------------------------------------------------------------------------------------------

    def _some_token(self) -> tuple[RunId, Known | None]:
        if self._stage.tokens and self._rng.random() < 0.6:
            return self._rng.choice(self._stage.tokens)
        return self._rng.choice(self._stage.runs), None

    async def _read(self) -> None:
        run_id, known = self._some_token()
        top = self._heads.get(run_id, -1) if known is None else known.seq
        until_seq = self._rng.randrange(top + 2) if self._rng.random() < 0.5 else None
        from_seq = (
            self._rng.randrange((top + 1 if until_seq is None else until_seq) + 1) if self._rng.random() < 0.5 else 0
        )
        freshness = self._rng.choice((Freshness.LATEST, Freshness.LOCAL))
        command = ReadCommand(run_id=run_id, from_seq=from_seq, until_seq=until_seq, freshness=freshness, known=known)
        await self.look(self._stage.some_server(), command)

    async def look(self, server: Server, command: ReadCommand) -> bool:
        """Read once and judge the answer; whether there was one."""
        begun, begun_s = len(self._stage.premises.database.commits), self._stage.premises.now_s()

        async def carry_out(process: Process) -> list[Page]:
            async with aclosing(read_events(process.reading, command)) as pages:
                return [page async for page in pages]

        try:
            async with asyncio.timeout(5.0):
                pages = await server.call(self._name, "read", carry_out)
        except (RunNotFound, SeqOutOfRange, PrefixMismatch, ChainBroken) as error:
            self._check_denial(command, begun, error)
            return False
        except CLIENT_ERRORS:
            return False
        self._stage.history.check_pages(command.run_id, command.from_seq, pages)
        self._check_reach(command, begun, begun_s, pages)
        last = pages[-1].last
        self._heads[command.run_id] = max(last.seq, self._heads.get(command.run_id, -1))
        self._stage.tokens.append((command.run_id, Known(seq=last.seq, digest=last.digest)))
        return True

    def _check_denial(self, command: ReadCommand, begun: int, error: Exception) -> None:
        """What is denied must have been absent when the call began, for a log only grows; damage and mismatch there is none of."""
        head_seq = self._stage.history.head_at(command.run_id, begun)
        match error:
            case RunNotFound():
                wrong = head_seq is not None
            case SeqOutOfRange(field="known.seq"):
                wrong = head_seq is not None and error.got <= head_seq
            case SeqOutOfRange():
                wrong = head_seq is not None and error.got <= head_seq + 1
            case _:
                wrong = True
        if wrong:
            self._stage.premises.report(
                "G3", f"{command.run_id} had its head at {head_seq}, and it was said: {error!r}"
            )

    def _check_reach(self, command: ReadCommand, begun: int, begun_s: float, pages: list[Page]) -> None:
        end = pages[-1].last.seq + 1
        if command.until_seq is not None:
            # A range that begins behind its end is answered with what stands between, up to a head read freshly.
            if command.from_seq <= command.until_seq != end:
                self._stage.premises.report(
                    "G3", f"[.., {command.until_seq}) of {command.run_id} was served up to {end}"
                )
            return
        stale = pages[-1].source is Source.STALE
        if stale:
            if pages[-1].staleness_ms is None:
                return
            begun = self._commits_at(begun_s - pages[-1].staleness_ms / 1_000)
        elif command.freshness is Freshness.LOCAL:
            return
        head_seq = self._stage.history.head_at(command.run_id, begun)
        if head_seq is not None and end < head_seq + 1:
            what = f"said to be {pages[-1].staleness_ms} ms old" if stale else "said to be the latest"
            self._stage.premises.report("G3", f"{command.run_id} was served up to {end} of {head_seq + 1}, {what}")

    def _commits_at(self, at_s: float) -> int:
        return sum(made_s <= at_s for made_s in self._stage.premises.commit_times_s)
