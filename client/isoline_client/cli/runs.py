"""``isoline run``: make runs, look at them, list them."""

from contextlib import aclosing
from itertools import count
from typing import Annotated

import typer
from rich.table import Table

from isoline_client.cli import steering
from isoline_client.cli.documents import run_document, source_text, time_text
from isoline_client.cli.options import FreshnessOption, RunArgument, add_command
from isoline_client.cli.output import Output, add_row, facts, table
from isoline_client.cli.parsing import freshness_of, note_request_id
from isoline_client.cli.session import Session
from isoline_client.cli.starting import start
from isoline_client.errors import IsolineError
from isoline_client.run import Run
from isoline_client.values import RunInfo

HomeOption = Annotated[
    str,
    typer.Option(
        "--home",
        metavar="REGION",
        help="Region that shall hold it. Else --region, else the answering server's.",
        show_default=False,
    ),
]
RequestIdOption = Annotated[
    str | None,
    typer.Option(
        "--request-id",
        metavar="ID",
        help="Make the call repeatable: 16 to 128 characters, random, one for each intent. The same id gives the first answer again.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the group ``run``."""
    group = typer.Typer(no_args_is_help=True, help="Make runs, look at them, list them.")
    for work, name in ((create, "create"), (start, "start"), (show, "show"), (list_runs, "list")):
        add_command(group, work, name)
    steering.register_into(group)
    app.add_typer(group, name="run")


async def create(
    session: Session,
    *,
    workflow_id: Annotated[str, typer.Argument(metavar="WORKFLOW", help="Name of the workflow.", show_default=False)],
    tag: Annotated[
        list[str] | None, typer.Option("--tag", "-t", help="May be given more than once.", show_default=False)
    ] = None,
    home: HomeOption = "",
    request_id: RequestIdOption = None,
) -> None:
    r"""Make an empty run and print its id.

    \b
    RUN=$(isoline run create invoice-import --tag team-a)
    isoline run create invoice-import --region us --json
    """
    async with session.client() as client:
        try:
            run = await client.create_run(workflow_id, tag or (), home or session.region, request_id=request_id)
        except IsolineError as error:
            raise note_request_id(error) from None
    show_made(session.out, run)


async def show(session: Session, run_id: RunArgument, freshness: FreshnessOption = "latest") -> None:
    r"""Show a run's head, where it lives and where it comes from.

    \b
    isoline run show $RUN
    isoline run show $RUN --json | jq -r .head.digest
    """
    async with session.client() as client:
        info = await client.run(run_id).info(freshness=freshness_of(freshness))
    if session.out.json:
        session.out.document(run_document(info))
    else:
        session.out.show(_facts_of(info))


async def list_runs(
    session: Session,
    *,
    workflow_id: Annotated[
        str,
        typer.Option("--workflow", "-w", metavar="WORKFLOW", help="Only runs of this workflow.", show_default=False),
    ] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="At most so many; 0: all.")] = 50,
) -> None:
    r"""List runs, newest first.

    \b
    isoline run list --workflow invoice-import
    isoline run list --limit 0 --json | jq -r .runId
    """
    shown = _table()
    async with (
        session.client() as client,
        aclosing(client.list_runs(workflow_id, page_size=min(limit or 1000, 1000))) as found,
    ):
        for place in count():
            info = None if limit and place >= limit else await anext(found, None)
            if info is None:
                break
            if session.out.json:
                session.out.document(run_document(info))
            else:
                _add(shown, info)
    if not session.out.json:
        session.out.show(shown if shown.row_count else "no runs")


def show_made(out: Output, run: Run) -> None:
    """Say which run was made: its id alone on stdout, so that a shell can take it."""
    info = run.made
    assert info is not None, "a run that was just made knows what the server said"
    if out.json:
        out.document({**run_document(info), "repeated": run.repeated})
        return
    out.show(info.run_id)
    if run.repeated:
        out.note("an earlier call with this request id had made it")


def _table() -> Table:
    return table("run", "workflow", "home", "events", "state", "made", numbers=["events"])


def _add(shown: Table, info: RunInfo) -> None:
    made = time_text(info.created_at)[:19].replace("T", " ")
    add_row(shown, info.run_id, info.workflow_id, info.home_region, info.head.seq + 1, _standing(info), made)


def _standing(info: RunInfo) -> str:
    ended = "open" if info.terminal_seq is None else f"ended at {info.terminal_seq}"
    return ended if info.fork is None else f"{ended}, {info.fork.mode} fork at {info.fork.from_seq}"


def _era(info: RunInfo) -> str | None:
    """Only of a run that a v1 host wrote."""
    if info.era != 2:
        return None
    if info.untranslatable_seq is None:
        return "2, read translated"
    return f"2, read translated; no v2 form at seq {info.untranslatable_seq}"


def _facts_of(info: RunInfo) -> Table:
    fork = info.fork
    return facts(
        [
            ("run", info.run_id),
            ("workflow", info.workflow_id),
            ("tags", ", ".join(info.tags)),
            ("home", info.home_region),
            ("made", time_text(info.created_at)),
            ("events", info.head.seq + 1),
            ("record bytes", info.record_bytes),
            ("digest", info.head.digest.hex()),
            ("state", _standing(info)),
            ("era", _era(info)),
            ("source run", None if fork is None else fork.source_run_id),
            ("shared prefix", None if fork is None else f"[0, {fork.from_seq})  {fork.prefix_digest.hex()}"),
            ("overlay", fork.overlay.decode() if fork and fork.overlay else None),
            *(("events from", f"[{part.start_seq}, {part.end_seq})  {part.origin_run_id}") for part in info.lineage),
            ("read from", source_text(info.source, info.staleness_ms)),
        ]
    )
