"""``isoline run start``: a run that executors run."""

import json
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

import typer

from isoline_client.cli.documents import run_document, verbatim
from isoline_client.cli.failures import CommandError, Exit
from isoline_client.cli.parsing import note_request_id
from isoline_client.cli.session import Session
from isoline_client.errors import IsolineError
from isoline_client.events import Event
from isoline_client.run import Run


async def start(
    session: Session,
    *,
    workflow_id: Annotated[str, typer.Argument(metavar="WORKFLOW", help="Id of the workflow.", show_default=False)],
    inputs: Annotated[
        str, typer.Option("--inputs", metavar="JSON|@FILE", help="What the run is given, a JSON object.")
    ] = "{}",
    tag: Annotated[
        list[str] | None, typer.Option("--tag", "-t", help="May be given more than once.", show_default=False)
    ] = None,
    home: Annotated[
        str,
        typer.Option(
            "--home",
            metavar="REGION",
            help="Region whose executors run it. Else --region, else the answering server's.",
            show_default=False,
        ),
    ] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, and say how it ended.")] = False,
    request_id: Annotated[
        str | None,
        typer.Option(
            "--request-id", metavar="ID", help="Make the call repeatable: one id, one run.", show_default=False
        ),
    ] = None,
) -> int | None:
    r"""Start a run of a workflow, and print its id. An executor of its region takes it up: see `isoline executor --help`.

    With --wait its outputs are printed as well, and a run that does not complete is a negative answer (exit code 1).

    \b
    RUN=$(isoline run start order --inputs '{"cart": ["tea"]}')
    isoline run start order --inputs @order.json --wait --json
    """
    given = _inputs(inputs)
    async with session.client() as client:
        try:
            run = await client.start_run(
                workflow_id, given, tags=tag or (), home_region=home or session.region, request_id=request_id
            )
        except IsolineError as error:
            raise note_request_id(error) from None
        if not session.out.json:
            session.out.show(run.run_id)
        ended = await _end_of(run) if wait else None
    if session.out.json:
        _show_json(session, run, ended)
    elif ended is not None:
        session.out.show(f"{ended.type} at seq {ended.seq}: {ended.payload_bytes.decode()}")
    return Exit.NEGATIVE if ended is not None and ended.type != "run.completed" else None


def _show_json(session: Session, run: Run, ended: Event | None) -> None:
    assert run.made is not None
    said: dict[str, Any] = {**run_document(run.made), "repeated": run.repeated}
    if ended is not None:
        said |= {"end": {"seq": ended.seq, "type": ended.type, "payload": verbatim(ended.payload_bytes)}}
    session.out.document(said)


async def _end_of(run: Run) -> Event:
    async with aclosing(run.tail(stop_at_terminal=True)) as events:
        async for event in events:
            if event.is_terminal:
                return event
    raise CommandError(f"the tail of {run.run_id} ended without an end of the run", Exit.UNAVAILABLE)


def _inputs(text: str) -> dict[str, Any]:
    try:
        value = json.loads(Path(text[1:]).read_bytes() if text.startswith("@") else text)
    except (OSError, ValueError) as error:
        raise CommandError(f"--inputs: {error}") from error
    if not isinstance(value, dict):
        raise CommandError("--inputs: must be a JSON object")
    return value
