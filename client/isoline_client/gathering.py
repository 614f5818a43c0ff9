"""Appends that are submitted in the same turn of the event loop travel to a server in one call.

Callers that are answered together go on together: their next appends come in one turn, and one call carries all of them for little more
than the price of one. Nobody waits for that: what is alone in its turn goes alone, and while no other is under way, at once. Each append
keeps its own answer, deadline and tries.

Not here: which server is asked and what is tried again (``channel``), what an append holds (``wire``).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass

from isoline.v1 import log_service_pb2 as log_pb
from isoline_client import limits
from isoline_client.errors import DeadlineExceeded, ServerError, from_append_error

Alone = Callable[[log_pb.AppendRequest, float], Awaitable[log_pb.AppendResponse]]
Together = Callable[[log_pb.AppendManyRequest, float], Awaitable[log_pb.AppendManyResponse]]


@dataclass(eq=False, slots=True)
class _Waiting:
    request: log_pb.AppendRequest
    timeout_s: float
    answer: "asyncio.Future[log_pb.AppendResponse | None]"
    """None: the server does not know calls with several appends; it goes alone."""

    @property
    def home(self) -> str:
        """The home region in the run's id; what is no run id is for the server to refuse."""
        return self.request.run_id.rpartition("/")[2].partition("-")[0]


class Gathering:
    """The appends of one client to one server."""

    def __init__(self, alone: Alone, together: Together) -> None:
        self._alone = alone
        self._together = together
        self._turn: list[_Waiting] = []
        self._sending: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._apart = False

    async def append(self, request: log_pb.AppendRequest, timeout_s: float) -> log_pb.AppendResponse:
        """Carry out one try of an append. Raises what its server says, ``DeadlineExceeded`` after ``timeout_s``, or ``Unavailable``."""
        goes_alone = self._apart or not self._under_way
        self._under_way += 1
        try:
            return await (self._alone if goes_alone else self._gathered)(request, timeout_s)
        finally:
            self._under_way -= 1

    async def _gathered(self, request: log_pb.AppendRequest, timeout_s: float) -> log_pb.AppendResponse:
        mine = _Waiting(request, timeout_s, asyncio.get_running_loop().create_future())
        self._turn.append(mine)
        if len(self._turn) == 1:
            try:
                await asyncio.sleep(0)  # whoever else is ready now has its append in this turn
            except asyncio.CancelledError:
                mine.answer.cancel()
                raise
            finally:
                turn, self._turn = self._turn, []
                if turn != [mine]:
                    self._send(turn)
            if turn == [mine]:
                return await self._alone(request, timeout_s)
        return await self._answered(mine)

    async def _answered(self, mine: _Waiting) -> log_pb.AppendResponse:
        try:
            async with asyncio.timeout(mine.timeout_s):
                answer = await mine.answer
        except TimeoutError:
            raise DeadlineExceeded(message=f"no answer within {mine.timeout_s:g} s", code="DEADLINE_EXCEEDED") from None
        return await self._alone(mine.request, mine.timeout_s) if answer is None else answer

    def _send(self, turn: list[_Waiting]) -> None:
        for some in _calls(waiting for waiting in turn if not waiting.answer.done()):
            task = asyncio.create_task(self._carry(some), name="appends")
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _carry(self, some: list[_Waiting]) -> None:
        request = log_pb.AppendManyRequest(appends=[waiting.request for waiting in some])
        try:
            answers = (await self._together(request, max(waiting.timeout_s for waiting in some))).answers
            if len(answers) != len(some):
                raise ServerError(message=f"{len(answers)} answers to {len(some)} appends", code="INTERNAL")
        except ServerError as error:
            self._apart |= error.code == "UNIMPLEMENTED"
            for waiting in some:
                _settle(waiting, None if self._apart else error)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - told to those who wait
            for waiting in some:
                _settle(waiting, error)
        else:
            for waiting, answer in zip(some, answers, strict=True):
                _settle(waiting, from_append_error(answer.error) if answer.HasField("error") else answer.appended)


def _settle(waiting: _Waiting, outcome: log_pb.AppendResponse | BaseException | None) -> None:
    match outcome:
        case _ if waiting.answer.done():
            return  # its caller is gone
        case asyncio.CancelledError():
            waiting.answer.cancel()
        case BaseException():
            waiting.answer.set_exception(outcome)
        case _:
            waiting.answer.set_result(outcome)


def _calls(turn: Iterable[_Waiting]) -> Iterator[list[_Waiting]]:
    """What goes into one call each: of one home region, for those that go far must not keep the others waiting, and within the limits."""
    by_home: dict[str, list[_Waiting]] = {}
    for waiting in turn:
        by_home.setdefault(waiting.home, []).append(waiting)
    for waiting_there in by_home.values():
        yield from _within_limits(waiting_there)


def _within_limits(those: Iterable[_Waiting]) -> Iterator[list[_Waiting]]:
    some: list[_Waiting] = []
    size = 0
    for waiting in those:
        more = waiting.request.ByteSize()
        if some and (len(some) == limits.APPEND_MANY_MAX or size + more > limits.APPEND_BYTES_MAX):
            yield some
            some, size = [], 0
        some.append(waiting)
        size += more
    yield some
