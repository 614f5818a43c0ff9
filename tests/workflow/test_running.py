"""Running a handler: outcomes, bounds, plain functions, and what it may return."""

import asyncio
import threading
from contextvars import ContextVar

import pytest

from isoline_client.workflow import Completed, ContextParts, NodeError, Workflow, run_node
from isoline_client.workflow.errors import Park
from isoline_client.workflow.running import MESSAGE_CHARS_MAX, outcome_of
from workflow.runs import RUN, AHost, executed, failure, outputs, start_of

WHO: ContextVar[str] = ContextVar("who", default="nobody")


def of(handler, **options):
    made = Workflow.define("example.w", version=1)
    made.node(role="pure", id="n", **options)(handler)
    return made.build()


async def test_nothing_returned_is_an_empty_object():
    async def handler(_ctx, _inputs):
        return None

    assert (await executed(of(handler), "n")).outcome == Completed(outputs={})


@pytest.mark.parametrize(
    ("returned", "path", "why"),
    [
        ([1], "", "must be a JSON object"),
        ({"a": {"b": float("nan")}}, "/a/b", "nan is not a JSON number"),
        ({"a": [1, {2}]}, "/a/1", "set is not JSON"),
        ({"a": {3: 1}}, "/a", "names must be strings"),
        ({"a/b": {"~": b"x"}}, "/a~1b/~0", "bytes is not JSON"),
        ({"a": 2**60}, "/a", "beyond 2**53 - 1"),
        ({"a": "\ud800"}, "/a", "surrogate"),
    ],
)
async def test_what_is_not_json_is_refused_with_its_place(returned, path, why):
    async def handler(_ctx, _inputs):
        return returned

    error = failure(await executed(of(handler), "n"))

    assert (error.code, error.retryable, error.details["path"]) == ("isoline.output_invalid", False, path)
    assert why in str(error.details["why"])


async def test_an_endless_nesting_is_refused():
    knot = {}
    knot["again"] = knot

    async def handler(_ctx, _inputs):
        return knot

    assert "nested deeper" in failure(await executed(of(handler), "n")).message


async def test_tuples_become_lists():
    async def handler(_ctx, _inputs):
        return {"a": (1, True, None)}

    assert outputs(await executed(of(handler), "n")) == {"a": [1, True, None]}


async def test_a_node_error_is_recorded_as_it_is():
    async def handler(_ctx, _inputs):
        raise NodeError("example.broken", "because", retryable=False, details={"a": 1})

    error = failure(await executed(of(handler), "n"))

    assert (error.code, error.message, error.retryable, error.details) == ("example.broken", "because", False, {"a": 1})


async def test_any_other_exception_may_be_tried_again():
    async def handler(_ctx, _inputs):
        raise KeyError("x" * 10_000)

    error = failure(await executed(of(handler), "n"))

    assert (error.code, error.retryable) == ("isoline.node_error", True)
    assert error.message.startswith("KeyError: 'xxx")
    assert len(error.message) < MESSAGE_CHARS_MAX + 20


async def test_an_exception_may_bring_its_own_code():
    class Denied(Exception):
        code = "isoline.effect_denied"
        retryable = False

    async def handler(_ctx, _inputs):
        raise Denied("http.request")

    error = failure(await executed(of(handler), "n"))

    assert (error.code, error.retryable) == ("isoline.effect_denied", False)


def test_of_a_group_the_interruption_counts_before_the_failure():
    group = BaseExceptionGroup("both", [ValueError("x"), BaseExceptionGroup("in", [Park(3)])])

    assert outcome_of(group).wake_in_ms == 3  # type: ignore[union-attr]
    assert outcome_of(ExceptionGroup("one", [NodeError("example.a", "b")])).error.code == "example.a"  # type: ignore[union-attr]


async def test_a_node_that_takes_too_long_fails():
    async def handler(_ctx, _inputs):
        await asyncio.Event().wait()

    error = failure(await executed(of(handler, timeout_ms=1), "n"))

    assert (error.code, error.retryable, error.details) == ("isoline.node_timeout", True, {"timeoutMs": 1})


async def test_a_timeout_of_the_handlers_own_is_its_failure():
    async def handler(_ctx, _inputs):
        raise TimeoutError("mine")

    assert failure(await executed(of(handler, timeout_ms=60_000), "n")).message == "TimeoutError: mine"


async def test_a_cancellation_from_outside_goes_through():
    begun = asyncio.Event()

    async def handler(_ctx, _inputs):
        begun.set()
        await asyncio.Event().wait()

    workflow = of(handler)
    running = asyncio.create_task(run_node(workflow, start_of(workflow, "n"), ContextParts(run_id=RUN), AHost()))
    await begun.wait()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_plain_function_runs_in_a_thread_with_the_context():
    def handler(ctx, inputs):
        assert threading.current_thread() is not threading.main_thread()
        ctx.set_variable("v", 1)
        return {
            "who": WHO.get(),
            "id": ctx.new_id(),
            "remembered": ctx.memory.read("m"),
            "memory": ctx.memory.write("m", 2),
            "again": ctx.memory.read("m"),
            "inputs": inputs,
            "node": ctx.node_id,
            "config": ctx.config,
        }

    WHO.set("ann")
    result = await executed(of(handler, config={"c": 1}), "n", None, {"i": 1}, memory={"m": 1})

    found = outputs(result)
    assert (found["who"], found["remembered"], found["again"], found["node"]) == ("ann", 1, 2, "n")
    assert (found["inputs"], found["config"]) == ({"i": 1}, {"c": 1})
    assert found["id"] in [draw.value for draw in result.draws]
    assert found["memory"] == result.memory[0].memory_id
    assert result.variables[0].name == "v"


async def test_a_plain_function_may_suspend():
    def handler(ctx, _inputs):
        ctx.interrupt("ok")

    result = await executed(of(handler), "n")

    assert result.outcome.interrupt.key == "ok"  # type: ignore[union-attr]
