"""The logs as they are when all is over: what the checker holds a history against."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from isoline_client import Client, RunNotFound
from isoline_drill.checker_findings import Log
from isoline_drill.history import Append, Create, Fork, Freshness, Look, Operation
from isoline_drill.load.carrying import entries

AT_ONCE_MAX: Final = 8
"""Reads under way: enough that a distant region is not read one round trip after the other."""


def runs_of(operations: Iterable[Operation]) -> list[str]:
    """Every run that a history names, in order."""
    found: dict[str, None] = {}
    for operation in operations:
        match operation:
            case Append() | Look() | Create() if operation.run:
                found[operation.run] = None
            case Fork():
                found[operation.source] = None
                if operation.run:
                    found[operation.run] = None
    return list(found)


async def read_logs(client: Client, runs: Iterable[str], freshness: Freshness = "latest") -> Mapping[str, Log]:
    """Every run, whole and verified: as the leader has it, or as the answering region's replica does. Without the runs that the service says do
    not exist, whose loss is for the checker to judge. Raises what else the service refuses."""
    turns = asyncio.Semaphore(AT_ONCE_MAX)

    async def read(run: str) -> tuple[str, Log | None]:
        async with turns:
            try:
                return run, entries([page async for page in client.run(run).read_pages(freshness=freshness)])
            except RunNotFound:
                return run, None

    found = await asyncio.gather(*map(read, runs))
    return {run: log for run, log in found if log is not None}
