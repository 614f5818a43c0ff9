"""The claim loop: how many runs at once, when it stops, and what becomes of a run that cannot be driven."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from isoline_client import Client, Run
from isoline_client.executor import service, serving
from isoline_client.executor.living import Living
from isoline_client.executor.service import Executor
from isoline_client.executor.settings import Settings
from support.counting import Counting
from support.executing import SHOP, Floor, find, log
from support.servers import free_port
from support.waiting import eventually


@asynccontextmanager
async def executor(eu: Floor, **settings: Any) -> AsyncIterator[Executor]:
    options = {"owner": "tests", "region": "eu", "poll_ms": 20, "until": "idle", **settings}
    async with serving.executor(eu.client, SHOP, Settings(**options)) as made:
        yield made


async def start(eu: Floor, workflow_id: str, url: str, count: int) -> list[Run]:
    return [await eu.client.start_run(workflow_id, {"url": url}, home_region="eu") for _ in range(count)]


async def test_many_runs_are_driven_at_once(eu: Floor, outside: Counting) -> None:
    outside.hold()
    runs = await start(eu, "order", outside.url, 6)
    async with executor(eu) as made:
        working = asyncio.create_task(made.run())
        await asyncio.to_thread(outside.wait_for, 6)
        outside.release()
        await working
    assert {(await log(run))[-1].type for run in runs} == {"run.completed"}


async def test_no_more_runs_at_once_than_allowed(eu: Floor, outside: Counting) -> None:
    outside.hold()
    runs = await start(eu, "order", outside.url, 5)
    async with executor(eu, max_runs=2) as made:
        working = asyncio.create_task(made.run())
        await asyncio.to_thread(outside.wait_for, 2)
        begun = [run for run in runs if await find(run, "node.started", "basket")]
        assert len(begun) == 2
        outside.release()
        await working
    assert {(await log(run))[-1].type for run in runs} == {"run.completed"}
    assert outside.count == 5


async def test_once_drives_what_one_claim_brought(eu: Floor, outside: Counting) -> None:
    runs = await start(eu, "order", outside.url, 3)
    async with executor(eu, max_runs=2, until="once") as made:
        await made.run()
    assert outside.count == 2
    await eu.work()
    assert {(await log(run))[-1].type for run in runs} == {"run.completed"}


async def test_a_run_that_cannot_be_driven_fails_visibly(
    eu: Floor, outside: Counting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A defect of the executor's own, over and over."""

    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no way")

    monkeypatch.setattr(service, "FAILURE_PAUSE_MS", 1)
    with monkeypatch.context() as patched:
        patched.setattr(Living, "execute", broken)
        run = await eu.run("order", {"url": outside.url})
    (*_, last) = await log(run)
    assert (last.type, last.payload["error"]["code"]) == ("run.failed", "isoline.executor_failed")
    assert "RuntimeError: no way" in last.payload["error"]["message"]
    assert len([record for record in caplog.records if record.getMessage() == "driving failed"]) == 5


async def test_a_server_that_is_not_there_yet_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async with Client(f"127.0.0.1:{free_port()}", timeout_s=0.3) as client:
        settings = Settings(owner="tests", region="eu", poll_ms=20)
        async with serving.executor(client, SHOP, settings) as made:
            working = asyncio.create_task(made.run())

            async def tried_on() -> bool:
                return len([each for each in caplog.records if "no server answers" in each.getMessage()]) >= 2

            await eventually(tried_on, what="a second try")
            made.drain()
            await working


@pytest.mark.parametrize("modules", ["no.such.module", "support.waiting", ""])
async def test_modules_without_workflows_are_refused(eu: Floor, modules: str) -> None:
    with pytest.raises(serving.CannotStart):
        async with serving.executor(eu.client, modules, Settings(owner="tests", region="eu")):
            pass
