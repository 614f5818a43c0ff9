"""``isoline effects``: the ledger of what left, and a person's word on what is in doubt."""

import json
from contextlib import aclosing
from typing import Annotated, Any, Final, Literal

import typer

from isoline_client.cli.documents import time_text
from isoline_client.cli.failures import CommandError
from isoline_client.cli.options import RunArgument, add_command
from isoline_client.cli.output import add_row, table
from isoline_client.cli.session import Session
from isoline_client.execution import Effect, EffectState

_STATES: Final[tuple[EffectState, ...]] = ("claimed", "outbound", "completed", "failed", "in_doubt")


def register(app: typer.Typer) -> None:
    """Add the group ``effects``."""
    group = typer.Typer(
        no_args_is_help=True, help="External effects of executed runs: what left, and what is in doubt."
    )
    add_command(group, list_effects, "list")
    add_command(group, resolve)
    app.add_typer(group, name="effects")


async def list_effects(
    session: Session,
    *,
    run_id: Annotated[
        str, typer.Argument(metavar="[RUN]", help="One run's effects; else those of all runs.", show_default=False)
    ] = "",
    in_doubt: Annotated[bool, typer.Option("--in-doubt", help="Only those that wait for a person.")] = False,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="|".join(_STATES), help="May be given more than once.", show_default=False),
    ] = None,
    node: Annotated[str, typer.Option("--node", metavar="NODE", help="Only this node's.", show_default=False)] = "",
) -> None:
    r"""List effects, oldest first. Without a run, say which states.

    \b
    isoline effects list $RUN
    isoline effects list --in-doubt
    isoline effects list --in-doubt --json | jq -r '.runId + " " + .effectId'
    """
    states = ("in_doubt",) if in_doubt else tuple(_state(each) for each in state or ())
    if not run_id and not states:
        raise CommandError("give a RUN, or say which states: --in-doubt or --state")
    shown = table(
        "run", "node", "visit", "seam", "to", "state", "attempt", "claimed", "effect", numbers=["visit", "attempt"]
    )
    async with (
        session.client() as client,
        aclosing(client.execution().list_effects(run_id, states=states, node_id=node)) as found,
    ):
        async for effect in found:
            if session.out.json:
                session.out.document(effect_document(effect))
            else:
                at = time_text(effect.claimed_at)[:19].replace("T", " ")
                where = (effect.run_id, effect.node_id, effect.visit, effect.seam, effect.provider_key)
                add_row(shown, *where, effect.state, effect.attempt, at, effect.effect_id)
    if not session.out.json:
        session.out.show(shown if shown.row_count else "no effects")


async def resolve(
    session: Session,
    *,
    run_id: RunArgument,
    effect_id: Annotated[
        str, typer.Argument(metavar="EFFECT", help="The effect's id, as `isoline effects list` shows it.")
    ],
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who says so.", show_default=False)],
    happened: Annotated[
        bool | None,
        typer.Option("--happened/--did-not-happen", help="What became of it.", show_default=False),
    ] = None,
    outcome: Annotated[
        str | None,
        typer.Option(
            "--outcome",
            metavar="JSON",
            help='With --happened: what the node gets, as the seam gives it; for HTTP {"status", "headers", "text"}.',
            show_default=False,
        ),
    ] = None,
) -> None:
    r"""Say what became of an effect in doubt. Its run goes on: with the outcome, or by sending it again.

    \b
    isoline effects resolve $RUN $EFFECT --happened --outcome '{"status": 201, "text": "o-17"}' --by ada
    isoline effects resolve $RUN $EFFECT --did-not-happen --by ada
    """
    if happened is None:
        raise CommandError("say what became of it: --happened or --did-not-happen")
    if outcome is not None and not happened:
        raise CommandError("--outcome: what did not happen has none")
    to: Literal["completed", "failed"] = "completed" if happened else "failed"
    async with session.client() as client:
        effect = await client.execution().resolve_effect(
            run_id, effect_id, to=to, resolved_by=by, outcome=_json(outcome) if happened else b""
        )
    if session.out.json:
        session.out.document(effect_document(effect))
    else:
        session.out.show(f"{effect.state}; {run_id} goes on")


def effect_document(effect: Effect) -> dict[str, Any]:
    """An effect in JSON."""
    found: dict[str, Any] = {
        "runId": effect.run_id,
        "effectId": effect.effect_id,
        "nodeId": effect.node_id,
        "visit": effect.visit,
        "ordinal": effect.ordinal,
        "seam": effect.seam,
        "providerKey": effect.provider_key,
        "requestDigest": effect.request_digest.hex(),
        "state": effect.state,
        "attempt": effect.attempt,
        "claimedAt": time_text(effect.claimed_at),
    }
    found |= {"outboundAt": time_text(effect.outbound_at)} if effect.outbound_at else {}
    found |= {"endedAt": time_text(effect.ended_at)} if effect.ended_at else {}
    found |= {name: json.loads(data) for name, data in (("outcome", effect.outcome), ("cost", effect.cost)) if data}
    return found | ({"resolvedBy": effect.resolved_by} if effect.resolved_by else {})


def _state(text: str) -> EffectState:
    for state in _STATES:
        if text == state:
            return state
    raise CommandError(f"--state: must be one of {', '.join(_STATES)}, not {text!r}")


def _json(text: str | None) -> bytes:
    try:
        json.loads(text or "{}")
    except ValueError as error:
        raise CommandError(f"--outcome: must be JSON: {error}") from error
    return (text or "{}").encode()
