"""``isoline append``: JSON lines to events of a run, in batches."""

import asyncio
import sys
import time
from contextlib import closing
from typing import Annotated, Any

import typer

from isoline_client.cli.appending import Appending, Totals, carry_over, where_it_ended
from isoline_client.cli.failures import CommandError
from isoline_client.cli.feed import Feed
from isoline_client.cli.options import RunArgument, add_command
from isoline_client.cli.output import Output, counted
from isoline_client.cli.session import Session
from isoline_client.errors import IsolineError
from isoline_client.limits import APPEND_EVENTS_MAX


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, append)


async def append(
    session: Session,
    *,
    run_id: RunArgument,
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="JSON lines; - or nothing: stdin.", show_default=False)
    ] = "-",
    engine: Annotated[
        str,
        typer.Option(
            "--engine", "-e", metavar="NAME", help="Make it resumable under this name; see above.", show_default=False
        ),
    ] = "",
    expected_seq: Annotated[
        int | None,
        typer.Option(
            "--expected-seq",
            min=0,
            metavar="SEQ",
            help="Refuse unless the first event gets this seq.",
            show_default=False,
        ),
    ] = None,
    keep_timestamps: Annotated[
        bool, typer.Option("--keep-timestamps", help="Keep a line's timestamp in its payload, masked.")
    ] = False,
    batch: Annotated[
        int,
        typer.Option(
            "--batch", min=1, max=APPEND_EVENTS_MAX, metavar="N", help="Events appended together, all or none."
        ),
    ] = APPEND_EVENTS_MAX,
) -> None:
    r"""Append events to a run, one JSON object a line.

    A line is {"type", "payload", "nodeId"?, "masked"?, "causationId"?, "schemaVersion"?, "engineVersion"?}. The payload is kept as it is
    spelled. Lines that `isoline read --json` wrote are taken too; their "seq", "stamp" and "digest" are left aside, for the server makes
    new ones. So is a "timestamp", unless --keep-timestamps makes it the payload's "timestamp", declared as a clock value. Any other
    member is refused.

    Lines go in batches, each all or none. At a bad line the command ends: nothing of its batch is appended, and it says what was before.

    With --engine NAME the n-th event of the input is that engine's n-th event in the run: after a crash, run the very same command again.
    What is there already is compared with the input and passed over; what differs from the input is refused.

    On stdout, with --json: {"runId", "complete", "events", "alreadyThere", "firstSeq", "lastSeq", "digest", "timestampsLeftOut", "seconds"}.

    \b
    echo '{"type": "order.placed", "nodeId": "shop", "payload": {"id": 7}}' | isoline append $RUN
    isoline append $RUN history.jsonl --engine import-2024
    isoline append $RUN decisions.jsonl --expected-seq 42
    tail -f events.jsonl | isoline append $RUN -
    """
    with closing(Feed(file, batch_events=batch, keep_timestamp=keep_timestamps)) as feed:
        if file == "-" and sys.stdin.isatty():
            session.out.note("reading events from the terminal; Ctrl-D ends them")
        async with session.client() as client:
            appending = Appending(client.run(run_id), engine, expected_seq, keep_timestamps=keep_timestamps)
            await _append_all(session.out, feed, appending)


async def _append_all(out: Output, feed: Feed, appending: Appending) -> None:
    """Append everything, and say what was appended, however it ends."""
    began = time.perf_counter()
    unit = "events" if feed.size is None else "bytes"
    try:
        with out.progress(f"append {feed.name}", total=feed.size, unit=unit) as advance:
            await carry_over(feed, appending, advance)
    except (CommandError, IsolineError) as error:
        error.add_note(where_it_ended(appending))
        raise
    except asyncio.CancelledError:
        out.warn(f"interrupted: {where_it_ended(appending)}")
        raise
    finally:
        await appending.close()
        _report(out, appending, time.perf_counter() - began)


def _report(out: Output, appending: Appending, seconds: float) -> None:
    """Say what was appended, also when it is not all."""
    totals = appending.totals
    if out.json:
        out.document(_document(appending.run_id, totals, seconds))
    elif totals.complete or totals.last is not None:
        out.show(_summary(totals, seconds))
    if totals.timestamps_left_out:
        left = counted(totals.timestamps_left_out, "timestamp")
        out.note(f"left out {left}; --keep-timestamps keeps them in the payload")


def _document(run_id: str, totals: Totals, seconds: float) -> dict[str, Any]:
    return {
        "runId": run_id,
        "complete": totals.complete,
        "events": totals.events,
        "alreadyThere": totals.already_there,
        "firstSeq": totals.first_seq,
        "lastSeq": None if totals.last is None else totals.last.seq,
        "digest": None if totals.last is None else totals.last.digest.hex(),
        "timestampsLeftOut": totals.timestamps_left_out,
        "seconds": round(seconds, 3),
    }


def _summary(totals: Totals, seconds: float) -> str:
    said = f"appended {counted(totals.events, 'event')}"
    if totals.already_there:
        said += f", {totals.already_there:,} were there already"
    if totals.last is not None:
        said += f": seq {totals.first_seq}..{totals.last.seq}, digest {totals.last.digest.hex()}"
    return f"{said}, {seconds:.2f} s"
