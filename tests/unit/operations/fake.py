"""A log in memory that keeps the writer's promises, so that a lane's timing can be forced without a database."""

import asyncio
from collections import deque
from dataclasses import replace

from isoline_server.domain.append import AppendCommand
from isoline_server.domain.event import EventContent
from isoline_server.domain.ids import Region, RunId, Tenant
from isoline_server.domain.run import Head
from isoline_server.operations.lane import Lane
from isoline_server.operations.ports import KeySeen

EU = Region("eu")


def run_id(letter="a"):
    return RunId(f"local/eu-{letter * 26}")


def command(name, *, run="a", request_id=None, expected_seq=None, engine="", engine_seq=0, events=1, lease_epoch=0):
    """An append whose events all carry ``name``."""
    contents = tuple(EventContent(type="example.noted", payload=name.encode()) for _ in range(events))
    return AppendCommand(
        tenant=Tenant("local"),
        run_id=run_id(run),
        request_id=request_id or f"request-of-{name:>16}",
        contents=contents,
        causation_ids=("",) * events,
        expected_seq=expected_seq,
        engine=engine,
        engine_seq=engine_seq,
        lease_epoch=lease_epoch,
    )


class FakeLog:
    """``faults`` are raised by the next appends, before or after their work; while ``open`` is cleared, appends wait in front of it, and
    while ``answering`` is, behind it."""

    def __init__(self, runs="a"):
        self.heads = {run_id(letter): Head() for letter in runs}
        self.records = {run: [] for run in self.heads}
        self.receipts = {}
        self.engines = {}
        self.statements = []
        self.loads = 0
        self.faults = deque()
        self.open = asyncio.Event()
        self.open.set()
        self.answering = asyncio.Event()
        self.answering.set()

    def names(self, letter="a"):
        return [record.decode() for record in self.records[run_id(letter)]]

    def move(self, letter="a"):
        """Somebody else appends."""
        head = self.heads[run_id(letter)]
        self.records[run_id(letter)].append(b"other")
        self.heads[run_id(letter)] = Head(
            seq=head.seq + 1, digest=bytes([head.digest[0] ^ 1]) + head.digest[1:], record_bytes=0
        )

    def claim(self, letter="a"):
        """An executor claims the run."""
        head = self.heads[run_id(letter)]
        self.heads[run_id(letter)] = replace(head, lease_epoch=head.lease_epoch + 1)

    async def append(self, region, groups):
        self.statements.append([record.decode() for group in groups for record in group.records])
        await self.open.wait()
        when, error = self.faults.popleft() if self.faults else ("never", None)
        if when == "before":
            raise error
        moved = self._write(groups)
        await self.answering.wait()
        if when == "after":
            raise error
        return moved

    def _write(self, groups):
        if any(receipt.key in self.receipts for group in groups for receipt in group.receipts if self._fits(group)):
            raise KeySeen
        moved = {group.run_id for group in groups if self._fits(group)}
        for group in groups:
            if group.run_id in moved:
                self.heads[group.run_id] = replace(group.head, lease_epoch=self.heads[group.run_id].lease_epoch)
                self.records[group.run_id] += group.records
                self.receipts.update({receipt.key: receipt for receipt in group.receipts})
                self.engines.update({(group.run_id, engine): seq for engine, seq in group.engines.items()})
        return frozenset(moved)

    def _fits(self, group):
        head = self.heads.get(group.run_id)
        if head is None or (head.seq, head.digest) != (group.previous.seq, group.previous.digest):
            return False
        return group.lease_epoch in (0, head.lease_epoch)

    async def load_heads(self, region, run_ids):
        self.loads += 1
        return {run: self.heads[run] for run in run_ids if run in self.heads}

    async def load_receipts(self, region, keys):
        return {key: self.receipts[key] for key in keys if key in self.receipts}

    async def load_engine_seqs(self, region, engines):
        return {each: self.engines[each] for each in engines if each in self.engines}


class Ids:
    def event_ids(self, now_us, count):
        return 1


def lane_over(log, notify=lambda moved: None, near=None):
    return Lane(
        home=EU,
        region=EU,
        writer=log,
        spell_v1=lambda record: record,
        encode=lambda content, stamp: content.payload,
        clock=lambda: 1,
        ids=Ids(),
        notify=notify,
        replays=None,
        near=near,
    )
