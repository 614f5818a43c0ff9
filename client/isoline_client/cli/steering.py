"""``isoline run cancel|pause|resume`` and ``isoline interrupt resolve``: words to a run that is executed. Each is one event of its log."""

import json
from typing import Annotated, Any, Final

import typer

from isoline_client.cli.failures import CommandError
from isoline_client.cli.options import RunArgument, add_command
from isoline_client.cli.output import Output
from isoline_client.cli.session import Session
from isoline_client.events import NewEvent
from isoline_client.run import Run
from isoline_client.values import Appended

ReasonOption = Annotated[str, typer.Option("--reason", help="Why, for whoever reads the log.", show_default=False)]
ByOption = Annotated[str, typer.Option("--by", metavar="NAME", help="Who says so.", show_default=False)]

ACTIONS: Final = ("accept", "edit-accept", "reject", "refine", "timeout")
"""What OpenWOP lets an interrupt be answered with."""


def register_into(group: typer.Typer) -> None:
    """Add the commands of the group ``run``."""
    for work in (cancel, pause, resume):
        add_command(group, work)


def register(app: typer.Typer) -> None:
    """Add the group ``interrupt``."""
    group = typer.Typer(no_args_is_help=True, help="Answer what a run waits for.")
    add_command(group, resolve)
    app.add_typer(group, name="interrupt")


async def cancel(session: Session, *, run_id: RunArgument, reason: ReasonOption = "", by: ByOption = "") -> None:
    r"""Ask for a run to be cancelled. Its executor ends it: a node under way is cut off, an effect that has left is waited for.

    \b
    isoline run cancel $RUN --reason "ordered twice" --by ada
    """
    said = {"reason": reason, "cancelledBy": by}
    await _say(session, run_id, "example.cancel-requested", {name: text for name, text in said.items() if text})


async def pause(
    session: Session,
    *,
    run_id: RunArgument,
    reason: ReasonOption = "",
    immediate: Annotated[
        bool, typer.Option("--immediate", help="Cut the node under way off; it begins anew when the run is resumed.")
    ] = False,
) -> None:
    r"""Pause a run: the node under way ends, and the next does not begin until the run is resumed.

    \b
    isoline run pause $RUN
    isoline run pause $RUN --immediate
    """
    payload = {"drainPolicy": "immediate" if immediate else "drain-current-node"}
    await _say(session, run_id, "run.paused", {**payload, **({"reason": reason} if reason else {})})


async def resume(session: Session, *, run_id: RunArgument) -> None:
    r"""Let a paused run go on.

    \b
    isoline run resume $RUN
    """
    await _say(session, run_id, "run.resumed", {})


async def resolve(
    session: Session,
    *,
    run_id: RunArgument,
    node_id: Annotated[str, typer.Argument(metavar="NODE", help="The node that waits.", show_default=False)],
    value: Annotated[
        str, typer.Option("--value", metavar="JSON", help="What the node gets as the answer.", show_default=False)
    ],
    key: Annotated[
        str, typer.Option("--key", help="Which of the node's interrupts, when several are open.", show_default=False)
    ] = "",
    action: Annotated[
        str,
        typer.Option(
            "--action",
            metavar="|".join(ACTIONS),
            help="What was decided, for an approval. Else it is given.",
            show_default=False,
        ),
    ] = "",
) -> None:
    r"""Answer an interrupt: the node that asked goes on with the value. The first answer counts.

    For an approval the action decides, not the value: without --action it is given, whatever the value says.

    \b
    isoline interrupt resolve $RUN approve-order --value '{"note": "fine"}' --action accept
    isoline interrupt resolve $RUN approve-order --value '{"why": "too much"}' --action reject
    """
    if action and action not in ACTIONS:
        raise CommandError(f"--action: must be one of {', '.join(ACTIONS)}, not {action!r}")
    answer = _json(value, "--value")
    async with session.client() as client:
        run = client.run(run_id)
        seq, asked = await _open_interrupt(run, node_id, key)
        payload = {"nodeId": node_id, "interruptId": asked["interruptId"], "resumeValue": answer}
        payload |= {"action": action} if action else {}
        event = NewEvent("interrupt.resolved", payload, node_id=node_id)
        # At the very place the decision was made at: of two answers at once, one is refused.
        _show(session.out, "interrupt.resolved", await run.append(event, expected_seq=seq))


async def _open_interrupt(run: Run, node_id: str, key: str) -> tuple[int, dict[str, Any]]:
    """The next seq, and the payload of the one interrupt of the node that nobody has answered."""
    asked: dict[str, dict[str, Any]] = {}
    seq = 0
    async for event in run.read():
        seq = event.seq + 1
        if event.type == "interrupt.requested" and event.payload.get("nodeId") == node_id:
            asked[event.payload["interruptId"]] = event.payload
        elif event.type in {"interrupt.resolved", "interrupt.timed-out"}:
            asked.pop(event.payload.get("interruptId", ""), None)
    found = [each for each in asked.values() if not key or each.get("key") == key]
    if len(found) != 1:
        keys = ", ".join(sorted(str(each.get("key")) for each in found))
        what = f"has {len(found)} open interrupts ({keys}); say which with --key" if found else "waits for no answer"
        raise CommandError(f"node {node_id} of {run.run_id} {what}")
    return seq, found[0]


async def _say(session: Session, run_id: str, kind: str, payload: dict[str, Any]) -> None:
    async with session.client() as client:
        _show(session.out, kind, await client.run(run_id).append(NewEvent(kind, payload)))


def _show(out: Output, kind: str, appended: Appended) -> None:
    if out.json:
        out.document({"type": kind, "seq": appended.first_seq})
    else:
        out.show(f"{kind} at seq {appended.first_seq}")


def _json(text: str, option: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise CommandError(f"{option}: must be JSON: {error}") from error
