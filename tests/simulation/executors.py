"""Executors of a simulated world: they claim runs, carry effects out and append, and go on when they should have stopped.

What belongs here: one executor's life. What does not: the rules it must not be able to break (``monitor``, ``history``).
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar

from isoline_server import codec
from isoline_server.domain.append import AppendCommand
from isoline_server.domain.effect import (
    AdvanceEffectCommand,
    ClaimEffectCommand,
    Effect,
    EffectState,
    ResolveEffectCommand,
)
from isoline_server.domain.event import EventContent
from isoline_server.domain.ids import RunId
from isoline_server.domain.lease import ClaimCommand, Lease, LeaseRef, ReleaseCommand
from isoline_server.domain.run import Freshness
from isoline_server.operations.advance_effect import advance_effect
from isoline_server.operations.claim_effect import claim_effect
from isoline_server.operations.claim_runs import claim_runs
from isoline_server.operations.read_events import ReadCommand, read_events
from isoline_server.operations.release_run import release_run
from isoline_server.operations.renew_leases import renew_leases
from isoline_server.operations.resolve_effect import resolve_effect
from simulation.clients import CLIENT_ERRORS, TENANT, WORKFLOW, Stage, append
from simulation.history import UNKNOWN, Request
from simulation.process import Process, Server

T = TypeVar("T")

STEPS = 3
"""A run is done behind so many steps, each one effect and one event."""
STEP_TYPE = "sim.stepped"
CALL_S = 0.8


class Executor:
    """One executor, which does not look at its clock: whoever stops it, it is the database."""

    def __init__(self, stage: Stage, name: str, steps: dict[tuple[RunId, int], Request]) -> None:
        self._stage = stage
        self._name = name
        self._rng = stage.premises.rng
        self._server = stage.some_server()
        self._steps = steps
        """The append of each step, which all executors of a run share: a successor repeats it."""

    async def work(self) -> None:
        """Claim and carry out until the world ends."""
        while self._stage.live_executors:
            await asyncio.sleep(self._rng.random() * 1.6)
            for lease in await self._claim():
                try:
                    await self._carry_on(lease)
                except CLIENT_ERRORS:
                    continue  # the lease ends by itself, or is another's already

    async def _claim(self) -> tuple[Lease, ...]:
        home = self._rng.choice(self._stage.premises.regions)
        command = ClaimCommand(
            tenant=TENANT,
            home=home,
            owner=self._name,
            workflow_ids=(WORKFLOW,),
            runs_max=2,
            ttl_ms=self._rng.choice((300, 1_500)),
        )
        try:
            claimed = await self._once("claim", lambda process: claim_runs(process.leases, command, CALL_S))
        except CLIENT_ERRORS:
            return ()
        return claimed.leases

    async def _carry_on(self, lease: Lease) -> None:
        step, head_seq = await self._where(lease.run_id)
        while step < STEPS:
            if not await self._perform(lease, step):
                break
            await self._pause()
            await self._append(lease, step)
            step += 1
            if self._rng.random() < 0.4:
                await self._renew(lease)
        release = ReleaseCommand(
            lease=LeaseRef(lease.run_id, lease.epoch),
            seen_head_seq=head_seq,
            wake_in_ms=None if step == STEPS else self._rng.choice((50, 500)),
        )
        await self._patiently("release", lambda process: release_run(process.leases, release, CALL_S))

    async def _where(self, run_id: RunId) -> tuple[int, int]:
        """How many steps the log tells, and its head."""
        command = ReadCommand(run_id=run_id, from_seq=0, until_seq=None, freshness=Freshness.LATEST, known=None)

        async def carry_out(process: Process) -> tuple[int, int]:
            async with aclosing(read_events(process.reading, command)) as pages:
                found = [page async for page in pages]
            records = [record for page in found for record in page.records]
            return sum(codec.decode(record).content.type == STEP_TYPE for record in records), found[-1].last.seq

        return await self._patiently("read", carry_out)

    async def _perform(self, lease: Lease, step: int) -> bool:
        """Bring the step's effect to its end; whether it got there."""
        effect_id = f"effect-{step}"
        command = ClaimEffectCommand(
            tenant=TENANT,
            run_id=lease.run_id,
            lease_epoch=lease.epoch,
            effect_id=effect_id,
            node_id="node",
            visit=1,
            ordinal=step,
            seam="http",
            provider_key=f"{lease.run_id}/{step}",
            request_digest=b"\x01" * 32,
            draws=b"",
        )
        granted, effect = await self._patiently(
            "claim_effect", lambda process: claim_effect(process.effects, command, CALL_S)
        )
        if effect.state is EffectState.IN_DOUBT:
            await self._ask_a_person(effect)
            return False
        if not granted:
            return effect.state is EffectState.COMPLETED
        await self._pause()
        effect = await self._advance(lease, effect, EffectState.OUTBOUND)
        await self._pause()
        self._stage.premises.trace.add(self._name, "sends", (effect_id, effect.attempt, lease.epoch))
        self._stage.history.left(lease.run_id, effect_id, effect.attempt)
        await self._pause()
        to = EffectState.COMPLETED if self._rng.random() < 0.8 else EffectState.FAILED
        await self._advance(lease, effect, to)
        return to is EffectState.COMPLETED

    async def _advance(self, lease: Lease, effect: Effect, to: EffectState) -> Effect:
        command = AdvanceEffectCommand(
            run_id=lease.run_id,
            lease_epoch=lease.epoch,
            effect_id=effect.effect_id,
            attempt=effect.attempt,
            to=to,
            outcome=b'{"ok":true}' if to is EffectState.COMPLETED else b"",
            cost=b"",
        )
        return await self._patiently(to.name.lower(), lambda process: advance_effect(process.effects, command, CALL_S))

    async def _ask_a_person(self, effect: Effect) -> None:
        happened = (effect.run_id, effect.effect_id, effect.attempt) in self._stage.history.sent
        command = ResolveEffectCommand(
            run_id=effect.run_id,
            effect_id=effect.effect_id,
            to=EffectState.COMPLETED if happened else EffectState.FAILED,
            outcome=b"",
            resolved_by="somebody",
        )
        await self._patiently("resolve", lambda process: resolve_effect(process.effects, command, CALL_S))

    async def _append(self, lease: Lease, step: int) -> None:
        key = (lease.run_id, step)
        if key not in self._steps:
            content = EventContent(type=STEP_TYPE, payload=f'{{"m":"{lease.run_id}-{step}"}}'.encode())
            command = AppendCommand(
                tenant=TENANT,
                run_id=lease.run_id,
                request_id=f"{lease.run_id.rpartition('/')[2]}-step-{step}",
                contents=(content,),
                causation_ids=("",),
            )
            self._steps[key] = Request(command=command, invoked=self._stage.history.tick())
            self._stage.history.requests.append(self._steps[key])
        request = self._steps[key]
        command = replace(request.command, lease_epoch=lease.epoch)
        for last in (False, False, True):
            try:
                await append(self._stage, self._name, request, command, server=self._nearest())
                return
            except UNKNOWN:
                if last:
                    raise

    async def _renew(self, lease: Lease) -> None:
        ref = LeaseRef(lease.run_id, lease.epoch)
        await self._patiently("renew", lambda process: renew_leases(process.leases, [ref], 1_000, CALL_S))

    async def _pause(self) -> None:
        """Mostly nothing; at times longer than any lease."""
        if self._rng.random() < 0.25:
            await asyncio.sleep(self._rng.random() * self._rng.choice((0.05, 1.0, 4.0)))

    def _nearest(self) -> Server:
        """Mostly the server of its region."""
        return self._server if self._rng.random() < 0.8 else self._stage.some_server()

    async def _once(self, what: str, carry_out: Callable[[Process], Coroutine[Any, Any, T]]) -> T:
        async with asyncio.timeout(CALL_S * 2):
            return await self._nearest().call(self._name, what, carry_out)

    async def _patiently(self, what: str, carry_out: Callable[[Process], Coroutine[Any, Any, T]]) -> T:
        """Again while the outcome is unknown, as every call of a lease's holder may be."""
        for last in (False, False, True):
            try:
                return await self._once(what, carry_out)
            except UNKNOWN:
                if last:
                    raise
        raise AssertionError
