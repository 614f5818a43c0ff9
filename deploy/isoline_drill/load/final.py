"""The logs as they are when all is over: what the checker holds a history against."""

from collections.abc import Iterable, Mapping

from isoline_client import Client
from isoline_drill.checker_findings import Log
from isoline_drill.history import Append, Create, Fork, Freshness, Look, Operation
from isoline_drill.load.carrying import entries


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
    """Every run, whole and verified: as the leader has it, or as the answering region's replica does. Raises what the service refuses."""
    logs: dict[str, Log] = {}
    for run in runs:
        logs[run] = entries([page async for page in client.run(run).read_pages(freshness=freshness)])
    return logs
