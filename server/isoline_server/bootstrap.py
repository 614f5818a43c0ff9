"""The composition root: the only file that names concrete classes of more than one layer. Builds a server, runs it, ends it in order."""

import asyncio
import logging
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from importlib.metadata import version
from typing import Any

import structlog
from opentelemetry import trace

from isoline_server import codec, telemetry
from isoline_server.api.credentials import Credentials
from isoline_server.api.execution_servicer import ExecutionParts, ExecutionServicer
from isoline_server.api.host_servicer import HostParts, HostServicer
from isoline_server.api.log_servicer import LogParts, LogServicer
from isoline_server.api.server import GrpcServer
from isoline_server.config import ConfigError, Settings
from isoline_server.domain.errors import ChainBroken
from isoline_server.domain.ids import RUN_ENTROPY_BYTES, Region, RunId, check_region
from isoline_server.era2 import Era2
from isoline_server.openwop import codemap
from isoline_server.operations.append import Lanes
from isoline_server.operations.append_replay import ReplayComparer
from isoline_server.operations.get_state import StateReader
from isoline_server.operations.import_run import RunImporter
from isoline_server.operations.lane import Lane
from isoline_server.operations.make_run import RunMaker
from isoline_server.operations.reading import Reading
from isoline_server.operations.tail import TailHub
from isoline_server.replicas import Replicas
from isoline_server.store.migrate import check_schema
from isoline_server.store.migrations.errors import DatabaseFailed
from isoline_server.store.sql_effects import SqlEffects
from isoline_server.store.sql_invocations import SqlInvocations
from isoline_server.store.sql_leases import SqlLeases
from isoline_server.store.sql_writer import SqlLogWriter
from isoline_server.workers.snapshots import SnapshotKeeper

log = structlog.get_logger(__name__)
_ULID_RANDOM_BITS = 80


class SystemIds:
    """Random run ids, and ULIDs that only ever grow within this process."""

    def __init__(self) -> None:
        self._next_event_id = 0

    def run_entropy(self) -> bytes:
        return secrets.token_bytes(RUN_ENTROPY_BYTES)

    def event_ids(self, now_us: int, count: int) -> int:
        # One random bit is left clear, so that counting on within a millisecond cannot carry into its time.
        fresh = (now_us // 1_000) << _ULID_RANDOM_BITS | secrets.randbits(_ULID_RANDOM_BITS - 1)
        first = max(fresh, self._next_event_id)
        self._next_event_id = first + count
        return first


def now_us() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000


class RegionServer:
    """The server of one region: everything it is made of, started and ended in order."""

    def __init__(self, settings: Settings, region: Region) -> None:
        if region not in settings.homes:
            raise ConfigError(f"region {region} is not configured; there are {', '.join(settings.homes)}")
        own = settings.regions[region]
        self._settings = settings
        self.region = region
        era2 = Era2(codemap())
        self._replicas = replicas = Replicas(settings, own, era2.translate_page)
        leader, local = replicas.readers.leader, replicas.readers.local
        writer, ids = SqlLogWriter(replicas.writing), SystemIds()
        self._tails = TailHub(local=local, leader=leader)
        reading = Reading(
            local=local,
            leader=leader,
            older=replicas.readers.older,
            local_deadline_s=settings.local_deadline_ms / 1000,
            leader_deadline_s=settings.leader_deadline_ms / 1000,
            on_damage=_report_damage,
        )
        states = StateReader(reading=reading, writer=writer, decode_if=codec.decode_content_if)
        self._snapshots = SnapshotKeeper(states)
        replays = ReplayComparer(reading=reading, decode=codec.decode, clock=now_us, ids=ids)
        self._lanes = Lanes(
            {
                home: [
                    Lane(
                        home=home,
                        region=region,
                        writer=writer,
                        encode=codec.encode,
                        spell_v1=era2.stored_append,
                        clock=now_us,
                        ids=ids,
                        notify=self._moved,
                        replays=replays,
                        near=replicas.nearby,
                    )
                    for _ in range(settings.append_lanes)
                ]
                for home in settings.homes
            },
            replays,
        )
        maker = RunMaker(writer=writer, reading=reading, lanes=self._lanes, homes=settings.homes, clock=now_us, ids=ids)
        self._log = LogServicer(
            LogParts(
                region=region,
                homes=settings.homes,
                lanes=self._lanes,
                reading=reading,
                leader=leader,
                maker=maker,
                importer=RunImporter(writer=writer, maker=maker, take=era2.take, clock=now_us),
                states=states,
                tails=self._tails,
            )
        )
        self._execution = ExecutionServicer(
            ExecutionParts(
                region=region,
                homes=settings.homes,
                leases=SqlLeases(replicas.executing),
                effects=SqlEffects(replicas.executing, regions=settings.homes),
                invocations=SqlInvocations(replicas.executing),
                reading=reading,
            )
        )
        self._host = HostServicer(
            HostParts(
                version=version("isoline"),
                region=region,
                homes=settings.homes,
                topology=settings.topology,
                leader_region=settings.leader_region,
                local=local,
                leader=leader,
                tails=self._tails,
            )
        )
        self._grpc: GrpcServer | None = None
        self._background: list[asyncio.Task[None]] = []
        self._watching: asyncio.Task[None] | None = None
        self.failed = asyncio.Event()
        """A task that must run as long as the server ended by an error: a defect. The server had better stop than look alive."""

    @property
    def address(self) -> str:
        """Where the server listens, known after ``start()``."""
        assert self._grpc is not None
        host = self._settings.regions[self.region].listen.rpartition(":")[0]
        return f"{host}:{self._grpc.ports[0]}"

    async def start(self) -> None:
        """Connect, start the background, serve. Raises ``StoreRetryable`` (the leader does not answer) or ``OSError`` (the address is taken)."""
        self._watching = self._replicas.watch()
        if self._watching is not None:
            self._watching.add_done_callback(self._task_ended)
        await self._replicas.meet()
        self._grpc = GrpcServer(
            listen=[self._settings.regions[self.region].listen],
            log=self._log,
            execution=self._execution,
            host=self._host,
            credentials=Credentials(self._settings.callers, self._settings.anonymous),
            tails=self._tails,
            reflect=self._settings.reflection,
        )
        lanes = self._lanes.start()
        self._background = [
            asyncio.create_task(self._tails.run(), name="tails"),
            asyncio.create_task(self._snapshots.run(), name="snapshots"),
        ]
        for task in (*lanes, *self._background):
            task.add_done_callback(self._task_ended)
        await self._grpc.start()
        log.info("serving", region=self.region, address=self.address, topology=self._settings.topology)

    async def stop(self) -> None:
        """Drain: finish what runs, then let everything go."""
        grace_s = self._settings.drain_grace_s
        log.info("draining", region=self.region, grace_s=grace_s)
        async with AsyncExitStack() as last:
            last.push_async_callback(self._replicas.close)
            if self._grpc is not None:
                await self._grpc.drain(grace_s)
            await self._lanes.close(grace_s)
            background = [*self._background, *([] if self._watching is None else [self._watching])]
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
        log.info("stopped", region=self.region)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.critical("a background task failed", task=task.get_name(), exc_info=error)
            self.failed.set()

    def _moved(self, moved: Iterable[tuple[RunId, int]]) -> None:
        heads = list(moved)
        self._tails.notify(heads)
        self._snapshots.notify(heads)


Beside = Callable[[str], AbstractAsyncContextManager[None]]
"""What runs beside a server, given its address: entered once it answers, left before it stops."""


def serve(
    settings: Settings,
    region: str,
    *,
    on_ready: Callable[[str], None] | None = None,
    beside: Beside | None = None,
) -> None:
    """Serve one region until SIGTERM or SIGINT. Raises ``SchemaMismatch`` when the database needs ``isoline migrate``."""
    set_up_logging(settings)
    set_up_telemetry(settings, region)
    _check_schema(settings, check_region(region))
    with asyncio.Runner(loop_factory=_event_loop_factory()) as runner:
        runner.run(_serve(settings, check_region(region), on_ready, beside))


def _check_schema(settings: Settings, region: Region) -> None:
    """Ask the leader, or, when it does not answer, another node: a region that is cut off may still start."""
    own = settings.regions.get(region)
    own_url = None if own is None else own.local_url
    *places, last = [url for url in dict.fromkeys((settings.leader_url, own_url, *settings.standby_urls)) if url]
    for url in places:
        try:
            check_schema(url)
        except DatabaseFailed as error:
            log.warning("a node does not answer", error=str(error))
        else:
            return
    check_schema(last)


def _event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop where it is installed: the same loop, with less work in Python."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(
    settings: Settings, region: Region, on_ready: Callable[[str], None] | None, beside: Beside | None
) -> None:
    server = RegionServer(settings, region)
    stopping = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stopping.set)
    try:
        await server.start()
        if on_ready is not None:
            on_ready(server.address)
        async with beside(server.address) if beside is not None else nullcontext():
            waits = [asyncio.create_task(stopping.wait()), asyncio.create_task(server.failed.wait())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
    finally:
        await server.stop()
    if server.failed.is_set():
        raise RuntimeError("a background task of the server failed; its log says which")


def set_up_logging(settings: Settings) -> None:
    """Structured logs on stderr: JSON for machines, or a console form for people."""
    level = getattr(logging, settings.log_level.upper())
    renderer: Any = (
        structlog.dev.ConsoleRenderer() if settings.log_format == "console" else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _add_trace_ids,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def set_up_telemetry(settings: Settings, region: str) -> None:
    """The SDK and its OTLP exporter, when an endpoint is configured; else the API's no-ops stay."""
    if settings.otlp_endpoint is None:
        return
    from opentelemetry import metrics
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create(
        {"service.name": "isoline", "service.version": version("isoline"), telemetry.REGION: region}
    )
    spans = TracerProvider(resource=resource)
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(settings.otlp_endpoint, insecure=True)))
    trace.set_tracer_provider(spans)
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(settings.otlp_endpoint, insecure=True))
    metrics.set_meter_provider(MeterProvider(resource=resource, metric_readers=[reader]))


def _add_trace_ids(_: Any, __: str, event: Any) -> Any:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = f"{context.trace_id:032x}"
    return event


def _report_damage(broken: ChainBroken) -> None:
    telemetry.chain_breaks.add(1, {telemetry.SOURCE: broken.source})
    log.error("chain broken", run_id=broken.run_id, seq=broken.seq, source=broken.source)
