"""An executor put together: workflows loaded, the guard in place, replay workers ready, the region known. The one composition root here."""

import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from isoline_client import guard
from isoline_client.client import Client
from isoline_client.executor.drive import Driver
from isoline_client.executor.service import Executor
from isoline_client.executor.settings import REPLAY_WORKERS, Settings
from isoline_client.guard.errors import IsolationUnavailable, WorkerFailed
from isoline_client.guard.worker import WorkerPool
from isoline_client.workflow.authoring import load_workflows
from isoline_client.workflow.errors import DefinitionInvalid

_log: Final = logging.getLogger(__name__)


class CannotStart(Exception):
    """An executor cannot be started as asked; the message says why."""


@asynccontextmanager
async def executor(client: Client, modules: str, settings: Settings) -> AsyncIterator[Executor]:
    """An executor of the workflows in ``modules`` (comma separated). Raises ``CannotStart``."""
    guard.install()
    try:
        workflows = load_workflows(modules)
    except (ImportError, DefinitionInvalid, ValueError) as error:
        raise CannotStart(f"--workflows: {error}") from error
    region = settings.region or (await client.region_status()).region
    settings = replace(settings, region=region)
    workers = WorkerPool(REPLAY_WORKERS, modules=modules.split(","), require_isolation=settings.require_isolation)
    ledger = client.execution()
    driver = Driver(
        client=client,
        ledger=ledger,
        workflows=workflows,
        workers=workers,
        also_side_effects=settings.also_side_effects,
    )
    try:
        if settings.require_isolation:
            await workers.start()
        _say(workflows, settings)
        yield Executor(ledger, settings, tuple(workflows), driver.drive)
    except (IsolationUnavailable, WorkerFailed) as error:
        raise CannotStart(str(error)) from error
    finally:
        await workers.stop()


def _say(workflow_ids: Iterable[str], settings: Settings) -> None:
    active = guard.active()
    _log.info(
        "executing",
        extra={
            "region": settings.region,
            "owner": settings.owner,
            "workflows": ", ".join(sorted(workflow_ids)),
            "isolation": "complete" if active.isolation.complete else "; ".join(active.notes),
        },
    )
