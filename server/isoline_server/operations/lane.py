"""One lane: the appends of one home region that wait for the database, coalesced into one statement while another is in flight.

A lane is a queue and one task. The task takes what waits, decides each append against the newest head it knows (a hint), and writes all
of it in one statement; the database's compare-and-set decides. What lost its race is decided again on fresh heads; what the database
would not say is looked up by its receipt. Where this region's own replica counts towards the quorum, what it shows is an answer, too, and may
be here before the leader's (``nearby``). So an append lands once or not at all, and one caller's conflict costs the others a retry at most.

Not here: how an append is decided (``domain.append``), SQL (``store``), who may append (``api``).
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from isoline_server.domain import limits
from isoline_server.domain.append import (
    Accepted,
    AppendCommand,
    Encode,
    Outcome,
    Rewritten,
    SpellV1,
    Stamping,
    decide_append,
)
from isoline_server.domain.errors import (
    Draining,
    EngineCounterReused,
    HeadContended,
    IsolineError,
    LeaseLost,
    OutcomeUnknown,
    RequestIdReused,
    RunNotFound,
    StoreUnavailable,
    TooManyWaiting,
)
from isoline_server.domain.ids import Region, RunId
from isoline_server.domain.receipt import Receipt, append_hash, append_keys
from isoline_server.domain.run import ERA, ForkMode, Head
from isoline_server.operations.backoff import Backoff
from isoline_server.operations.nearby import Nearby
from isoline_server.operations.ports import (
    Clock,
    GroupWrite,
    HeadHint,
    IdSource,
    KeySeen,
    LogWriter,
    Notify,
    Replays,
    StoreRetryable,
)

HINTS_MAX = 10_000
"""Heads one lane remembers. A forgotten one costs its next append one read."""

GATHER_S = 0.0005
"""How long a lane with several callers lets appends gather before it writes. A lone caller never waits."""

GIVE_UP_AFTER_S = 60.0
"""How long a lane goes on when no caller's deadline ends it first."""


@dataclass(eq=False, slots=True)
class Pending:
    """One append on its way. ``in_doubt``: a statement with it has left and its fate is not known. ``rewritten``: what is written for it."""

    command: AppendCommand
    keys: tuple[bytes, ...]
    request_hash: bytes
    size: int
    future: asyncio.Future[Outcome]
    give_up_at_s: float
    rewritten: Rewritten | None = None
    in_doubt: bool = False
    losses: int = 0
    own_digests: list[bytes] = field(default_factory=list)
    """Last digests this process tried for the append: a receipt with one of them is our own landed write, not somebody's earlier call."""


@dataclass(slots=True)
class _Group:
    """What one statement will do to one run."""

    previous: Head
    head: Head
    engines: dict[str, int] = field(default_factory=dict)
    accepted: list[tuple[Pending, Accepted]] = field(default_factory=list)


class Lane:
    """The appends of one home region (or of one of its lanes). ``run()`` is its only task; ``append()`` is called by many."""

    def __init__(
        self,
        *,
        home: Region,
        region: Region,
        writer: LogWriter,
        encode: Encode,
        spell_v1: SpellV1,
        replays: Replays,
        clock: Clock,
        ids: IdSource,
        notify: Notify,
        near: Nearby | None = None,
    ) -> None:
        self._home = home
        self._region = region
        self._writer = writer
        self._encode = encode
        self._spell_v1 = spell_v1
        self._replays = replays
        self._clock = clock
        self._ids = ids
        self._notify = notify
        self._near = near
        self._waiting: deque[Pending] = deque()
        self._by_key: dict[bytes, Pending] = {}
        self._hints: OrderedDict[RunId, HeadHint] = OrderedDict()
        self._wake = asyncio.Event()
        self._closing = False

    # -- for callers -------------------------------------------------------------------------------------------------------------

    async def append(self, command: AppendCommand, give_up_at_s: float | None) -> Outcome:
        """Append, and wait until it is committed. A repeat of a call that is still under way gets the first one's outcome.

        A caller that goes away does not take its append back: what was accepted is carried out, and its receipt answers a repeat.
        """
        keys, request_hash = append_keys(command), append_hash(command)
        while (first := self._under_way(keys)) is not None:
            try:
                return await _join(first, request_hash, command)
            except LeaseLost:
                if first.command.lease_epoch == command.lease_epoch:
                    raise
                # The holder before this one was refused with the same append: that is no answer to its successor.
                self._forget(first)
        if self._closing:
            raise Draining
        if len(self._waiting) >= limits.LANE_QUEUE_MAX:
            raise TooManyWaiting("appends waiting", limits.LANE_QUEUE_MAX)
        return await asyncio.shield(self._enqueue(command, keys, request_hash, give_up_at_s).future)

    def remember(self, run_id: RunId, head: Head) -> None:
        """Take a head that was just made as the newest hint."""
        self._put_hint(run_id, HeadHint(head))

    def hint(self, run_id: RunId) -> Head | None:
        """The newest head this lane knows. The true one is this or a later one."""
        found = self._hints.get(run_id)
        return None if found is None else found.head

    def close(self) -> None:
        """Take no more appends; ``run()`` ends once what waits is answered."""
        self._closing = True
        self._wake.set()

    def _under_way(self, keys: Iterable[bytes]) -> Pending | None:
        return next((self._by_key[key] for key in keys if key in self._by_key), None)

    def _enqueue(
        self, command: AppendCommand, keys: tuple[bytes, ...], request_hash: bytes, give_up_at_s: float | None
    ) -> Pending:
        loop = asyncio.get_running_loop()
        pending = Pending(
            command=command,
            keys=keys,
            request_hash=request_hash,
            size=command.payload_bytes,
            future=loop.create_future(),
            give_up_at_s=loop.time() + GIVE_UP_AFTER_S if give_up_at_s is None else give_up_at_s,
        )
        for key in keys:
            self._by_key[key] = pending
        pending.future.add_done_callback(lambda _: self._forget(pending))
        self._waiting.append(pending)
        self._wake.set()
        return pending

    def _forget(self, pending: Pending) -> None:
        for key in pending.keys:
            if self._by_key.get(key) is pending:
                del self._by_key[key]
        pending.future.exception()  # marks it as seen: its caller may be gone

    # -- the task ----------------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write what waits until the lane is closed and empty."""
        crowded = False
        while True:
            while not self._waiting:
                if self._closing:
                    return
                self._wake.clear()
                await self._wake.wait()
            if crowded:
                # Answers of the last statement bring their callers' next appends: the little wait costs less than a statement each.
                await asyncio.sleep(GATHER_S)
            batch = self._take()
            crowded = len(batch) > 1
            await self._carry_out(batch)

    def _take(self) -> list[Pending]:
        batch = [self._waiting.popleft()]
        size = batch[0].size
        while self._waiting and len(batch) < limits.LANE_APPENDS_MAX:
            size += self._waiting[0].size
            if size > limits.LANE_BYTES_MAX:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _carry_out(self, batch: list[Pending]) -> None:
        """Bring every append of the batch to an outcome. Appends of one run keep their order."""
        backoff = Backoff()
        apart = False
        while batch := self._still_wanted(batch):
            try:
                fresh = await self._load_unknown(batch)
                if apart:
                    await self._write_apart(_unanswered(batch), fresh)
                else:
                    await self._write(await self._decide(_unanswered(batch), fresh))
            except KeySeen:
                self._drop_hints(batch)
            except StoreRetryable:
                self._drop_hints(batch)
                await backoff.pause()
            except Exception as error:  # noqa: BLE001 - one bad append must not fail its neighbours, nor end the lane
                self._drop_hints(batch)
                if apart:
                    _fail_all(batch, error)
                apart = True
            batch = _unanswered(batch)

    async def _write(self, groups: dict[RunId, _Group]) -> None:
        """One statement for all groups. Appends whose fate it leaves open stay in doubt; the others do not become doubtful by it."""
        if not groups:
            return
        sent = [pending for group in groups.values() for pending, _ in group.accepted if not pending.in_doubt]
        for group in groups.values():
            for pending, accepted in group.accepted:
                pending.in_doubt = True
                pending.own_digests.append(accepted.head.digest)
        clean = False
        try:
            moved = await self._send(groups)
            clean = True
        except KeySeen:
            clean = True
            raise
        except StoreRetryable as error:
            clean = not error.ambiguous
            raise
        finally:
            if clean:
                for pending in sent:
                    pending.in_doubt = False
        for run_id, group in groups.items():
            self._settle(run_id, group, landed=run_id in moved)
        self._notify((run_id, groups[run_id].head.seq) for run_id in moved)

    async def _send(self, groups: dict[RunId, _Group]) -> frozenset[RunId]:
        """Send the statement; return the runs that moved, as the leader says, or as this region's replica shows."""
        statement = self._writer.append(self._home, [_group_write(run_id, group) for run_id, group in groups.items()])
        if self._near is None:
            return await statement
        receipts = {
            pending.keys[0]: accepted.head.digest for group in groups.values() for pending, accepted in group.accepted
        }
        return await self._near.first(statement, self._home, receipts, frozenset(groups))

    async def _write_apart(self, batch: Sequence[Pending], fresh: set[RunId]) -> None:
        """One statement an append, so that one the database cannot take fails alone. What stands behind an undecided one of its run waits."""
        held: set[RunId] = set()
        for pending in batch:
            run_id = pending.command.run_id
            if run_id in held:
                continue
            try:
                await self._write(await self._decide([pending], fresh))
            except (KeySeen, StoreRetryable):
                raise
            except Exception as error:  # noqa: BLE001 - reported to the caller of this append
                self._drop_hints([pending])
                _fail(pending, error)
                held.add(run_id)
            if not pending.future.done():
                held.add(run_id)
            fresh.discard(run_id)

    def _settle(self, run_id: RunId, group: _Group, *, landed: bool) -> None:
        if not landed:
            self._hints.pop(run_id, None)
            for pending, _ in group.accepted:
                pending.losses += 1
            return
        known = self._hints.get(run_id)
        self._put_hint(run_id, HeadHint(group.head, {**(known.engine_seqs if known else {}), **group.engines}))
        for pending, accepted in group.accepted:
            _answer(
                pending,
                Outcome(
                    first_seq=accepted.first_seq,
                    last_seq=accepted.head.seq,
                    digest=accepted.head.digest,
                    repeated=False,
                ),
            )

    # -- deciding ----------------------------------------------------------------------------------------------------------------

    async def _decide(self, batch: Sequence[Pending], fresh: set[RunId]) -> dict[RunId, _Group]:
        """Decide every append on the newest known heads; return what to write.

        A refusal counts only on a head that was read just now and that nothing undecided stands before. Otherwise the append, and all
        behind it of the same run, wait for the next round, which reads the head afresh.
        """
        groups: dict[RunId, _Group] = {}
        waiting: set[RunId] = set()
        for pending in batch:
            run_id = pending.command.run_id
            if run_id in waiting:
                continue
            try:
                await self._compare(pending, groups)
                self._decide_one(pending, groups)
            except IsolineError as error:
                if run_id in fresh and run_id not in groups:
                    _fail(pending, error)
                else:
                    waiting.add(run_id)
        for run_id in waiting - groups.keys():
            self._hints.pop(run_id, None)
        return groups

    async def _compare(self, pending: Pending, groups: dict[RunId, _Group]) -> None:
        """Let what is appended to a replay be compared with its source, behind everything before it. The lane waits meanwhile."""
        run_id = pending.command.run_id
        hint = self._hints.get(run_id)
        if hint is not None and hint.head.mode is ForkMode.REPLAY:
            head = groups[run_id].head if run_id in groups else hint.head
            pending.rewritten = await self._replays.compare(pending.command, head)

    def _decide_one(self, pending: Pending, groups: dict[RunId, _Group]) -> None:
        rewritten = pending.rewritten
        command = pending.command if rewritten is None else rewritten.command
        hint = self._hints.get(command.run_id)
        if hint is None:
            raise RunNotFound(command.run_id)
        group = groups.get(command.run_id) or _Group(previous=hint.head, head=hint.head)
        last_engine_seq = group.engines.get(command.engine, hint.engine_seqs.get(command.engine, 0))
        accepted = decide_append(
            group.head, last_engine_seq, command, self._stamping(len(command.contents), rewritten), self._encode
        )
        if group.head.era != ERA:
            accepted = replace(accepted, records=tuple(self._spell_v1(record) for record in accepted.records))
        if rewritten is not None:
            self._replays.stands_at(command.run_id, accepted.head.digest)
        groups[command.run_id] = group
        group.head = accepted.head
        group.accepted.append((pending, accepted))
        if command.engine:
            group.engines[command.engine] = command.engine_seq + len(command.contents) - 1

    def _stamping(self, count: int, rewritten: Rewritten | None) -> Stamping:
        now_us = self._clock()
        first_id = self._ids.event_ids(now_us, count) if rewritten is None else rewritten.first_event_id
        return Stamping(recorded_at_us=now_us, region=self._region, first_event_id=first_id)

    # -- looking things up -------------------------------------------------------------------------------------------------------

    async def _load_unknown(self, batch: Sequence[Pending]) -> set[RunId]:
        """Read the heads and engine counters this lane does not know, answer what has a receipt; return the runs read just now.

        The receipts are read last: so a conflict, or a counter that was used, is reported only when the append's receipt was not there
        *after* what it is concluded from was.
        """
        unknown = {pending.command.run_id for pending in batch if pending.command.run_id not in self._hints}
        if unknown:
            for run_id, head in (await self._writer.load_heads(self._home, sorted(unknown))).items():
                self._put_hint(run_id, HeadHint(head))
        await self._load_engine_seqs(batch)
        if unknown:
            await self._answer_from_receipts([pending for pending in batch if pending.command.run_id in unknown])
        return unknown

    async def _load_engine_seqs(self, batch: Sequence[Pending]) -> None:
        missing = {
            (pending.command.run_id, pending.command.engine)
            for pending in batch
            if pending.command.engine
            and (hint := self._hints.get(pending.command.run_id)) is not None
            and pending.command.engine not in hint.engine_seqs
        }
        if missing:
            found = await self._writer.load_engine_seqs(self._home, sorted(missing))
            for run_id, engine in missing:
                self._hints[run_id].engine_seqs[engine] = found.get((run_id, engine), 0)

    async def _answer_from_receipts(self, batch: Sequence[Pending]) -> None:
        receipts = await self._writer.load_receipts(self._home, [key for pending in batch for key in pending.keys])
        for pending in batch:
            by_request, by_counter = receipts.get(pending.keys[0]), receipts.get(pending.keys[-1])
            if by_request is not None:
                _answer_from_receipt(pending, by_request)
            elif by_counter is not None and by_counter.request_hash == pending.request_hash:
                _answer_from_receipt(pending, by_counter)
            # A counter that was used for other events is refused by the decision, which knows the engine's next one.

    # -- hints and giving up -----------------------------------------------------------------------------------------------------

    def _still_wanted(self, batch: Iterable[Pending]) -> list[Pending]:
        now_s = asyncio.get_running_loop().time()
        for pending in batch:
            if pending.losses > limits.APPEND_RETRY_MAX:
                # It may have lost to its own statement, of which nobody knew whether it landed.
                contended = HeadContended(pending.command.run_id, pending.losses)
                _fail(pending, OutcomeUnknown() if pending.in_doubt else contended)
            elif now_s >= pending.give_up_at_s:
                _fail(
                    pending, OutcomeUnknown() if pending.in_doubt else StoreUnavailable("no answer within the deadline")
                )
        return _unanswered(batch)

    def _put_hint(self, run_id: RunId, hint: HeadHint) -> None:
        self._hints[run_id] = hint
        self._hints.move_to_end(run_id)
        if len(self._hints) > HINTS_MAX:
            self._hints.popitem(last=False)

    def _drop_hints(self, batch: Iterable[Pending]) -> None:
        for pending in batch:
            self._hints.pop(pending.command.run_id, None)


async def _join(first: Pending, request_hash: bytes, command: AppendCommand) -> Outcome:
    if first.request_hash != request_hash:
        if first.command.request_id == command.request_id:
            raise RequestIdReused(command.request_id)
        next_engine_seq = first.command.engine_seq + len(first.command.contents)
        raise EngineCounterReused(command.engine, next_engine_seq, command.engine_seq)
    return replace(await asyncio.shield(first.future), repeated=True)


def _group_write(run_id: RunId, group: _Group) -> GroupWrite:
    parts = [accepted for _, accepted in group.accepted]
    return GroupWrite(
        run_id=run_id,
        previous=group.previous,
        head=group.head,
        records=[record for part in parts for record in part.records],
        digests=[digest for part in parts for digest in part.digests],
        end_bytes=[end_byte for part in parts for end_byte in part.end_bytes],
        receipts=[
            Receipt(
                key=key,
                request_hash=pending.request_hash,
                first_seq=accepted.first_seq,
                last_seq=accepted.head.seq,
                digest=accepted.head.digest,
            )
            for pending, accepted in group.accepted
            for key in pending.keys
        ],
        engines=group.engines,
        # Every epoch that was accepted is the head's, so one stands for all.
        lease_epoch=max(pending.command.lease_epoch for pending, _ in group.accepted),
        wakes=any(not pending.command.lease_epoch for pending, _ in group.accepted),
    )


def _answer_from_receipt(pending: Pending, receipt: Receipt) -> None:
    if receipt.request_hash != pending.request_hash:
        _fail(pending, RequestIdReused(pending.command.request_id))
        return
    assert receipt.first_seq is not None
    assert receipt.last_seq is not None
    assert receipt.digest is not None
    ours = receipt.digest in pending.own_digests
    outcome = Outcome(first_seq=receipt.first_seq, last_seq=receipt.last_seq, digest=receipt.digest, repeated=not ours)
    _answer(pending, outcome)


def _answer(pending: Pending, outcome: Outcome) -> None:
    rewritten = pending.rewritten
    if rewritten is not None and not outcome.repeated:
        if rewritten.refusal is not None:
            _fail(pending, rewritten.refusal.failed(pending.command.run_id, outcome.last_seq))
            return
        outcome = replace(outcome, divergences=rewritten.divergences)
    if not pending.future.done():
        pending.future.set_result(outcome)


def _fail(pending: Pending, error: Exception) -> None:
    if not pending.future.done():
        pending.future.set_exception(error)


def _fail_all(batch: Iterable[Pending], error: Exception) -> None:
    for pending in batch:
        _fail(pending, error)


def _unanswered(batch: Iterable[Pending]) -> list[Pending]:
    return [pending for pending in batch if not pending.future.done()]
