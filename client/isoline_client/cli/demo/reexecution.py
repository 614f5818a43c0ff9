"""The demo's part on re-execution: a run with a real effect, replayed in every region, then branched. Effects are counted by the shop itself.

Executors run beside the servers; here runs are only begun, forked and waited for. Nothing is judged here.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Final

from isoline_client.cli.demo.findings import Reexecuted, Replayed
from isoline_client.cli.demo.order import ORDER_ID
from isoline_client.cli.demo.shop import OpenShop
from isoline_client.cli.failures import CommandError, Exit
from isoline_client.client import Client
from isoline_client.run import Run

END_S: Final = 60.0
"""How long a run of three nodes is given. A second on an idle machine, once the executors are up."""

_EXPECTED: Final = "run.completed"


class Reexecution:
    """Runs, replays, branches, compares."""

    def __init__(
        self, clients: Mapping[str, Client], leading: str, open_shop: OpenShop, say: Callable[[str], None]
    ) -> None:
        self._clients = clients
        self._leading = leading
        self._open_shop = open_shop
        self._say = say

    async def all(self) -> Reexecuted:
        """Do everything."""
        client = self._clients[self._leading]
        self._say(f"executing a workflow with a real order over HTTP in {self._leading}")
        run = await client.start_run(ORDER_ID, {"shop": self._open_shop.url}, tags=["demo"], home_region=self._leading)
        await _completed(run)
        after_run = self._open_shop.shop.order_requests
        from_seq = await _seq_of(run, "node.started", "order")
        self._say(f"replaying it from {from_seq}, right before the order, in {', '.join(self._clients)}")
        replays = [await self._replay(run, region, from_seq) for region in self._clients]
        after_replays = self._open_shop.shop.order_requests
        self._say("branching it from there: the order happens again, because a branch is a run of its own")
        await _completed(await run.fork(from_seq, mode="branch", home_region=self._leading))
        first, *others = replays
        compared = [await client.compare(first.run_id, each.run_id) for each in others]
        return Reexecuted(
            run_id=run.run_id,
            from_seq=from_seq,
            after_run=after_run,
            after_replays=after_replays,
            after_branch=self._open_shop.shop.order_requests,
            source_prefix_digest=(await run.prefix(from_seq)).last.digest,
            replays=replays,
            compared=compared,
        )

    async def _replay(self, run: Run, region: str, from_seq: int) -> Replayed:
        """A replay in a region, made and executed there."""
        fork = await self._clients[region].run(run.run_id).fork(from_seq, mode="replay", home_region=region)
        diverged = await _completed(fork)
        prefix = await fork.prefix(from_seq, recompute=True)
        return Replayed(run_id=fork.run_id, region=region, prefix_digest=prefix.last.digest, diverged=diverged)


async def _completed(run: Run) -> int:
    """Wait until a run has completed; how many divergences its log reports."""
    try:
        async with asyncio.timeout(END_S), aclosing(run.tail(stop_at_terminal=True)) as events:
            types = [event.type async for event in events]
    except TimeoutError:
        raise CommandError(f"{run.run_id} did not end within {END_S:.0f} s", Exit.NEGATIVE) from None
    if _EXPECTED not in types:
        raise CommandError(f"{run.run_id} ended with {types[-1]}, not {_EXPECTED}", Exit.NEGATIVE)
    return sum(each.startswith("replay.diverged") for each in types)


async def _seq_of(run: Run, kind: str, node_id: str) -> int:
    async with aclosing(run.read()) as events:
        async for event in events:
            if (event.type, event.node_id) == (kind, node_id):
                return event.seq
    raise CommandError(f"{run.run_id} holds no {kind} of {node_id}", Exit.NEGATIVE)
