"""A workflow whose nodes try to leave, each by the way that its input names, and others that ask, hang and die: what replay workers run."""

# ruff: noqa: PTH110, PTH115, PTH208

import asyncio
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any

from guard.ways import WAYS, World
from isoline_client.workflow.context import Context
from isoline_client.workflow.definition import NodeSpec, NodeType, Role, Settings, Workflow
from isoline_client.workflow.host import LlmRequest

_before = threading.Event()
_left: list[str] = []


def _from_before() -> None:
    """A thread that began with the import of this module, before any node."""
    _before.wait()
    try:
        open("/dev/full", "w").close()  # noqa: PTH123
        _left.append("left")
    except Exception as error:
        _left.append(type(error).__name__)


_thread_from_before = threading.Thread(target=_from_before, daemon=True)
_thread_from_before.start()


def leave(context: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Try to leave, and swallow what is raised: the server outside counts."""
    world = World(**inputs["world"])
    try:
        WAYS[inputs["way"]].attempt(world)
    except BaseException as error:
        return {"raised": type(error).__name__, "text": str(error)}
    return {}


async def draw(context: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"random": await context.random(), "id": await context.new_id(), "pid": os.getpid()}


async def echo(context: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    context.set_variable("seen", inputs)
    return {"inputs": inputs, "variables": dict(context.variables)}


async def ask(context: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    answer = await context.llm(LlmRequest(provider="openai", model="m", messages=[{"role": "user", "content": "?"}]))
    return {"content": answer.content}


async def interrupt(context: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"answer": await context.interrupt("ok", data={"a": 1})}


async def hang(context: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Wait until the node is cancelled, which the file of its end tells."""
    await context.interrupt("hanging")
    await asyncio.Event().wait()
    return {}


async def spin(context: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Take the whole process, so that no cancellation is heard."""
    sys.stderr.write("spinning")
    sys.stderr.flush()
    while True:
        pass


def die(context: Context, inputs: Mapping[str, Any]) -> None:
    sys.stderr.write("last words\n")
    sys.stderr.flush()
    os._exit(3)


def inside(context: Context, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What a node finds around it."""
    _before.set()
    _thread_from_before.join()
    return {
        "descriptors": sorted(os.readlink(f"/proc/self/fd/{each}") for each in _open_descriptors()),
        "environment": sorted(os.environ),
        "thread": _left[0],
        "interfaces": sorted(os.listdir("/proc/self/net/dev_snmp6"))
        if os.path.exists("/proc/self/net/dev_snmp6")
        else [],
        "parent": os.getppid(),
    }


def _open_descriptors() -> list[str]:
    return [each for each in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{each}")]


HANDLERS = {each.__name__: each for each in (leave, draw, echo, ask, interrupt, hang, spin, die, inside)}
ROLES: dict[str, Role] = {"ask": "llm"}

WORKFLOWS = [
    Workflow(
        workflow_id="leaving",
        version=1,
        nodes=tuple(NodeSpec(id=name, type_id=f"test.{name}") for name in HANDLERS),
        settings=Settings(sources=("random", "id")),
        types={
            f"test.{name}": NodeType(f"test.{name}", ROLES.get(name, "pure"), handler)
            for name, handler in HANDLERS.items()
        },
    )
]
