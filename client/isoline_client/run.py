"""The handle of one run: append, read, tail, fork, state. It holds an id and the way to the servers, and no state of the run."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from isoline.v1 import log_service_pb2 as log_pb
from isoline_client import limits, reading, wire
from isoline_client.channel import Connection
from isoline_client.events import Event, NewEvent
from isoline_client.ids import new_request_id
from isoline_client.values import Appended, ForkMode, Freshness, Page, Prefix, RunInfo, State
from isoline_client.verify import Position, PrefixVerifier, check_prefix, check_state
from isoline_client.writer import Writer


class Run:
    """One run. ``made`` is what the server said when this handle came from a creation or a fork, and ``repeated`` whether an earlier call
    with the same request id had made it.

    Ranges are half-open, ``[from_seq, until_seq)``. What is read is verified unless the client was told otherwise.
    """

    def __init__(
        self, connection: Connection, run_id: str, *, verify: bool, made: RunInfo | None = None, repeated: bool = False
    ) -> None:
        self.run_id = run_id
        self.made = made
        self.repeated = repeated
        self._connection = connection
        self._verify = verify

    def __repr__(self) -> str:
        return f"Run({self.run_id!r})"

    async def info(
        self, *, freshness: Freshness = "latest", known: Position | None = None, timeout_s: float | None = None
    ) -> RunInfo:
        """Read the head and the lineage. ``known`` is a position seen elsewhere: the run extends it, or the call fails."""
        request = log_pb.GetRunRequest(
            run_id=self.run_id, freshness=wire.FRESHNESS[freshness], known=wire.known_message(known)
        )
        answer = await self._connection.call(wire.GET_RUN, request, timeout_s=timeout_s)
        return wire.run_info(answer.run, answer)

    async def append(
        self,
        events: NewEvent | Iterable[NewEvent],
        *,
        expected_seq: int | None = None,
        engine: str = "",
        engine_seq: int = 0,
        lease_epoch: int = 0,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Appended:
        """Append events, all or none.

        ``expected_seq`` is the seq the first event shall get; without it the events go to the end, wherever that is. After
        ``OutcomeUnknown``, or a cancelled call whose ``request_id`` you gave, repeat with the same events and the same id: they are
        written once. ``lease_epoch`` is for executors: the append is refused when the run was claimed anew since.
        """
        new = (events,) if isinstance(events, NewEvent) else tuple(events)
        request = wire.append_request(self.run_id, new, request_id or new_request_id())
        if expected_seq is not None:
            request.expected_seq = expected_seq
        request.engine = engine
        request.engine_seq = engine_seq
        request.lease_epoch = lease_epoch
        answer = await self._connection.append(request, timeout_s=timeout_s)
        return wire.appended(answer, len(new))

    async def read(
        self,
        from_seq: int = 0,
        until_seq: int | None = None,
        *,
        freshness: Freshness = "latest",
        known: Position | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Read events in order. ``known`` is a position seen elsewhere: what is read extends it, or the read fails.

        A read that may be left early belongs into ``contextlib.aclosing``, so that the server stops sending at once.
        """
        async with aclosing(self.read_pages(from_seq, until_seq, freshness=freshness, known=known)) as pages:
            async for page in pages:
                for event in page:
                    yield event

    def read_pages(
        self,
        from_seq: int = 0,
        until_seq: int | None = None,
        *,
        freshness: Freshness = "latest",
        known: Position | None = None,
    ) -> AsyncGenerator[Page, None]:
        """Read as ``read`` does, a page at a time."""
        request = log_pb.ReadEventsRequest(run_id=self.run_id, until_seq=until_seq, freshness=wire.FRESHNESS[freshness])
        verifier = PrefixVerifier(from_seq, until_seq, known, recompute=self._verify)
        return reading.read_pages(self._connection, request, verifier)

    async def tail(
        self,
        from_seq: int = 0,
        *,
        known: Position | None = None,
        stop_at_terminal: bool = False,
        patience_s: float = limits.TAIL_PATIENCE_S,
    ) -> AsyncGenerator[Event, None]:
        """Read events in order and go on live: through server restarts and from region to region, without a gap or a duplicate.

        To go on later, keep an event's ``position`` and tail from ``position.seq + 1`` with it as ``known``. It ends behind the run's
        terminal event when asked to, and fails when no server answers for ``patience_s``.
        """
        pages = self.tail_pages(from_seq, known=known, stop_at_terminal=stop_at_terminal, patience_s=patience_s)
        async with aclosing(pages):
            async for page in pages:
                for event in page:
                    yield event

    def tail_pages(
        self,
        from_seq: int = 0,
        *,
        known: Position | None = None,
        stop_at_terminal: bool = False,
        patience_s: float = limits.TAIL_PATIENCE_S,
    ) -> AsyncGenerator[Page, None]:
        """Tail as ``tail`` does, a page at a time."""
        request = log_pb.TailEventsRequest(run_id=self.run_id, stop_at_terminal=stop_at_terminal)
        verifier = PrefixVerifier(from_seq, known=known, recompute=self._verify)
        return reading.tail_pages(
            self._connection, request, verifier, silence_s=limits.TAIL_SILENCE_S, patience_s=patience_s
        )

    async def state(
        self,
        at_seq: int | None = None,
        *,
        freshness: Freshness = "latest",
        known: Position | None = None,
        timeout_s: float | None = None,
    ) -> State:
        """The fold of ``[0, at_seq)``; of everything without it.

        ``known`` is a position seen elsewhere: the run extends it, or the call fails.
        """
        request = log_pb.GetStateRequest(
            run_id=self.run_id,
            at_seq=at_seq,
            freshness=wire.FRESHNESS[freshness],
            known=wire.known_message(known),
        )
        answer = await self._connection.call(wire.GET_STATE, request, timeout_s=timeout_s)
        if self._verify:
            check_state(at_seq, answer.at_seq, answer.state, answer.state_digest)
        return wire.state(answer)

    async def prefix(
        self,
        until_seq: int | None = None,
        *,
        recompute: bool = False,
        freshness: Freshness = "latest",
        known: Position | None = None,
        timeout_s: float | None = None,
    ) -> Prefix:
        """The digest of ``[0, until_seq)``. ``recompute``: the server reads every record rather than trust the stored digest.

        ``known`` is a position seen elsewhere: the run extends it, or the call fails.
        """
        request = log_pb.GetPrefixRequest(
            run_id=self.run_id,
            until_seq=until_seq,
            freshness=wire.FRESHNESS[freshness],
            recompute=recompute,
            known=wire.known_message(known),
        )
        answer = await self._connection.call(wire.GET_PREFIX, request, timeout_s=timeout_s)
        last = wire.position(answer.last)
        if self._verify:
            check_prefix(until_seq, last)
        return Prefix(last, wire.source(answer.source), wire.staleness_ms(answer))

    async def fork(
        self,
        from_seq: int | None = None,
        *,
        mode: ForkMode = "branch",
        overlay: Mapping[str, Any] | bytes | str | None = None,
        home_region: str = "",
        expected_prefix_digest: bytes | None = None,
        executed: bool | None = None,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> "Run":
        """Make a run that shares this one's prefix ``[0, from_seq)``, in constant time. ``overlay`` is for a branch only.
        ``executed``: whether executors run it; as the source when not said."""
        request = log_pb.ForkRunRequest(
            request_id=request_id or new_request_id(),
            source_run_id=self.run_id,
            from_seq=from_seq,
            mode=wire.FORK_MODES[mode],
            run_options_overlay=wire.overlay(overlay),
            home_region=home_region,
            expected_prefix_digest=expected_prefix_digest or b"",
            executed=executed,
        )
        answer = await self._connection.call(wire.FORK_RUN, request, request_id=request.request_id, timeout_s=timeout_s)
        return made_run(self._connection, answer, verify=self._verify)

    def writer(
        self,
        *,
        batch_events: int = limits.APPEND_EVENTS_MAX,
        batch_bytes: int = limits.APPEND_BYTES_MAX,
        linger_ms: float = limits.WRITER_LINGER_MS,
        max_events: int = limits.WRITER_EVENTS_MAX,
        max_bytes: int = limits.WRITER_BYTES_MAX,
        expected_seq: int | None = None,
        engine: str = "",
        engine_seq: int = 1,
    ) -> Writer:
        """Write the run in batches; see ``Writer``."""
        return Writer(
            self.append,
            batch_events=batch_events,
            batch_bytes=batch_bytes,
            linger_ms=linger_ms,
            max_events=max_events,
            max_bytes=max_bytes,
            expected_seq=expected_seq,
            engine=engine,
            engine_seq=engine_seq,
        )


def made_run(connection: Connection, answer: log_pb.CreateRunResponse | log_pb.ForkRunResponse, *, verify: bool) -> Run:
    """The handle of a run that was just made."""
    info = wire.run_info(answer.run)
    return Run(connection, info.run_id, verify=verify, made=info, repeated=answer.repeated)
