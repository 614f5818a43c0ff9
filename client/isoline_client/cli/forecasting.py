"""What ``isoline fork --dry-run`` says: the effects that a branch would fire again, or that a replay would suppress."""

import json
from typing import Any

from isoline_client.cli.effects import effect_document
from isoline_client.cli.output import add_row, counted, table
from isoline_client.cli.session import Session
from isoline_client.execution import Effect
from isoline_client.executor.forecast import effects_from
from isoline_client.values import ForkMode


async def show_forecast(session: Session, run_id: str, from_seq: int, mode: ForkMode) -> None:
    """Say what a fork would do outside. Nothing is created."""
    async with session.client() as client:
        await client.run(run_id).prefix(from_seq)  # refuses a seq that the log does not have
        effects = await effects_from(client, run_id, from_seq)
    if session.out.json:
        session.out.document(_document(run_id, from_seq, mode, effects))
        return
    shown = table("node", "visit", "seam", "to", "recorded", "cost", numbers=["visit"])
    for effect in effects:
        cost = _cost_text(effect)
        add_row(shown, effect.node_id, effect.visit, effect.seam, effect.provider_key, effect.state, cost)
    if effects:
        session.out.show(shown)
    verb = "would be fired again by a branch" if mode == "branch" else "would be suppressed by a replay"
    session.out.show(f"{counted(len(effects), 'effect')} {verb} from seq {from_seq}; nothing was created")


def _document(run_id: str, from_seq: int, mode: ForkMode, effects: list[Effect]) -> dict[str, Any]:
    listed = [effect_document(effect) for effect in effects]
    return {
        "runId": run_id,
        "fromSeq": from_seq,
        "mode": mode,
        "fires": len(effects) if mode == "branch" else 0,
        "suppresses": len(effects) if mode == "replay" else 0,
        "effects": listed,
    }


def _cost_text(effect: Effect) -> str:
    cost = json.loads(effect.cost) if effect.cost else {}
    return " ".join(str(cost[name]) for name in ("amount", "currency") if name in cost) if cost else ""
