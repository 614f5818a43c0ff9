"""What the processes of a load tell one another, by files: the runs that all regions write, made by whichever process comes first."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

POLL_S: Final = 0.05


async def appears(path: Path) -> None:
    """Wait until a file is there, which another process makes."""
    while not os.path.exists(path):  # noqa: ASYNC110, ASYNC240, PTH110 - no event of this loop says it; the look-up is local and short
        await asyncio.sleep(POLL_S)


async def shared_runs(path: Path, count: int, make: Callable[[], Awaitable[str]]) -> Sequence[str]:
    """The ids in ``path``, one a line. Whoever takes the place beside it first makes ``count`` runs and the file; the others wait for it."""
    if _first(path):
        _write(path, [await make() for _ in range(count)])
    await appears(path)
    return _read(path)


def _first(path: Path) -> bool:
    if path.exists():
        return False
    try:
        os.close(os.open(path.with_name(f"{path.name}.making"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _write(path: Path, runs: Sequence[str]) -> None:
    """Whole or not at all, for others read it as soon as it is there."""
    whole = path.with_name(f"{path.name}.made")
    whole.write_text("".join(f"{run}\n" for run in runs))
    whole.replace(path)


def _read(path: Path) -> Sequence[str]:
    return path.read_text().split()
