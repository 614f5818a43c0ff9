"""Running a handler: one execution of a node, from its start to its result. Used by the executor and by the replay worker alike.

Whatever a handler does, the answer is a ``NodeResult``; only a cancellation from outside goes through.
"""

import asyncio
import inspect
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from isoline_client.workflow.actions import StartNode
from isoline_client.workflow.context import Context, ContextParts
from isoline_client.workflow.definition import Handler, Workflow
from isoline_client.workflow.errors import Doubt, Interruption, NodeError, NodeTimeout, OutputInvalid, Park, Suspend
from isoline_client.workflow.host import Host
from isoline_client.workflow.results import Completed, Failed, Failure, InDoubt, NodeResult, Outcome, Parked, Suspended
from isoline_client.workflow.values import NotJson, as_object

MESSAGE_CHARS_MAX: Final = 4_096
"""Of an error's message: an exception may carry a whole document."""


async def run_node(workflow: Workflow, start: StartNode, parts: ContextParts, host: Host) -> NodeResult:
    """Run the handler of a node to its end."""
    context = Context(workflow, start, parts, host)
    timeout_ms = workflow.node(start.node_id).timeout_ms
    try:
        returned = await _within(_call(workflow.node_type(start.node_id).handler, context, start.inputs), timeout_ms)
        outcome: Outcome = Completed(outputs=_outputs(returned))
    except asyncio.CancelledError:
        raise
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a handler may raise anything, and each is an outcome
        outcome = outcome_of(error)
    if context.stopped is not None:
        outcome = outcome_of(context.stopped)
    return context.result(outcome)


def outcome_of(error: BaseException) -> Outcome:
    """What an exception makes of an execution."""
    match _first(error):
        case Suspend(interrupt=interrupt, requested=requested):
            return Suspended(interrupt=interrupt, requested=requested)
        case Park(wake_in_ms=wake_in_ms):
            return Parked(wake_in_ms=wake_in_ms)
        case Doubt(effect_id=effect_id):
            return InDoubt(effect_id=effect_id)
        case first:
            return Failed(error=failure_of(first))


def failure_of(error: BaseException) -> Failure:
    """An exception as it is recorded. One that is no ``NodeError`` may say its own ``code`` and whether it is ``retryable``."""
    message = (str(error) or type(error).__name__)[:MESSAGE_CHARS_MAX]
    if isinstance(error, NodeError):
        message = error.message[:MESSAGE_CHARS_MAX]
        return Failure(code=error.code, message=message, retryable=error.retryable, details=error.details)
    code = getattr(error, "code", None)
    if isinstance(code, str) and "." in code:
        return Failure(code=code, message=message, retryable=bool(getattr(error, "retryable", False)))
    return Failure(code="isoline.node_error", message=f"{type(error).__name__}: {message}")


def _first(error: BaseException) -> BaseException:
    """The exception itself, or the one in a group that counts: an interruption before a failure."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    inside = [_first(each) for each in error.exceptions]
    return next((each for each in inside if isinstance(each, Interruption)), inside[0])


async def _within(work: Coroutine[Any, Any, Any], timeout_ms: int) -> Any:
    try:
        async with asyncio.timeout(timeout_ms / 1000 if timeout_ms else None) as limit:
            return await work
    except TimeoutError as error:
        if limit.expired():
            raise NodeTimeout(timeout_ms) from error
        raise


async def _call(handler: Handler, context: Context, inputs: Mapping[str, Any]) -> Any:
    given = as_object(inputs)
    if inspect.iscoroutinefunction(handler):
        return await handler(context, given)
    returned = await asyncio.to_thread(handler, BlockingContext(context, asyncio.get_running_loop()), given)  # type: ignore[arg-type]
    return await returned if inspect.isawaitable(returned) else returned


def _outputs(returned: Any) -> Mapping[str, Any]:
    try:
        return as_object({} if returned is None else returned)
    except NotJson as error:
        raise OutputInvalid(error.path, error.why) from error


class BlockingContext:
    """A context for a plain function, which runs in a thread: the same members, and what is to be awaited there simply waits here."""

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return _blocking(getattr(self._context, name), self._loop)


class _BlockingPart:
    def __init__(self, part: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._part = part
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return _blocking(getattr(self._part, name), self._loop)


def _blocking(member: Any, loop: asyncio.AbstractEventLoop) -> Any:
    if inspect.iscoroutinefunction(member):

        def call(*args: Any, **kwargs: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(member(*args, **kwargs), loop).result()

        return call
    if type(member).__module__.startswith("isoline_client.workflow"):
        return _BlockingPart(member, loop)
    return member
