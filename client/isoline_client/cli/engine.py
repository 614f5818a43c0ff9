"""Appending the same input again without appending anything twice: what of an engine's events stands in the run already?

The n-th event of the input is the engine's n-th event in the run. When an append is refused because the engine has used the counter, the
run is read and compared with the input, event by event: what is there and equal is passed over, what is there and different is an error
that names the line. So it does not matter where a crash cut the input, nor how either run of the program cut it into batches.
"""

from collections.abc import AsyncGenerator, Sequence

from isoline_client.cli.failures import CommandError, Exit
from isoline_client.cli.lines import Line
from isoline_client.events import Event, NewEvent
from isoline_client.run import Run
from isoline_client.verify import Position


class Recorded:
    """The engine's events of a run, in order, as far as they go."""

    def __init__(self, run: Run, engine: str) -> None:
        self._run = run
        self._engine = engine
        self._next_seq: int | None = None
        self._events: AsyncGenerator[Event, None] | None = None
        self.first_seq = -1
        self.last: Position | None = None
        """Where the first and the last event stand that the last comparison found equal to their lines."""

    def look(self) -> None:
        """From now on there is something to compare with."""
        self._events = self._own_events()

    async def count_equal(self, lines: Sequence[Line], counter: int) -> int:
        """How many of ``lines``, the first of which is the engine's event ``counter``, are recorded. Raise ``CommandError`` when one differs."""
        for place, line in enumerate(lines):
            event = await self._event(counter + place)
            if event is None:
                return place
            _must_be_equal(event, line, self._engine)
            self.first_seq = event.seq if place == 0 else self.first_seq
            self.last = event.position
        return len(lines)

    async def close(self) -> None:
        if self._events is not None:
            await self._events.aclose()

    async def _event(self, counter: int) -> Event | None:
        while self._events is not None:
            event = await anext(self._events, None)
            if event is None:
                self._events = None
            elif event.engine_seq >= counter:
                return event
        return None

    async def _own_events(self) -> AsyncGenerator[Event, None]:
        if self._next_seq is None:
            lineage = (await self._run.info()).lineage
            self._next_seq = lineage[-1].end_seq if lineage else 0
        async for event in self._run.read(self._next_seq):
            self._next_seq = event.seq + 1
            if event.engine == self._engine:
                yield event


def _must_be_equal(event: Event, line: Line, engine: str) -> None:
    what = _difference(event, line.event)
    if what:
        raise CommandError(
            f"line {line.number}: its {what} is not that of event {event.engine_seq} of engine {engine}, which stands at seq {event.seq}",
            Exit.REFUSED,
            line=line.number,
            seq=event.seq,
            engineSeq=event.engine_seq,
        )


def _difference(event: Event, new: NewEvent) -> str:
    for what, recorded, given in (
        ("type", event.type, new.type),
        ("nodeId", event.node_id, new.node_id),
        ("payload", event.payload_bytes, new.payload_bytes),
        ("masked", event.masked, new.masked),
        ("causationId", event.causation_id, new.causation_id),
        ("schemaVersion", event.schema_version, new.schema_version or 1),
        ("engineVersion", event.engine_version, new.engine_version),
    ):
        if recorded != given:
            return what
    return ""
