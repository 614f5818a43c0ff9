"""What the callers of a simulated world asked and were told, and what must be true of it (guarantees G1, G3, G8, G10).

What belongs here: requests, looks, and rules over them and the final log. What does not: rules over single commits (``monitor``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from isoline_server import codec
from isoline_server.domain import lineage
from isoline_server.domain.append import AppendCommand, Outcome
from isoline_server.domain.errors import OutcomeUnknown
from isoline_server.domain.ids import RunId
from isoline_server.operations.reading import Page
from simulation.monitor import Monitor
from simulation.process import ConnectionLost, Premises

UNKNOWN = (OutcomeUnknown, ConnectionLost, TimeoutError)
"""Errors behind which a change may have happened. Every other one says that this very call changes nothing, now or later."""


@dataclass(slots=True)
class Request:
    """One append that somebody wants, through all its calls. ``answers``: outcome and the epoch of the call, in the order of the answers.

    Instants are ticks of the world; ``answered`` is that of the first good answer.
    """

    command: AppendCommand
    invoked: int
    answered: int | None = None
    answers: list[tuple[Outcome, int]] = field(default_factory=list)
    unknown: int = 0
    denials: set[str] = field(default_factory=set)
    """What the calls were told that surely did nothing."""
    under_way: int = 0

    @property
    def markers(self) -> list[bytes]:
        return [content.payload for content in self.command.contents]

    def failed(self, error: Exception) -> None:
        if isinstance(error, UNKNOWN):
            self.unknown += 1
        else:
            self.denials.add(type(error).__name__)


class History:
    """Everything that was asked of one world."""

    def __init__(self, premises: Premises, monitor: Monitor) -> None:
        self._premises = premises
        self._monitor = monitor
        self._ticks = 0
        self.requests: list[Request] = []
        self.sent: dict[tuple[RunId, str, int], int] = {}
        """Effects as the other side counts them: (run, effect, attempt)."""

    def tick(self) -> int:
        """An instant: later than every one before."""
        self._ticks += 1
        return self._ticks

    def head_at(self, run_id: RunId, commits: int) -> int | None:
        """The head seq of a run behind so many commits; None while it does not exist."""
        found = None
        for number, seq in self._monitor.heads.get(run_id, ()):
            if number >= commits:
                break
            found = seq
        return found

    def true_record(self, run_id: RunId, seq: int) -> tuple[bytes, bytes] | None:
        """The record at a seq and the digest behind it, as the leader has them."""
        tables = self._premises.database.tables
        row = tables.runs.get(run_id)
        if row is None or seq > row.head.seq:
            return None
        event = tables.events.get((lineage.origin_of(row.run, seq), seq))
        return None if event is None else (event.record, event.digest)

    # -- at every answer -----------------------------------------------------------------------------------------------------------

    def left(self, run_id: RunId, effect_id: str, attempt: int) -> None:
        """An effect's request left its executor."""
        key = (run_id, effect_id, attempt)
        self.sent[key] = self.sent.get(key, 0) + 1
        if self.sent[key] > 1:
            self._premises.report(
                "G10", f"effect {effect_id} of {run_id} left {self.sent[key]} times in attempt {attempt}"
            )

    def check_first_answer(self, request: Request, outcome: Outcome) -> None:
        """When every call so far was told that it did nothing, no earlier call can have done it."""
        if outcome.repeated and request.denials and not (request.answers or request.unknown or request.under_way):
            what = f"{request.command.request_id} of {request.command.run_id} was said not to have happened ({_told(request)}), and had"
            self._premises.report("G8", what)

    def check_pages(self, run_id: RunId, from_seq: int, pages: list[Page]) -> None:
        """Every page is a part of the true log, and they stand one behind the other."""
        seq = from_seq
        for page in pages:
            if page.first_seq != seq:
                self._premises.report("G3", f"a page of {run_id} begins at {page.first_seq}, not {seq}")
                return
            for record in page.records:
                true = self.true_record(run_id, seq)
                if true is None or true[0] != record:
                    self._premises.report(
                        "G3", f"event {seq} of {run_id} was served, which is not in its log ({page.source.name})"
                    )
                    return
                seq += 1
            true = self.true_record(run_id, seq - 1)
            if page.last.seq != seq - 1 or (true is not None and true[1] != page.last.digest):
                self._premises.report("G3", f"a page of {run_id} ends with another prefix token at {page.last.seq}")

    # -- at the end ----------------------------------------------------------------------------------------------------------------

    def check_all(self) -> None:
        """Hold every request against the final logs."""
        places = self._places()
        landed: dict[RunId, list[tuple[int, Request]]] = {}
        for request in self.requests:
            found = sorted(
                {seq for marker in request.markers for seq in places.get((request.command.run_id, marker), ())}
            )
            self._check_request(request, found)
            if found:
                landed.setdefault(request.command.run_id, []).append((found[0], request))
        for of_run in landed.values():
            self._check_order(sorted(of_run, key=lambda each: each[0]))

    def _places(self) -> dict[tuple[RunId, bytes], list[int]]:
        places: dict[tuple[RunId, bytes], list[int]] = {}
        for (run_id, seq), row in self._premises.database.tables.events.items():
            places.setdefault((run_id, codec.decode(row.record).content.payload), []).append(seq)
        return places

    def _check_request(self, request: Request, found: list[int]) -> None:
        for what in self._faults(request, found):
            self._premises.report("G8", f"{request.command.request_id} of {request.command.run_id}: {what}")

    def _faults(self, request: Request, found: list[int]) -> Iterator[str]:
        count = len(request.command.contents)
        if found and found != list(range(found[0], found[0] + count)):
            yield f"its {count} events stand at {found}"
        outcomes = {(outcome.first_seq, outcome.last_seq, outcome.digest) for outcome, _ in request.answers}
        if len(outcomes) > 1:
            yield f"was answered {sorted(outcomes)}"
        if sum(not outcome.repeated for outcome, _ in request.answers) > 1:
            yield "two answers say that they did it"
        for outcome, epoch in request.answers:
            if found[:1] != [outcome.first_seq] or outcome.last_seq != outcome.first_seq + count - 1:
                yield f"was acknowledged at {outcome.first_seq}, stands at {found}"
                continue
            true = self.true_record(request.command.run_id, outcome.last_seq)
            if true is None or true[1] != outcome.digest:
                yield "was acknowledged with another digest than stands there"
            yield from self._epoch_faults(request.command.run_id, outcome, epoch)
        if found and not request.answers and not request.unknown and not request.under_way:
            yield f"was said not to have happened ({_told(request)}), and stands at {found}"
        expected = request.command.expected_seq
        if found and expected is not None and found[0] != expected:
            yield f"was to stand at {expected}, stands at {found}"

    def _epoch_faults(self, run_id: RunId, outcome: Outcome, epoch: int) -> Iterator[str]:
        later = self._monitor.granted_at.get((run_id, epoch + 1))
        if epoch and not outcome.repeated and later is not None:
            landed = self._monitor.landed[run_id, outcome.first_seq]
            if landed > later:
                yield f"landed under epoch {epoch} after {epoch + 1} was granted"

    def _check_order(self, of_run: list[tuple[int, Request]]) -> None:
        """What was acknowledged before another was asked stands before it."""
        for index, (seq, request) in enumerate(of_run):
            for later_seq, later in of_run[index + 1 :]:
                if later.answered is not None and later.answered < request.invoked:
                    self._premises.report(
                        "G1",
                        f"{request.command.run_id}: {later.command.request_id} at {later_seq} was acknowledged before "
                        f"{request.command.request_id} at {seq} was asked",
                    )


def _told(request: Request) -> str:
    return ", ".join(sorted(request.denials))
