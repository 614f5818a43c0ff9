"""Compare what is appended to a replay fork with its source, and write what differs beside it (OpenWOP v2 replay.md, Divergence).

Every append to a replay comes through here: its lane has it compared before it decides it, so nobody who appends can leave it out. The
comparison (``domain.alignment``) is a fold of the two logs, kept for the runs that are being replayed; where it is not known, or the run's
head is not where it stands, it is made again from the logs.

Not here: what differs (``domain.alignment``), the events that say so (``domain.divergence``), how appends are written (``lane``).
"""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from isoline_server.domain import limits
from isoline_server.domain.alignment import DIVERGED_AT_REFUSAL, Alignment, Difference, RefusalDifference, SourceEvent
from isoline_server.domain.append import AppendCommand, Outcome, Rewritten
from isoline_server.domain.divergence import SERVER_MADE, diverged, diverged_at_refusal, read_refusal
from isoline_server.domain.errors import InvalidField, ReplayDivergedAtRefusal
from isoline_server.domain.event import Event, EventContent
from isoline_server.domain.ids import RunId, event_id_text
from isoline_server.domain.run import ForkMode, Freshness, Head, Mark, Run
from isoline_server.operations.ports import Clock, IdSource
from isoline_server.operations.reading import Reading

Decode = Callable[[bytes], Event]


@dataclass(eq=False, slots=True)
class _Replay:
    """A replay that is being appended to. ``stands_at`` is the digest of the head behind which its alignment stands; empty while it is not
    known which that will be."""

    source: Run
    alignment: Alignment
    source_mark: Mark | None = None
    stands_at: bytes = b""


@dataclass(slots=True)
class _Compared:
    """What an append becomes beside the source."""

    contents: list[EventContent] = field(default_factory=list)
    causation_ids: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    refusal: RefusalDifference | None = None

    def add(self, content: EventContent, causation_id: str) -> None:
        self.contents.append(content)
        self.causation_ids.append(causation_id)


class ReplayComparer:
    """``Replays``: the comparisons of the runs that are being replayed."""

    def __init__(self, *, reading: Reading, decode: Decode, clock: Clock, ids: IdSource) -> None:
        self._reading = reading
        self._decode = decode
        self._clock = clock
        self._ids = ids
        self._replays: OrderedDict[RunId, _Replay] = OrderedDict()

    async def compare(self, command: AppendCommand, head: Head) -> Rewritten:
        _check(command)
        replay = await self._standing_at(command.run_id, head)
        replay.stands_at = b""
        first_id = self._ids.event_ids(self._clock(), 2 * len(command.contents) + 2)
        compared = await self._compare(replay, command, first_id)
        return Rewritten(
            command=replace(command, contents=tuple(compared.contents), causation_ids=tuple(compared.causation_ids)),
            first_event_id=first_id,
            divergences=tuple(compared.kinds),
            refusal=compared.refusal,
        )

    def stands_at(self, run_id: RunId, digest: bytes) -> None:
        replay = self._replays.get(run_id)
        if replay is not None and not replay.alignment.ahead:
            replay.stands_at = digest

    async def say_again(self, run_id: RunId, head: Head | None, outcome: Outcome) -> None:
        """Raise the first answer of a repeat by which the replay failed: the event before its last, which only the server writes, tells.
        ``head`` is one that is known of the run."""
        if outcome.last_seq == outcome.first_seq or (head is not None and head.mode is not ForkMode.REPLAY):
            return
        run, _, _ = await self._reading.run_reaching(run_id, outcome.last_seq + 1, Freshness.LATEST)
        if run.head.mode is not ForkMode.REPLAY:
            return
        async with aclosing(self._reading.pages(run, outcome.last_seq - 1, outcome.last_seq)) as pages:
            content = self._decode((await anext(pages)).records[0]).content
        if content.type == DIVERGED_AT_REFUSAL:
            raise ReplayDivergedAtRefusal(run_id, outcome.last_seq - 1, content.node_id, read_refusal(content))

    # -- comparing -----------------------------------------------------------------------------------------------------------------

    async def _compare(self, replay: _Replay, command: AppendCommand, first_id: int) -> _Compared:
        compared = _Compared()
        for content, causation_id in zip(command.contents, command.causation_ids, strict=True):
            await self._provide(replay)
            event_id = _id_text(first_id + len(compared.contents))
            match replay.alignment.step(content):
                case RefusalDifference() as refusal:
                    diverging, failed = diverged_at_refusal(replay.source.run_id, refusal)
                    compared.add(diverging, "")
                    compared.add(failed, event_id)
                    compared.kinds.append("refusal")
                    compared.refusal = refusal
                    return compared
                case Difference() as difference:
                    compared.add(content, causation_id)
                    compared.add(diverged(replay.source.run_id, difference, event_id), event_id)
                    compared.kinds.append(difference.kind)
                case None:
                    compared.add(content, causation_id)
        return compared

    # -- the two logs --------------------------------------------------------------------------------------------------------------

    async def _standing_at(self, run_id: RunId, head: Head) -> _Replay:
        """The replay behind ``head``; made from the logs where it is not known, stands elsewhere, or had gone beyond an open source."""
        replay = self._replays.get(run_id)
        if replay is None or replay.stands_at != head.digest:
            replay = await self._from_logs(run_id, head)
        self._replays[run_id] = replay
        self._replays.move_to_end(run_id)
        if len(self._replays) > limits.REPLAY_ALIGNMENTS_MAX:
            self._replays.popitem(last=False)
        return replay

    async def _from_logs(self, run_id: RunId, head: Head) -> _Replay:
        """Fold what both logs hold."""
        fork, until_seq, _ = await self._reading.run_reaching(run_id, head.seq + 1, Freshness.LATEST)
        assert fork.fork is not None
        source = await self._reading.fresh_run(fork.fork.source_run_id)
        replay = _Replay(source, Alignment(fork.fork.from_seq))
        async with aclosing(self._reading.pages(fork, fork.fork.from_seq, until_seq)) as pages:
            async for page in pages:
                for record in page.records:
                    await self._provide(replay)
                    replay.alignment.step(self._decode(record).content)
        return replay

    async def _provide(self, replay: _Replay) -> None:
        """Read on in the source until the alignment sees far enough ahead, or all there is."""
        alignment = replay.alignment
        while alignment.hungry or (alignment.starving and await self._has_grown(replay)):
            if alignment.next_source_seq > replay.source.head.seq:
                alignment.read_out()
                continue
            await self._read_on(replay)

    async def _has_grown(self, replay: _Replay) -> bool:
        replay.source = await self._reading.fresh_run(replay.source.run_id)
        return replay.alignment.next_source_seq <= replay.source.head.seq

    async def _read_on(self, replay: _Replay) -> None:
        """Feed one page."""
        source, alignment = replay.source, replay.alignment
        pages = self._reading.pages(source, alignment.next_source_seq, source.head.seq + 1, replay.source_mark)
        async with aclosing(pages):
            page = await anext(pages)
        for seq, record in enumerate(page.records, start=page.first_seq):
            event = self._decode(record)
            legacy = event.stamp.legacy
            event_id = (
                legacy.event_id if legacy is not None and legacy.event_id else event_id_text(event.stamp.event_id)
            )
            alignment.feed(SourceEvent(seq=seq, event_id=event_id, content=event.content))
        replay.source_mark = page.last


def _check(command: AppendCommand) -> None:
    if command.engine:
        rule = "a replay fork takes no engine counters: the events that the server adds would not be in them"
        raise InvalidField("engine", rule, got=command.engine)
    for index, content in enumerate(command.contents):
        if content.type in SERVER_MADE:
            rule = "only the server says that a replay diverged, when it compares it with its source"
            raise InvalidField(f"events[{index}].type", rule, got=content.type)


def _id_text(event_id: int) -> str:
    return event_id_text(event_id.to_bytes(16, "big"))
