"""A background task that ends by an error is noticed: a server that only looks alive is worse than one that is gone."""

from isoline_server.bootstrap import RegionServer
from support.servers import settings_for, start_region
from support.waiting import eventually


async def test_a_failed_background_task_marks_the_server_as_failed(pg_url: str, monkeypatch) -> None:
    async def breaks(_self) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("isoline_server.operations.tail.TailHub.run", breaks)
    running = await start_region(settings_for(pg_url, {"eu": pg_url}), "eu")
    try:
        await eventually(lambda: told(running), what="the server's mark")
    finally:
        await running.stop()


async def test_a_server_that_is_stopped_has_not_failed(pg_url: str) -> None:
    running = await start_region(settings_for(pg_url, {"eu": pg_url}), "eu")
    await running.stop()
    assert not running.failed.is_set()


async def told(running: RegionServer) -> bool:
    return running.failed.is_set()
