"""Nothing leaves a replay worker, by no way, also when the layers in its process are off; and each fence around it is needed."""

import dataclasses
import json
import os
import subprocess
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from guard.outside import Outside
from guard.processes import ORDINARY_USER, as_user, environment, interpreter
from guard.test_isolation import requires_isolation, requires_root
from guard.test_worker import MODULES, Answers, node
from guard.ways import WAYS, Way
from isoline_client.guard.switches import SWITCHES, Fences
from isoline_client.guard.worker import ReplayWorker
from isoline_client.workflow.results import Completed, Failed

pytestmark = requires_isolation

EVERY_WAY = [pytest.param(each, id=each.name) for each in WAYS.values()]
STOPPED_BY_THE_KERNEL_FIRST = {"unix_socket", "process_pool"}
DENIED = [
    pytest.param(each, id=each.name)
    for each in WAYS.values()
    if (each.seams or each.hooks) and not each.opens and each.name not in STOPPED_BY_THE_KERNEL_FIRST
]


async def started(*, layers: bool, fences: Fences | None = None) -> ReplayWorker:
    """A worker with or without the layers in its process, and with some of its fences."""
    before = SWITCHES.seams, SWITCHES.hooks, SWITCHES.carrying, SWITCHES.fences
    SWITCHES.seams = SWITCHES.hooks = SWITCHES.carrying = layers
    SWITCHES.fences = fences or Fences()
    try:
        worker = ReplayWorker(modules=MODULES)
        await worker.start()
        return worker
    finally:
        SWITCHES.seams, SWITCHES.hooks, SWITCHES.carrying, SWITCHES.fences = before


@pytest_asyncio.fixture(scope="module")
async def worker() -> AsyncIterator[ReplayWorker]:
    made = await started(layers=True)
    yield made
    await made.stop()


@pytest_asyncio.fixture(scope="module")
async def bare() -> AsyncIterator[ReplayWorker]:
    """Held by the kernel alone."""
    made = await started(layers=False)
    yield made
    await made.stop()


async def leave(worker: ReplayWorker, way: Way, outside: Outside):
    if not way.here:
        pytest.skip(f"{way.name}: {way.needs} is not installed")
    result = await worker.run_node(node("leave", {"way": way.name, "world": outside.address}), Answers())
    return result.outcome


@pytest.mark.parametrize("way", EVERY_WAY)
async def test_nothing_leaves_a_replay_worker(way: Way, worker, outside):
    await leave(worker, way, outside)

    assert outside.reached == 0


@pytest.mark.parametrize("way", EVERY_WAY)
async def test_nothing_leaves_it_when_the_kernel_alone_holds_it(way: Way, bare, outside):
    assert isinstance(await leave(bare, way, outside), Completed)

    assert outside.reached == 0


@pytest.mark.parametrize("way", DENIED)
async def test_a_node_that_tries_fails_although_it_swallows_the_exception(way: Way, worker, outside):
    outcome = await leave(worker, way, outside)

    assert isinstance(outcome, Failed)
    assert outcome.error.code == "isoline.effect_denied"
    assert not outcome.error.retryable


@pytest.mark.parametrize(
    ("off", "way"),
    [
        pytest.param({"namespaces": False, "call_filter": False}, "c_socket", id="no-namespace"),
        pytest.param({"namespaces": False, "call_filter": False}, "uvloop_streams", id="no-namespace-uvloop"),
        pytest.param({"call_filter": False}, "c_unix_socket", id="no-filter"),
        pytest.param({"call_filter": False}, "os_chmod", id="no-filter-modes"),
        pytest.param({"landlock": False}, "c_open", id="no-landlock"),
    ],
)
async def test_without_a_fence_something_leaves(off, way, outside):
    worker = await started(layers=False, fences=dataclasses.replace(Fences(), **off))
    try:
        await leave(worker, WAYS[way], outside)
    finally:
        await worker.stop()

    assert outside.reached > 0


async def test_the_filter_alone_keeps_the_network_away_where_there_is_no_namespace(outside):
    worker = await started(layers=False, fences=Fences(namespaces=False))
    try:
        for way in ("tcp", "c_socket", "uvloop_streams", "libpq", "udp_sendto", "grpc_core"):
            await leave(worker, WAYS[way], outside)
    finally:
        await worker.stop()

    assert outside.reached == 0
    assert not worker.isolation.complete


AS_ANOTHER_USER = """
import asyncio, json, sys
from guard.test_worker import Answers, node
from guard.ways import WAYS
from isoline_client.guard.switches import SWITCHES
from isoline_client.guard.worker import ReplayWorker
async def main():
    SWITCHES.seams = SWITCHES.hooks = SWITCHES.carrying = False
    worker = ReplayWorker(modules=["guard.leaving"], require_isolation=True)
    for way in (each for each in WAYS.values() if each.here):
        await worker.run_node(node("leave", {"way": way.name, "world": json.loads(sys.argv[1])}), Answers())
    await worker.stop()
    print("done")
asyncio.run(main())
"""


@requires_root
def test_nothing_leaves_the_worker_of_an_ordinary_user(outside):
    python = interpreter(for_user=ORDINARY_USER)
    if python is None:
        pytest.skip("no Python that an ordinary user may run")
    for path in (outside.folder, outside.files, *outside.files.iterdir()):
        path.chmod(0o777)
    for path in outside.folder.parents:
        if path.owner() == "root" and path.name.startswith("pytest"):
            path.chmod(0o755)
    outside.start_counting()
    command = [*as_user(ORDINARY_USER), python, "-c", AS_ANOTHER_USER, json.dumps(outside.address)]

    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, cwd="/")

    assert done.stdout.strip() == "done", done.stderr[-2000:]
    assert outside.reached == 0
    assert os.getuid() == 0
