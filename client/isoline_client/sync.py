"""The same client for code that is not asynchronous: a facade over one event loop in a thread of its own. No logic of the service is here.

Pages, not events, cross between the threads, and while one is consumed the next is fetched: so iteration is fast and holds two pages.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from isoline_client import limits
from isoline_client.channel import Tls
from isoline_client.client import Client
from isoline_client.errors import ClientClosed
from isoline_client.events import Event, NewEvent
from isoline_client.run import Run
from isoline_client.values import (
    Appended,
    Capabilities,
    Comparison,
    Diff,
    ForkMode,
    Freshness,
    ImportReport,
    Page,
    Prefix,
    RegionStatus,
    RunInfo,
    State,
)
from isoline_client.verify import Position

T = TypeVar("T")


class _LoopThread:
    """One event loop in one thread, from ``start`` to ``stop``."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="isoline-client", daemon=True)
        self.stopped = False
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end in the loop; an interrupted caller cancels it."""
        if self.stopped:
            work.close()
            raise ClientClosed(message="the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, source: AsyncGenerator[T, None]) -> Iterator[T]:
        """Iterate in the caller's thread, with one item fetched ahead."""
        ahead = _Ahead(source)
        try:
            while (item := self.run(ahead.next())) is not None:
                yield item
        finally:
            if not self.stopped:  # not waited for: a forgotten iterator may be collected in the loop's own thread
                asyncio.run_coroutine_threadsafe(ahead.close(), self._loop)

    def stop(self) -> None:
        if self.stopped:
            return
        self.stopped = True
        asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


class _Ahead(Generic[T]):
    """Fetches the next item of a generator while the last one is used. Lives in the loop."""

    def __init__(self, source: AsyncGenerator[T, None]) -> None:
        self._source = source
        self._fetch: asyncio.Task[T | None] | None = None

    async def next(self) -> T | None:
        fetch = self._fetch or asyncio.create_task(self._one())
        item = await fetch
        self._fetch = None if item is None else asyncio.create_task(self._one())
        return item

    async def close(self) -> None:
        if self._fetch is not None:
            self._fetch.cancel()
            await asyncio.wait([self._fetch])
        await self._source.aclose()

    async def _one(self) -> T | None:
        return await anext(self._source, None)


class SyncRun:
    """A ``Run`` for code that is not asynchronous."""

    def __init__(self, loop: _LoopThread, run: Run) -> None:
        self._loop = loop
        self._run = run

    def __repr__(self) -> str:
        return f"SyncRun({self.run_id!r})"

    @property
    def run_id(self) -> str:
        return self._run.run_id

    @property
    def made(self) -> RunInfo | None:
        return self._run.made

    @property
    def repeated(self) -> bool:
        return self._run.repeated

    def info(
        self, *, freshness: Freshness = "latest", known: Position | None = None, timeout_s: float | None = None
    ) -> RunInfo:
        return self._loop.run(self._run.info(freshness=freshness, known=known, timeout_s=timeout_s))

    def append(
        self,
        events: NewEvent | Iterable[NewEvent],
        *,
        expected_seq: int | None = None,
        engine: str = "",
        engine_seq: int = 0,
        lease_epoch: int = 0,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Appended:
        appending = self._run.append(
            events,
            expected_seq=expected_seq,
            engine=engine,
            engine_seq=engine_seq,
            lease_epoch=lease_epoch,
            request_id=request_id,
            timeout_s=timeout_s,
        )
        return self._loop.run(appending)

    def read(
        self,
        from_seq: int = 0,
        until_seq: int | None = None,
        *,
        freshness: Freshness = "latest",
        known: Position | None = None,
    ) -> Iterator[Event]:
        for page in self.read_pages(from_seq, until_seq, freshness=freshness, known=known):
            yield from page

    def read_pages(
        self,
        from_seq: int = 0,
        until_seq: int | None = None,
        *,
        freshness: Freshness = "latest",
        known: Position | None = None,
    ) -> Iterator[Page]:
        return self._loop.iterate(self._run.read_pages(from_seq, until_seq, freshness=freshness, known=known))

    def tail(
        self,
        from_seq: int = 0,
        *,
        known: Position | None = None,
        stop_at_terminal: bool = False,
        patience_s: float = limits.TAIL_PATIENCE_S,
    ) -> Iterator[Event]:
        pages = self._run.tail_pages(from_seq, known=known, stop_at_terminal=stop_at_terminal, patience_s=patience_s)
        for page in self._loop.iterate(pages):
            yield from page

    def state(
        self,
        at_seq: int | None = None,
        *,
        freshness: Freshness = "latest",
        known: Position | None = None,
        timeout_s: float | None = None,
    ) -> State:
        return self._loop.run(self._run.state(at_seq, freshness=freshness, known=known, timeout_s=timeout_s))

    def prefix(
        self,
        until_seq: int | None = None,
        *,
        recompute: bool = False,
        freshness: Freshness = "latest",
        known: Position | None = None,
        timeout_s: float | None = None,
    ) -> Prefix:
        return self._loop.run(
            self._run.prefix(until_seq, recompute=recompute, freshness=freshness, known=known, timeout_s=timeout_s)
        )

    def fork(
        self,
        from_seq: int | None = None,
        *,
        mode: ForkMode = "branch",
        overlay: Mapping[str, Any] | bytes | str | None = None,
        home_region: str = "",
        expected_prefix_digest: bytes | None = None,
        executed: bool | None = None,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> "SyncRun":
        forking = self._run.fork(
            from_seq,
            mode=mode,
            overlay=overlay,
            home_region=home_region,
            expected_prefix_digest=expected_prefix_digest,
            executed=executed,
            request_id=request_id,
            timeout_s=timeout_s,
        )
        return SyncRun(self._loop, self._loop.run(forking))


class SyncClient:
    """A ``Client`` for code that is not asynchronous: ``with SyncClient("near:7400") as client``."""

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        api_key: str | None = None,
        timeout_s: float = limits.CALL_TIMEOUT_S,
        verify: bool = True,
        tls: Tls | None = None,
    ) -> None:
        self._client = Client(addresses, api_key=api_key, timeout_s=timeout_s, verify=verify, tls=tls)
        self._loop = _LoopThread()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every channel and end the thread. A second call does nothing."""
        if not self._loop.stopped:
            self._loop.run(self._client.close())
            self._loop.stop()

    def create_run(
        self,
        workflow_id: str,
        tags: Sequence[str] = (),
        home_region: str = "",
        *,
        executed: bool = False,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> SyncRun:
        making = self._client.create_run(
            workflow_id, tags, home_region, executed=executed, request_id=request_id, timeout_s=timeout_s
        )
        return SyncRun(self._loop, self._loop.run(making))

    def start_run(
        self,
        workflow_id: str,
        inputs: Mapping[str, Any],
        *,
        tags: Sequence[str] = (),
        home_region: str = "",
        request_id: str | None = None,
        version: str = "",
        timeout_s: float | None = None,
    ) -> SyncRun:
        starting = self._client.start_run(
            workflow_id,
            inputs,
            tags=tags,
            home_region=home_region,
            request_id=request_id,
            version=version,
            timeout_s=timeout_s,
        )
        return SyncRun(self._loop, self._loop.run(starting))

    def import_run(
        self,
        documents: Collection[bytes],
        *,
        workflow_id: str = "",
        tags: Sequence[str] = (),
        home_region: str = "",
        subject_id: str = "",
        lane: str = "",
        kind: str = "",
        check_only: bool = False,
        request_id: str | None = None,
        timeout_s: float | None = None,
    ) -> ImportReport:
        importing = self._client.import_run(
            documents,
            workflow_id=workflow_id,
            tags=tags,
            home_region=home_region,
            subject_id=subject_id,
            lane=lane,
            kind=kind,
            check_only=check_only,
            request_id=request_id,
            timeout_s=timeout_s,
        )
        return self._loop.run(importing)

    def run(self, run_id: str) -> SyncRun:
        return SyncRun(self._loop, self._client.run(run_id))

    def list_runs(self, workflow_id: str = "", *, page_size: int = 50) -> Iterator[RunInfo]:
        return self._loop.iterate(self._client.list_runs(workflow_id, page_size=page_size))

    def diff(
        self, a: SyncRun | str, b: SyncRun | str, *, max_event_diffs: int = 0, timeout_s: float | None = None
    ) -> Diff:
        ids = [each if isinstance(each, str) else each.run_id for each in (a, b)]
        return self._loop.run(self._client.diff(*ids, max_event_diffs=max_event_diffs, timeout_s=timeout_s))

    def compare(self, a: SyncRun | str, b: SyncRun | str, *, timeout_s: float | None = None) -> Comparison:
        ids = [each if isinstance(each, str) else each.run_id for each in (a, b)]
        return self._loop.run(self._client.compare(*ids, timeout_s=timeout_s))

    def capabilities(self) -> Capabilities:
        return self._loop.run(self._client.capabilities())

    def region_status(self) -> RegionStatus:
        return self._loop.run(self._client.region_status())
