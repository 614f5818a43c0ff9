"""Make a run, empty or as a fork: both are one guarded insert with a receipt, so both live here and share the law of repeats.

A fork reads what it needs before it writes: the source's head (a lower bound is enough, for heads only grow and a terminal seq is set once),
its lineage and the digest at the boundary, all of which can never change again. So the child is made in one statement.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace

from isoline_server.domain.errors import IsolineError, OutcomeUnknown, RequestIdReused, StoreUnavailable
from isoline_server.domain.fork import ForkCommand, check_fork_point, check_gaps, fork_point, plan_fork
from isoline_server.domain.ids import Region, Tenant, mint_run_id
from isoline_server.domain.receipt import Receipt, create_hash, fork_hash, receipt_region, request_key
from isoline_server.domain.run import ERA, MARK_START, Freshness, Head, Mark, Run
from isoline_server.operations.append import Lanes
from isoline_server.operations.backoff import Backoff
from isoline_server.operations.ports import Clock, IdSource, KeySeen, LogWriter, StoreRetryable
from isoline_server.operations.reading import Reading


class RunMaker:
    """CreateRun and ForkRun. ``homes`` are the regions of the service, in their configured order."""

    def __init__(
        self,
        *,
        writer: LogWriter,
        reading: Reading,
        lanes: Lanes,
        homes: tuple[Region, ...],
        clock: Clock,
        ids: IdSource,
    ) -> None:
        self._writer = writer
        self._reading = reading
        self._lanes = lanes
        self._homes = homes
        self._clock = clock
        self._ids = ids

    async def create(
        self,
        *,
        tenant: Tenant,
        request_id: str,
        workflow_id: str,
        tags: tuple[str, ...],
        home: Region,
        asked_home: str,
        executed: bool,
        timeout_s: float,
    ) -> tuple[Run, bool]:
        """Make an empty run; return it, and whether an earlier call with this request id made it."""
        receipt = Receipt(
            key=request_key(tenant, "create", request_id),
            request_hash=create_hash(workflow_id, tags, asked_home, executed=executed),
        )
        run = Run(
            run_id=mint_run_id(tenant, home, self._ids.run_entropy()),
            tenant=tenant,
            home=home,
            workflow_id=workflow_id,
            tags=tags,
            created_at_us=self._clock(),
            era=ERA,
            head=Head(),
            executed=executed,
        )
        return await self.insert(run, receipt, request_id, timeout_s)

    async def fork(
        self, *, tenant: Tenant, request_id: str, command: ForkCommand, asked_home: str, timeout_s: float
    ) -> tuple[Run, bool]:
        """Make a run that shares the source's prefix; return it, and whether an earlier call with this request id made it.

        The receipt is looked up before a refusal is said: what was made once stays made, whatever the source has become since.
        """
        receipt = Receipt(key=request_key(tenant, "fork", request_id), request_hash=fork_hash(command, asked_home))
        try:
            run = await self._plan(tenant, command)
        except IsolineError:
            earlier = await self.earlier(receipt, request_id)
            if earlier is None:
                raise
            return earlier, True
        return await self.insert(run, receipt, request_id, timeout_s)

    async def _plan(self, tenant: Tenant, command: ForkCommand) -> Run:
        from_seq = fork_point(command)
        source = await self._source(command, from_seq)
        check_fork_point(source, from_seq)
        await self._reading.check_translatable(source, from_seq)
        boundary = await self._boundary(source, from_seq)
        child_id = mint_run_id(tenant, command.home, self._ids.run_entropy())
        child = plan_fork(source, command, boundary, child_id, self._clock())
        check_gaps(source, from_seq, executed=child.executed)
        return child

    async def _source(self, command: ForkCommand, from_seq: int) -> Run:
        """The source with a head that is known to reach ``from_seq``, from memory where that is enough."""
        known = self._reading.known_run(command.source_run_id)
        if known is not None:
            hint = self._lanes.of(known.run_id).hint(known.run_id)
            newest = known if hint is None or hint.seq <= known.head.seq else replace(known, head=hint)
            if from_seq <= newest.head.seq:
                return newest
        return await self._reading.fresh_run(command.source_run_id)

    async def _boundary(self, source: Run, from_seq: int) -> Mark:
        if from_seq == 0:
            return MARK_START
        return await self._reading.leader_mark(source, from_seq - 1)

    async def insert(self, run: Run, receipt: Receipt, request_id: str, timeout_s: float) -> tuple[Run, bool]:
        """Insert the run; a key that exists gives the earlier outcome; what the database would not say is asked again."""
        partition = receipt_region(receipt.key, self._homes)
        receipt = replace(receipt, run_id=run.run_id)
        loop = asyncio.get_running_loop()
        give_up_at_s = loop.time() + timeout_s
        backoff = Backoff()
        in_doubt = False
        try:
            async with asyncio.timeout_at(give_up_at_s):
                while True:
                    doubtful_before, in_doubt = in_doubt, True
                    try:
                        await self._writer.insert_run(run, receipt, partition)
                        break
                    except KeySeen:
                        with suppress(StoreUnavailable):  # it exists, and what it came to is asked again
                            earlier = await self.earlier(receipt, request_id)
                            if earlier is not None:
                                return earlier, earlier.run_id != run.run_id
                    except StoreRetryable as error:
                        in_doubt = doubtful_before or error.ambiguous
                    await backoff.pause()
        except TimeoutError:
            raise (OutcomeUnknown() if in_doubt else StoreUnavailable("no answer within the deadline")) from None
        self._reading.remember(run)
        self._lanes.of(run.run_id).remember(run.run_id, run.head)
        return run, False

    async def earlier(self, receipt: Receipt, request_id: str) -> Run | None:
        """The run that an earlier call with this request id made, as it was made: with the head of that moment."""
        partition = receipt_region(receipt.key, self._homes)
        try:
            found = (await self._writer.load_receipts(partition, [receipt.key])).get(receipt.key)
        except StoreRetryable as error:
            raise StoreUnavailable(error.reason) from error
        if found is None:
            return None
        if found.request_hash != receipt.request_hash:
            raise RequestIdReused(request_id)
        assert found.run_id is not None
        run, _ = await self._reading.run(found.run_id, Freshness.LATEST)
        return replace(run, head=await self._first_head(run))

    async def _first_head(self, run: Run) -> Head:
        """The head the run was made with; of an imported run, the head as it is now."""
        if run.era != ERA:
            return run.head
        if run.fork is None or run.fork.from_seq == 0:
            return Head()
        mark = await self._reading.leader_mark(run, run.fork.from_seq - 1)
        return Head(seq=mark.seq, digest=mark.digest, record_bytes=mark.end_byte, mode=run.fork.mode)
