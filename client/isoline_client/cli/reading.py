"""``isoline read``, ``tail`` and ``state``: what stands in a run."""

from contextlib import aclosing
from typing import Annotated

import typer
from rich.text import Text

from isoline_client.cli.documents import event_document, source_text, spell, state_document, time_text
from isoline_client.cli.failures import CommandError
from isoline_client.cli.options import FreshnessOption, RunArgument, add_command
from isoline_client.cli.output import Output, add_row, clean, facts, table
from isoline_client.cli.parsing import freshness_of, position_of
from isoline_client.cli.session import Session
from isoline_client.events import Event
from isoline_client.values import Page, State
from isoline_client.verify import Position

DIVERGED = "replay.diverged"

KnownOption = Annotated[
    str | None,
    typer.Option(
        "--known",
        metavar="SEQ:DIGEST",
        help="A position seen elsewhere or earlier: what is read extends it, or the command fails.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for work in (read, tail, state):
        add_command(app, work)


async def read(
    session: Session,
    *,
    run_id: RunArgument,
    from_seq: Annotated[int, typer.Option("--from", min=0, metavar="SEQ", help="First seq.")] = 0,
    until_seq: Annotated[
        int | None,
        typer.Option("--until", min=0, metavar="SEQ", help="End, not included. Else the head.", show_default=False),
    ] = None,
    freshness: FreshnessOption = "latest",
    known: KnownOption = None,
) -> None:
    r"""Read events in order, verified: what does not extend the chain is not shown.

    With --json each line is an event: {"seq", "type", "nodeId"?, "payload", "masked"?, "causationId"?, "stamp": {"eventId",
    "recordedAt", "region", "engine"?, "engineSeq"?}, "digest"}. The payload is the writer's own text. `isoline append` takes these lines.

    \b
    isoline read $RUN --from 10 --until 20
    isoline read $RUN --json | jq -c 'select(.nodeId == "fetch") | .payload'
    isoline read $RUN --json | isoline append $OTHER
    isoline read $RUN --freshness local --region us
    """
    position, seen = position_of(known, "--known"), Position(from_seq - 1, b"")
    sources: dict[str, None] = {}
    async with session.client() as client:
        pages = client.run(run_id).read_pages(from_seq, until_seq, freshness=freshness_of(freshness), known=position)
        async with aclosing(pages):
            async for page in pages:
                show_page(session.out, page)
                sources[source_text(page.source, page.staleness_ms)] = None
                seen = page.last
    read_from = f", read from: {', '.join(sources)}" if sources else ""
    session.out.note(f"events [{from_seq}, {seen.seq + 1}){read_from}{f', position {seen}' if seen.digest else ''}")


async def tail(
    session: Session,
    *,
    run_id: RunArgument,
    from_seq: Annotated[
        int | None, typer.Option("--from", min=0, metavar="SEQ", help="First seq.  [default: 0]", show_default=False)
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            "--last",
            "-n",
            min=0,
            metavar="N",
            help="Begin N events before the head; 0: only new ones.",
            show_default=False,
        ),
    ] = None,
    until_terminal: Annotated[
        bool, typer.Option("--until-terminal", help="End behind the event that ends the run.")
    ] = False,
    known: KnownOption = None,
    patience: Annotated[
        float, typer.Option("--patience", min=0, metavar="SECONDS", help="Give up when no server answers this long.")
    ] = 300,
) -> None:
    r"""Read events and go on live, without a gap or a repeat, through restarts and from region to region. Ctrl-C ends it.

    With --json each line is an event, as `isoline read` writes it.

    \b
    isoline tail $RUN
    isoline tail $RUN --last 0 --json
    isoline tail $RUN --until-terminal && echo the run has ended
    """
    if from_seq is not None and last is not None:
        raise CommandError("--from and --last: give one of them")
    async with session.client() as client:
        run = client.run(run_id)
        start = from_seq or 0
        if last is not None:
            start = max(0, (await run.info()).head.seq + 1 - last)
        pages = run.tail_pages(
            start, known=position_of(known, "--known"), stop_at_terminal=until_terminal, patience_s=patience
        )
        async with aclosing(pages):
            async for page in pages:
                show_page(session.out, page)
                session.out.flush()


async def state(
    session: Session,
    *,
    run_id: RunArgument,
    at_seq: Annotated[
        int | None,
        typer.Option("--at", min=0, metavar="SEQ", help="Fold [0, SEQ). Else everything.", show_default=False),
    ] = None,
    freshness: FreshnessOption = "latest",
    canonical: Annotated[bool, typer.Option("--canonical", help="Write the canonical bytes and nothing else.")] = False,
) -> None:
    r"""Show status, variables and channels of a run at a seq: a pure fold of its events, the same bytes from every region.

    With --json: {"runId", "atSeq", "state": {"channels", "status", "variables"}, "stateDigest", "prefixDigest", "source", "foldedEvents"}.

    \b
    isoline state $RUN --at 40
    isoline state $RUN --canonical | sha256sum      # is its stateDigest
    """
    async with session.client() as client:
        found = await client.run(run_id).state(at_seq, freshness=freshness_of(freshness))
    if canonical:
        session.out.raw(found.canonical)
    elif session.out.json:
        session.out.document(state_document(run_id, found))
    else:
        _show_state(session.out, found)


def show_page(out: Output, page: Page) -> None:
    """Print the events of a page."""
    for event in page:
        if out.json:
            out.document(event_document(event))
        else:
            out.line(event_line(event))


def event_line(event: Event) -> Text:
    """One event as one line: seq, time, region, type, node, payload. Where a replay differs from its source leaps to the eye."""
    said = f"{clean(event.type):<32}  "
    line = Text(f"{event.seq:>6}  ", "bold")
    line.append(f"{time_text(event.recorded_at)[:23]}  ", "dim")
    line.append(f"{clean(event.region):<4}  ", "dim")
    if event.type.startswith(DIVERGED):
        line.append(said.replace(DIVERGED, DIVERGED.upper()), "bold white on red")
    else:
        line.append(said, "cyan")
    line.append(f"{clean(event.node_id):<16}  ")
    line.append(clean(event.payload_bytes.decode()))
    return line


def _show_state(out: Output, found: State) -> None:
    out.show(
        facts(
            [
                ("state of", f"[0, {found.at_seq})"),
                ("status", found.status),
                ("state digest", found.digest.hex()),
                ("prefix digest", found.prefix_digest.hex()),
                ("read from", f"{source_text(found.source, found.staleness_ms)}, {found.folded_events} events folded"),
            ]
        )
    )
    for title, values in (("variable", found.variables), ("channel", found.channels)):
        if values:
            shown = table(title, "value")
            for name, value in values.items():
                add_row(shown, name, spell(value))
            out.show(shown)
