"""What a fork of a run would do outside: the effects a branch from a seq would fire again, and those a replay would suppress.

Told from what happened: the ledger says what left, by node and visit, and the log where that visit ended. A run whose code or inputs
change may of course do something else. Nothing is created here.
"""

from collections.abc import Mapping
from contextlib import aclosing

from isoline_client.client import Client
from isoline_client.execution import Effect
from isoline_client.executor.recorded import TERMINALS
from isoline_client.values import RunInfo

_Visit = tuple[str, int]
_Key = tuple[str, int, int]


async def effects_from(client: Client, run_id: str, from_seq: int) -> list[Effect]:
    """The recorded effects of what would be executed again from ``from_seq`` on, in the order in which they were claimed."""
    ended = await _ends_of_visits(client, run_id)
    found = await _ledger(client, await client.run(run_id).info())
    again = [effect for effect in found.values() if ended.get((effect.node_id, effect.visit), from_seq) >= from_seq]
    return sorted(again, key=lambda effect: (ended.get((effect.node_id, effect.visit), from_seq), effect.ordinal))


async def _ends_of_visits(client: Client, run_id: str) -> dict[_Visit, int]:
    """Seq of each visit's last terminal."""
    ended: dict[_Visit, int] = {}
    visits: dict[str, int] = {}
    async with aclosing(client.run(run_id).read()) as events:
        async for event in events:
            if event.type == "node.started":
                visits[event.node_id] = int(event.payload.get("x-isoline-visit", 1))
            elif event.type in TERMINALS:
                ended[event.node_id, visits.get(event.node_id, 1)] = event.seq
    return ended


async def _ledger(client: Client, info: RunInfo) -> Mapping[_Key, Effect]:
    """The run's effects, with those behind what it inherited, and, for a replay, behind what it was served."""
    found: dict[_Key, Effect] = {}
    if info.fork is not None:
        source = await client.run(info.fork.source_run_id).info()
        ended = await _ends_of_visits(client, source.run_id) if info.fork.mode == "branch" else {}
        behind = await _ledger(client, source)
        inherited = {key for key in behind if ended.get(key[:2], info.fork.from_seq) < info.fork.from_seq}
        found = {key: behind[key] for key in (behind if info.fork.mode == "replay" else inherited)}
    async with aclosing(client.execution().list_effects(info.run_id, page_size=1000)) as own:
        async for effect in own:
            found[effect.node_id, effect.visit, effect.ordinal] = effect
    return found
