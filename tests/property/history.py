"""One history: the runs it made, what it does to them, and the judgement of all it heard.

A step sends requests and notes what came back; ``settle`` then judges it, when nothing is under way any more and every doubt is resolved.
An answer in doubt is resolved as a client would: by the same request with the same id, through another region, until the answer is definite.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar

from isoline_client import Appended, IsolineError, NewEvent, Page, Position, State, errors
from isoline_client import Run as Handle
from property import events
from property.events import FORBIDDEN_BEHIND_THE_END
from property.model import Append, Broken, Creation, Fork, Log, Seen, prove
from property.traffic import Branch, Burst, Deed, Follow, Read, Rivals, Twins, Write, pick
from property.world import PATIENCE_S, REGIONS, STANDBYS, World

T = TypeVar("T")
HASTE_S: Final = 0.2
"""A caller that does not wait for an outage to end."""
NEAR_S: Final = 1.0
TRIES_MAX: Final = 12
"""Tries until a doubt is resolved."""


Disturbance: TypeAlias = Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]
"""Takes something down and brings it back; it is told what to do meanwhile."""


def new_id() -> str:
    return secrets.token_hex(12)


async def together(works: Sequence[Awaitable[T]]) -> list[T]:
    """Do all at the same time. When one fails the others are given up, and its error is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    failed = [task.exception() for task in tasks if not task.cancelled()]
    for error in failed:
        if error is not None:
            raise error
    return [task.result() for task in tasks]


class History:
    """The runs of one history. ``counts`` tell what happened, so that a test can say that it was not about nothing."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.logs: list[Log] = []
        self.appends: list[Append] = []
        self.counts: Counter[str] = Counter()
        self._turn = 0
        self._outage = False
        self._touched: set[Log] = set()
        self._new: dict[Log, Handle] = {}
        self._judgements: list[Callable[[], None]] = []

    def log(self, number: int) -> Log:
        return pick(self._own(), number)

    def _own(self) -> list[Log]:
        """The runs whose log is what was appended to it. A replay's is not, for the server adds to it where it differs from its source
        (``tests/guarantees/test_divergence_at_append.py``): replays are made and read here, and nothing is appended to them."""
        return [log for log in self.logs if not (isinstance(log.making, Fork) and log.making.mode == "replay")]

    # -- carrying out what changes something -------------------------------------------------------------------------------------------

    async def carry_out(self, change: Append | Creation | Fork, region: str, timeout_s: float = PATIENCE_S) -> Any:
        """Send a request until its answer is definite: the answer, or the error that is final."""
        for _ in range(TRIES_MAX):
            answer = await self._send(change, region, timeout_s)
            if not isinstance(answer, errors.Busy):
                return answer
            self.counts["in doubt"] += 1
            region, timeout_s = pick(REGIONS, REGIONS.index(region) + 1), PATIENCE_S
        raise Broken(
            f"first answer: {change.request_id} has no definite answer after {TRIES_MAX} tries, lastly {answer!r}"
        )

    async def _send(self, change: Append | Creation | Fork, region: str, timeout_s: float) -> Any:
        change.regions.add(region)
        try:
            return await change.send(self.world.client(region), timeout_s)
        except IsolineError as error:
            return error

    async def append(self, append: Append, region: str, timeout_s: float = PATIENCE_S) -> Any:
        """Append; a refusal is judged when the step is over, for then it is known who came first."""
        self._touched.add(append.log)
        before = append.log.next_seq
        answer = await self.carry_out(append, region, timeout_s)
        if isinstance(answer, Appended):
            self._note_appended(append, answer)
        else:
            self.counts[type(answer).__name__] += 1
            self._judgements.append(lambda: _prove_refusal(append, answer, before))
        return answer

    def _note_appended(self, append: Append, answer: Appended) -> None:
        first = append.answer is None
        append.log.take(append, answer)
        self.counts["appended" if first else "repeated"] += 1
        if first:
            self.appends.append(append)

    async def make(self, making: Creation | Fork, region: str) -> Any:
        """Make a run; its first appearance is judged when the step is over."""
        answer = await self.carry_out(making, region)
        if isinstance(answer, Handle):
            log = Log(f"r{len(self.logs)}", making, answer)
            self.logs.append(log)
            self._touched.add(log)
            self._new[log] = answer
            self.counts["made"] += 1
        return answer

    async def refuse(self, change: Append | Creation | Fork, region: str, *kinds: type[IsolineError]) -> None:
        """Send what must be refused, in one of these ways."""
        answer = await self.carry_out(change, region)
        prove(
            _guarantee(kinds),
            isinstance(answer, kinds),
            f"{region} should refuse {change} with {kinds}, and says {answer!r}",
        )
        self.counts[type(answer).__name__] += 1
        log = change.log if isinstance(change, Append) else change.source if isinstance(change, Fork) else None
        self._touched |= {log} if log is not None else set()

    # -- hearing -----------------------------------------------------------------------------------------------------------------------

    async def read(
        self,
        log: Log,
        region: str,
        from_seq: int,
        until_seq: int | None,
        freshness: Any,
        *,
        known: Position | None = None,
        whole: bool = False,
    ) -> None:
        """Read a range. What had been acknowledged before must be in it, unless a replica may be behind (and need not be ``whole``)."""
        due = log.next_seq if whole or freshness == "latest" else from_seq
        pages = (
            self.world.client(region).run(log.run_id).read_pages(from_seq, until_seq, freshness=freshness, known=known)
        )
        heard = await self._heard(log, region, self._listen(pages, lambda _: False))
        if heard is not None:
            at_least = due if until_seq is None else until_seq
            self._hear(log, Seen(region=region, from_seq=from_seq, pages=heard, at_least=at_least, at_most=until_seq))

    async def follow(self, log: Log, region: str, from_seq: int, until_seq: int) -> None:
        """Tail until ``until_seq`` is reached."""
        if from_seq < until_seq:
            pages = self.world.client(region).run(log.run_id).tail_pages(from_seq)
            heard = await self._heard(log, region, self._listen(pages, lambda page: page.last.seq + 1 >= until_seq))
            if heard is not None:
                self._hear(log, Seen(region=region, from_seq=from_seq, pages=heard, at_least=until_seq))

    async def _listen(self, stream: Any, enough: Callable[[Page], bool]) -> list[Page] | None:
        """The pages of a stream until there are enough; None when an outage kept them away."""
        pages: list[Page] = []
        try:
            async with asyncio.timeout(2 * PATIENCE_S), aclosing(stream):
                async for page in stream:
                    pages.append(page)
                    if enough(page):
                        break
        except errors.Busy:
            if self._outage:
                return None
            raise
        except TimeoutError as error:
            raise Broken(f"same prefix: a stream ended neither itself nor with enough: {pages[-1:]}") from error
        return pages

    async def _answered(self, log: Log, region: str, question: Awaitable[T]) -> T:
        """The answer to what must be answered, for it is in the log."""
        try:
            return await question
        except IsolineError as error:
            raise Broken(f"same prefix: {log}: {region} refuses what is in the log: {error!r}") from error

    async def _heard(self, log: Log, region: str, stream: Awaitable[T]) -> T | None:
        """As ``_answered``, but a refusal is judged only when the step is over: among what else happened its cause may be found."""
        try:
            return await self._answered(log, region, stream)
        except Broken as broken:
            text = str(broken)
            self._judgements.append(lambda: _break(text))
            return None

    def _hear(self, log: Log, seen: Seen) -> None:
        self.counts.update(f"read {page.source} in {seen.region}" for page in seen.pages)
        self._touched.add(log)
        self._judgements.append(lambda: log.prove_same(seen))

    async def state(self, log: Log, region: str, at_seq: int | None, freshness: Any) -> None:
        """The state and the recomputed digest of one prefix."""
        handle = self.world.client(region).run(log.run_id)
        state = await self._answered(log, region, handle.state(at_seq, freshness=freshness))
        prefix = await self._answered(log, region, handle.prefix(state.at_seq, recompute=True, freshness=freshness))
        self._judgements.append(lambda: _prove_state(log, region, at_seq, freshness, state, prefix.last))
        self.counts["states"] += 1

    # -- several at once ---------------------------------------------------------------------------------------------------------------

    async def race(self, deeds: Sequence[Deed]) -> None:
        """Do everything at the same time."""
        await together(self._begin(deeds))

    async def race_through(self, deeds: Sequence[Deed], disturb: Disturbance, *, spare: str = "") -> None:
        """Do everything while something goes down and comes back. Meanwhile all is read from the replicas, but not from ``spare``."""
        self._outage = True
        under_way = asyncio.ensure_future(together(self._begin(deeds)))
        try:
            await asyncio.sleep(0.005)  # into the middle of it
            await disturb(lambda: self._read_everything_near(spare))
        finally:
            await asyncio.wait([under_way])
            self._outage = False
        self._touched |= set(self.logs)
        under_way.result()

    async def _read_everything_near(self, spare: str) -> None:
        """What the replicas hold is served, and is a prefix. A run that a lagging one does not show is out of reach without its leader."""
        for region in sorted({*STANDBYS} - {spare}):
            try:
                async with asyncio.timeout(NEAR_S):
                    for log in list(self.logs):
                        await self.read(log, region, 0, None, "local")
                        await self.read(log, region, 0, None, "latest")
            except TimeoutError:
                self.counts["out of reach"] += 1

    def _begin(self, deeds: Sequence[Deed]) -> list[Awaitable[None]]:
        logs = self._own()
        return [self._do(deed, pick(logs, deed.run), f"racer{place}") for place, deed in enumerate(deeds)]

    async def _do(self, deed: Deed, log: Log, engine: str) -> None:
        match deed:
            case Write():
                await self._write(deed, log, engine)
            case Burst():
                await self._burst(deed, log, engine)
            case Twins():
                append = self._new_append(log, deed.kinds)
                await together([self.append(append, region) for region in deed.regions])
            case Rivals():
                await self._rivals(deed, log)
            case Read():
                await self.read(log, deed.region, deed.from_seq % (log.next_seq + 1), None, deed.freshness)
            case Follow():
                await self.follow(log, deed.region, deed.from_seq % (log.next_seq + 1), log.next_seq)
            case Branch():
                await self.fork(log, deed.from_seq, deed.region, "branch", "")

    def _new_append(self, log: Log, kinds: Sequence[str], **fields: Any) -> Append:
        return Append(request_id=new_id(), log=log, events=events.make(kinds), **fields)

    async def _write(self, deed: Write, log: Log, engine: str) -> None:
        append = self._new_append(log, deed.kinds)
        append.expected_seq = log.next_seq if deed.expects_next else None
        if deed.by_engine:
            append.engine, append.engine_seq = engine, log.engines.get(engine, 0) + 1
        await self.append(append, deed.region, HASTE_S if deed.hasty else PATIENCE_S)

    async def _burst(self, deed: Burst, log: Log, engine: str) -> None:
        for _ in range(deed.many):
            append = self._new_append(log, ["note"], engine=engine, engine_seq=log.engines.get(engine, 0) + 1)
            await self.append(append, deed.region, HASTE_S if deed.hasty else PATIENCE_S)

    async def _rivals(self, deed: Rivals, log: Log) -> None:
        """Of two bodies under one id at most one stands; the other is refused for its id, whoever comes first."""
        rivals = [self._new_append(log, deed.kinds) for _ in deed.regions]
        rivals[1].request_id = rivals[0].request_id
        answers = await together(
            [self.carry_out(each, region) for each, region in zip(rivals, deed.regions, strict=True)]
        )
        self._touched.add(log)
        won = [isinstance(answer, Appended) for answer in answers]
        prove("first answer", sum(won) <= 1, f"{log}: two bodies were taken under {rivals[0].request_id}")
        refused = all(isinstance(answer, errors.RequestIdReused) for answer in answers)
        prove("first answer", not refused, f"{log}: no body was taken under {rivals[0].request_id}")
        for rival, answer in zip(rivals, answers, strict=True):
            if isinstance(answer, Appended):
                self._note_appended(rival, answer)
            elif any(won):
                prove(
                    "first answer", isinstance(answer, errors.RequestIdReused), f"{log}: the other body got {answer!r}"
                )
            elif not isinstance(answer, errors.RequestIdReused):
                self._judgements.append(lambda r=rival, a=answer: _prove_refusal(r, a, 0))  # type: ignore[misc]

    # -- single steps ------------------------------------------------------------------------------------------------------------------

    async def create(self, region: str, home: str) -> None:
        prove(
            "refusal",
            isinstance(made := await self.make(Creation(request_id=new_id(), home=home), region), Handle),
            repr(made),
        )

    async def write(self, log: Log, region: str, kinds: Sequence[str], offset: int | None) -> None:
        """Append where the end is said to be: rightly (``offset`` 0), wrongly, or not at all."""
        append = self._new_append(log, kinds)
        if offset is not None:
            append.expected_seq = max(0, log.next_seq + offset)
        await self.append(append, region)

    async def end(self, log: Log, region: str, word: str) -> None:
        await self.append(Append(request_id=new_id(), log=log, events=(events.ending(word),)), region)

    async def write_as_engine(self, log: Log, region: str, engine: str, kinds: Sequence[str], skipped: int) -> None:
        """Append by an engine that counts; one that skips a number is refused."""
        append = self._new_append(log, kinds, engine=engine, engine_seq=log.engines.get(engine, 0) + 1 + skipped)
        if skipped:
            await self.refuse(append, region, errors.EngineGap)
        else:
            await self.append(append, region)

    async def fork(self, log: Log, number: int, region: str, mode: Any, home: str, pinned: bool = False) -> None:
        """Fork at some event that is there; at the first one when none was there yet, which a race may answer either way."""
        empty = log.next_seq == 0
        from_seq = 0 if empty else number % _fork_points(log)
        pin = log.digest(from_seq - 1) if pinned else None
        fork = Fork(request_id=new_id(), source=log, from_seq=from_seq, mode=mode, home=home, pin=pin)
        answer = await self.make(fork, region)
        allowed = (Handle, errors.ForkPointInvalid) if empty else Handle
        prove("refusal", isinstance(answer, allowed), f"{log}: no fork at {from_seq} in {region}:", repr(answer))

    async def fork_nowhere(self, log: Log, region: str, how: str, number: int) -> None:
        """A fork that may not be is refused and makes nothing: its id is still free."""
        wrong, kind = _wrong_fork(log, how, number)
        await self.refuse(wrong, region, kind)
        if log.next_seq:
            right = replace(wrong, from_seq=0, mode="branch", pin=None)
            made = await self.make(right, region)
            prove(
                "first answer",
                isinstance(made, Handle) and not made.repeated,
                f"{log}: a refused fork left {made!r} behind",
            )

    async def repeat(self, number: int, region: str, by_counter: bool) -> None:
        """Send an old request again; or the same events with the same counter, as an engine does that lost its notes."""
        append = pick(self.appends, number)
        again = replace(append, request_id=new_id()) if by_counter and append.engine else append
        answer = await self.append(again, region)
        prove(
            "first answer",
            isinstance(answer, Appended) and answer.repeated,
            f"{append.log}: a repeat of {append.answer} gives {answer!r}",
        )

    async def repeat_changed(self, number: int, region: str, how: str, other: int) -> None:
        """Send another request under an old id."""
        append = pick(self.appends, number)
        await self.refuse(_changed(append, how, self._neighbour(append.log, other)), region, errors.RequestIdReused)

    def _neighbour(self, log: Log, number: int) -> Log:
        """Another run whose home is the same."""
        home = log.run_id.split("-")[0]
        others = [each for each in self.logs if each is not log and each.run_id.split("-")[0] == home]
        return pick(others, number) if others else log

    async def repeat_making(self, number: int, region: str) -> None:
        """The run that was made is the answer, as it was made."""
        log = self.log(number)
        answer = await self.carry_out(log.making, region)
        same = isinstance(answer, Handle) and answer.run_id == log.run_id and answer.repeated
        prove("first answer", same, f"{log}: making it again in {region} gives {answer!r}")
        self._judgements.append(lambda: _prove_made(log, answer))
        self.counts["made again"] += 1

    async def repeat_making_changed(self, number: int, region: str) -> None:
        making = self.log(number).making
        if isinstance(making, Creation):
            await self.refuse(replace(making, workflow_id="other"), region, errors.RequestIdReused)
        else:
            await self.refuse(replace(making, from_seq=(making.from_seq or 0) + 1), region, errors.RequestIdReused)

    async def read_some(
        self, log: Log, region: str, bounds: tuple[int, int, bool], freshness: Any, known: int | None
    ) -> None:
        """Read a range, perhaps as the continuation of a position."""
        ends = sorted(number % (log.next_seq + 1) for number in bounds[:2])
        position = None if known is None else log.position(known % (log.next_seq + 1) - 1)
        await self.read(log, region, ends[0], None if bounds[2] else ends[1], freshness, known=position)

    async def read_wrongly(self, log: Log, region: str, how: str, number: int) -> None:
        """Ranges that are not there, and positions of another history, are refused."""
        handle, end = self.world.client(region).run(log.run_id), log.next_seq
        seq = number % (end + 1) - 1
        flipped = Position(seq, bytes([log.digest(seq)[0] ^ 1]) + log.digest(seq)[1:])
        ways: dict[str, tuple[Any, type[IsolineError]]] = {
            "from": (handle.read_pages(end + 1 + number), errors.SeqOutOfRange),
            "until": (handle.read_pages(0, end + 1 + number), errors.SeqOutOfRange),
            "known": (handle.read_pages(0, known=flipped), errors.PrefixMismatch),
            "tail": (handle.tail_pages(end + 1 + number), errors.SeqOutOfRange),
            "tail known": (handle.tail_pages(0, known=flipped), errors.PrefixMismatch),
        }
        stream, kind = ways[how]
        try:
            heard = await self._listen(stream, lambda _: True)
        except kind:
            self.counts[kind.__name__] += 1
            return
        raise Broken(f"refusal: {log}: {region} was read wrongly ({how}) and answered {heard}")

    async def tail_live(self, log: Log, region: str, writer: str, many: int) -> None:
        """A tail that stands at the end shows what is appended elsewhere then."""
        begins = log.next_seq
        if region in self.world.lagging:  # it would show them when it has caught up
            await self.world.resume_replay(region)
        await together([self.follow(log, region, begins, begins + many), self._write_soon(log, writer, many)])

    async def _write_soon(self, log: Log, region: str, many: int) -> None:
        await asyncio.sleep(0.02)
        for _ in range(many):
            await self.append(self._new_append(log, ["note"]), region)

    async def heads(self) -> None:
        """What a region says about every run without reading it."""
        region = pick(REGIONS, self._turn)
        for log in self.logs:
            info = await self._answered(log, region, self.world.client(region).run(log.run_id).info())
            prove("chain", info.head == log.position(log.next_seq - 1), f"{log}: {region} says its head is {info.head}")
            prove(
                "refusal",
                info.terminal_seq == log.terminal_seq,
                f"{log}: {region} says it ended at {info.terminal_seq}",
            )

    # -- judging -----------------------------------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Judge the step that is over, and see with what bytes the new events stand. Each time another region is asked."""
        region = pick(REGIONS, self._turn)
        self._turn += 1
        touched = [log for log in self.logs if log in self._touched]  # parents stand before their forks
        for log in touched:
            log.prove_dense()
        for log in touched:
            if log in self._new:
                _prove_made(log, self._new.pop(log))
            await self._absorb(log, region)
        judgements, self._judgements = self._judgements, []
        self._touched.clear()
        for judge in judgements:
            judge()

    async def _absorb(self, log: Log, region: str) -> None:
        pages = await self._unseen(log, region)
        if pages[-1].last.seq + 1 < log.next_seq:  # lost, or only not shown here?
            for other in REGIONS:
                end = (await self._unseen(log, other))[-1].last.seq + 1
                prove(
                    "same prefix",
                    end < log.next_seq,
                    f"{log}: {region} ends at {pages[-1].last}, and {other} has [0, {end})",
                )
        log.absorb(Seen(region=region, from_seq=log.seen_seq, pages=pages))

    async def _unseen(self, log: Log, region: str) -> list[Page]:
        stream = self.world.client(region).run(log.run_id).read_pages(log.seen_seq)
        pages = await self._answered(log, region, self._listen(stream, lambda _: False))
        assert pages, "an empty range is told by an empty page"
        return pages

    async def audit(self) -> None:
        """At the end: every run, whole, from every region and from the database itself."""
        await self.world.catch_up()
        await together([self._audit_from(log, region) for log in self.logs for region in REGIONS])
        await self.heads()
        await self.settle()
        await self._audit_rows()

    async def _audit_from(self, log: Log, region: str) -> None:
        await self.read(log, region, 0, None, "latest")
        await self.read(log, region, 0, None, "local", whole=True)
        await self.state(log, region, None, "latest")

    async def _audit_rows(self) -> None:
        """No row beyond the acknowledged ones, also where no read would find it."""
        names = ", ".join(f"'{log.run_id}'" for log in self.logs)
        sql = f"select run_id, count(*), min(seq), max(seq) from events where run_id in ({names}) group by run_id"
        stored = {
            run_id: (int(many), int(first), int(last)) for run_id, many, first, last in await self.world.rows(sql)
        }
        for log in self.logs:
            own = log.next_seq - log.from_seq
            due = (own, log.from_seq, log.next_seq - 1) if own else None
            prove(
                "exactly once",
                stored.get(log.run_id) == due,
                f"{log}: the database has {stored.get(log.run_id)} rows, not {due}",
            )


# -- what may be refused, and what a new run is ----------------------------------------------------------------------------------------


def _break(text: str) -> None:
    raise Broken(text)


def _guarantee(kinds: tuple[type[IsolineError], ...]) -> str:
    return "first answer" if errors.RequestIdReused in kinds else "refusal"


def _prove_refusal(append: Append, error: IsolineError, before: int) -> None:
    """An append was refused for a reason that held while it was under way."""
    log, why = append.log, f"{append.log}: {append.expected_seq=} was refused with {error!r}"
    if isinstance(error, errors.SeqConflict):
        prove(
            "refusal",
            append.expected_seq is not None and append.expected_seq == error.expected_seq != error.actual_seq,
            why,
        )
        prove(
            "refusal", before <= error.actual_seq <= log.next_seq, f"{why}; its end was from {before} to {log.next_seq}"
        )
    elif isinstance(error, errors.RunTerminal):
        forbidden = any(event.type in FORBIDDEN_BEHIND_THE_END for event in append.events)
        prove("refusal", forbidden and error.terminal_seq == log.terminal_seq, f"{why}; it ended at {log.terminal_seq}")
    else:
        raise Broken(f"refusal: {why}")


def _prove_made(log: Log, made: Handle) -> None:
    """A new run begins with its parent's prefix, and says so."""
    info, end = made.made, log.from_seq
    assert info is not None
    prove(
        "fork prefix" if log.parent else "chain",
        info.head == log.position(end - 1),
        f"{log}: made with head {info.head}",
    )
    lineage = [(part.start_seq, part.end_seq, part.origin_run_id) for part in info.lineage]
    prove("fork prefix", lineage == log.ranges(end), f"{log}: its lineage is {lineage}, not {log.ranges(end)}")
    making, fork = log.making, info.fork
    prove(
        "first answer",
        not making.home or info.home_region == making.home,
        f"{log}: at home in {info.home_region}, not {making.home}",
    )
    if isinstance(making, Fork):
        told = fork and (fork.source_run_id, fork.from_seq, fork.prefix_digest, fork.mode)
        due = (making.source.run_id, end, log.digest(end - 1), making.mode)
        prove("fork prefix", told == due, f"{log}: says it is a fork of {told}, not {due}")


def _prove_state(log: Log, region: str, asked: int | None, freshness: Any, state: State, prefix: Position) -> None:
    prove(
        "state",
        asked in (None, state.at_seq),
        f"{log}: {region} was asked for the state at {asked}, and gave {state.at_seq}",
    )
    latest = asked is not None or freshness == "local" or state.at_seq == log.next_seq
    prove(
        "state",
        latest and state.at_seq <= log.next_seq,
        f"{log}: {region} gave the state at {state.at_seq} of {log.next_seq}",
    )
    log.prove_state(state, region)
    prove(
        "chain",
        prefix == log.position(state.at_seq - 1),
        f"{log}: {region} computes {prefix}, not {log.position(state.at_seq - 1)}",
    )


def _fork_points(log: Log) -> int:
    """A fork may begin at every event up to the terminal one."""
    return log.next_seq if log.terminal_seq is None else log.terminal_seq + 1


def _wrong_fork(log: Log, how: str, number: int) -> tuple[Fork, type[IsolineError]]:
    fork = Fork(request_id=new_id(), source=log, from_seq=log.next_seq + number, mode="branch")
    if how == "unsaid":
        return replace(fork, from_seq=None), errors.InvalidRequest
    if how == "negative":
        return replace(fork, from_seq=-1), errors.InvalidRequest
    if how == "pin" and log.next_seq:
        return replace(fork, from_seq=number % _fork_points(log), pin=bytes(32)), errors.PrefixMismatch
    if how == "ended" and _fork_points(log) < log.next_seq:
        return replace(fork, from_seq=_fork_points(log), mode="replay"), errors.ForkPointInvalid
    return fork, errors.ForkPointInvalid


def _changed(append: Append, how: str, other: Log) -> Append:
    """Another request under the same id."""
    first, *rest = append.events
    match how:
        case "type":
            return _another(append, events=(NewEvent("example.changed", first.payload_bytes), *rest))
        case "causation":
            return _another(
                append, events=(NewEvent(first.type, first.payload_bytes, causation_id="a-cause-of-its-own"), *rest)
            )
        case "number":
            return _another(append, events=append.events[:-1] if rest else (first, *events.make(["note"])))
        case "expected":
            return _another(append, expected_seq=append.log.next_seq if append.expected_seq is None else None)
        case "engine":
            return _another(append, engine="another", engine_seq=append.engine_seq + 1)
        case "run" if other is not append.log:
            return _another(append, log=other)
        case _:
            return _another(append, events=(NewEvent(first.type, first.payload_bytes + b" "), *rest))


def _another(append: Append, **fields: Any) -> Append:
    return replace(append, answer=None, regions=set(), **fields)


CHANGES: Final = ("payload", "type", "causation", "number", "expected", "engine", "run")
