"""Take over a run that a v1 host wrote, whole or not at all: its events are stored first, and nobody can ask for them before the run's row,
which is written last, with its receipt.

The run's id is made of the request and of the digest of what is imported. So an import that broke off goes on over the rows it left, and what
another body left under the same request id can only be met by a client that told a digest that its documents do not have.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from isoline_server.domain.canonical import JsonObject
from isoline_server.domain.errors import InvalidField, RequestIdReused, StoreUnavailable, Untranslatable
from isoline_server.domain.ids import RUN_ENTROPY_BYTES, RunId, Tenant, check_name, mint_run_id
from isoline_server.domain.imported import ImportCommand, ImportedLog, TakenEvent
from isoline_server.domain.receipt import Receipt, import_hash, request_key
from isoline_server.domain.run import ERA_V1, Run
from isoline_server.operations.backoff import Backoff
from isoline_server.operations.make_run import RunMaker
from isoline_server.operations.ports import Clock, EventsWrite, LogWriter, StoreRetryable

BATCH_S = 30.0
"""How long one batch may wait for the database before the import gives up."""

Take = Callable[[bytes, int, str, Tenant, JsonObject], TakenEvent]
"""Checks a document (of a seq, named by a field, of a tenant and its legacy subject) and makes what is stored and hashed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOutcome:
    """The run, or what it would be; and which of its events have no v2 form."""

    run: Run
    repeated: bool
    untranslatable_events: int = 0
    untranslatable: tuple[Untranslatable, ...] = ()


class RunImporter:
    """ImportRun."""

    def __init__(self, *, writer: LogWriter, maker: RunMaker, take: Take, clock: Clock) -> None:
        self._writer = writer
        self._maker = maker
        self._take = take
        self._clock = clock

    async def import_run(
        self, command: ImportCommand, batches: AsyncIterator[Sequence[bytes]], timeout_s: float
    ) -> ImportOutcome:
        """Store the documents that ``batches`` bring, then the run. An earlier call with this request id is answered without reading them."""
        receipt = Receipt(
            key=request_key(command.tenant, "import", command.request_id), request_hash=import_hash(command)
        )
        if not command.check_only:
            earlier = await self._maker.earlier(receipt, command.request_id)
            if earlier is not None:
                return ImportOutcome(run=earlier, repeated=True)
        entropy = sha256(receipt.key + receipt.request_hash).digest()[:RUN_ENTROPY_BYTES]
        run_id = mint_run_id(command.tenant, command.home, entropy)
        log = await self._store(command, run_id, batches)
        run = self._run(command, run_id, log)
        repeated = False
        if not command.check_only:
            run, repeated = await self._maker.insert(run, receipt, command.request_id, timeout_s)
        return ImportOutcome(
            run=run,
            repeated=repeated,
            untranslatable_events=log.untranslatable_events,
            untranslatable=tuple(log.untranslatable),
        )

    async def _store(
        self, command: ImportCommand, run_id: RunId, batches: AsyncIterator[Sequence[bytes]]
    ) -> ImportedLog:
        log, content = ImportedLog(), sha256()
        async for documents in batches:
            first_seq = log.head.seq + 1
            stored: list[bytes] = []
            digests: list[bytes] = []
            end_bytes: list[int] = []
            for seq, document in enumerate(documents, start=first_seq):
                content.update(document + b"\n")
                event = self._take(document, seq, f"events[{seq}]", command.tenant, command.subject)
                log.add(event)
                stored.append(event.stored)
                digests.append(log.head.digest)
                end_bytes.append(log.head.record_bytes)
            if stored and not command.check_only:
                write = EventsWrite(
                    run_id=run_id, first_seq=first_seq, records=stored, digests=digests, end_bytes=end_bytes
                )
                await self._insert(command, write)
        if log.head.seq < 0:
            raise InvalidField("events", "must hold at least one event")
        if content.digest() != command.content_digest:
            raise InvalidField("header.content_digest", "is not the digest of the documents that came")
        return log

    async def _insert(self, command: ImportCommand, write: EventsWrite) -> None:
        backoff = Backoff()
        try:
            async with asyncio.timeout(BATCH_S):
                while True:
                    try:
                        if not await self._writer.insert_events(command.home, write):
                            raise RequestIdReused(command.request_id)
                        return
                    except StoreRetryable:
                        await backoff.pause()
        except TimeoutError:
            raise StoreUnavailable("no answer within the deadline") from None

    def _run(self, command: ImportCommand, run_id: RunId, log: ImportedLog) -> Run:
        workflow_id = command.workflow_id or log.workflow_id
        if not workflow_id:
            raise InvalidField("header.workflow_id", "is required, for the first event's payload has no workflowId")
        return Run(
            run_id=run_id,
            tenant=command.tenant,
            home=command.home,
            workflow_id=check_name(workflow_id, "header.workflow_id"),
            tags=command.tags,
            created_at_us=self._clock(),
            era=ERA_V1,
            head=log.head,
            untranslatable_seq=log.untranslatable_seq,
        )
