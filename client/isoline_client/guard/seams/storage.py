"""Objects that are written to storage outside the log."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from isoline_client.guard.policy import ask
from isoline_client.guard.seams.seam import REGISTRY, Seam

STORAGE: Final = REGISTRY.add(
    Seam(
        name="storage.write",
        kind="storage",
        module=__name__,
        unseen="a store's own library that was not wrapped by GuardedStorage and has its sockets in C",
    )
)


class Storage(Protocol):
    """Named objects. Reading is part of it: what a store answers today is no fact of the run, so a pure node may not read either."""

    async def put(self, name: str, content: bytes) -> None: ...
    async def get(self, name: str) -> bytes: ...
    async def delete(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class GuardedStorage:
    """A store that asks before each call."""

    inner: Storage

    async def put(self, name: str, content: bytes) -> None:
        ask(STORAGE.name, f"put {name}")
        await self.inner.put(name, content)

    async def get(self, name: str) -> bytes:
        ask(STORAGE.name, f"get {name}")
        return await self.inner.get(name)

    async def delete(self, name: str) -> None:
        ask(STORAGE.name, f"delete {name}")
        await self.inner.delete(name)


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """Objects as files under one folder. A name may not lead out of it."""

    root: Path

    async def put(self, name: str, content: bytes) -> None:
        path = self._path(name)
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(path.write_bytes, content)

    async def get(self, name: str) -> bytes:
        return await asyncio.to_thread(self._path(name).read_bytes)

    async def delete(self, name: str) -> None:
        await asyncio.to_thread(self._path(name).unlink)

    def _path(self, name: str) -> Path:
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root.resolve()):
            raise ValueError(f"{name!r} leads out of the store")
        return path
