"""``isoline fork``: a run that shares another's prefix."""

from typing import Annotated

import typer

from isoline_client.cli.failures import CommandError
from isoline_client.cli.forecasting import show_forecast
from isoline_client.cli.options import RunArgument, add_command
from isoline_client.cli.parsing import digest_of, mode_of, note_request_id, overlay_of
from isoline_client.cli.runs import HomeOption, RequestIdOption, show_made
from isoline_client.cli.session import Session
from isoline_client.errors import IsolineError


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, fork)


async def fork(
    session: Session,
    *,
    run_id: RunArgument,
    from_seq: Annotated[
        int | None,
        typer.Option(
            "--from",
            min=0,
            metavar="SEQ",
            help="First event that is not shared. A branch needs it; a replay begins at 0 without it.",
            show_default=False,
        ),
    ] = None,
    mode: Annotated[
        str,
        typer.Option(
            "--mode",
            metavar="replay|branch",
            help="replay: executed again and compared, without effects. branch: a run of its own from here.",
        ),
    ] = "branch",
    overlay: Annotated[
        str | None,
        typer.Option(
            "--overlay", metavar="JSON|@FILE", help="Options of the branch, a JSON object.", show_default=False
        ),
    ] = None,
    expect_digest: Annotated[
        str | None,
        typer.Option(
            "--expect-digest",
            metavar="HEX",
            help="Refuse unless the shared prefix has this digest.",
            show_default=False,
        ),
    ] = None,
    executed: Annotated[
        bool | None,
        typer.Option(
            "--executed/--not-executed", help="Whether executors run it. Else as the source.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Make nothing: list the effects that a branch would fire again, or a replay would suppress.",
        ),
    ] = False,
    home: HomeOption = "",
    request_id: RequestIdOption = None,
) -> None:
    r"""Make a run that shares another's events [0, SEQ), and print its id. No event is copied: it takes the same time at any seq.

    The event at SEQ itself is not shared: it is what the fork begins with. With --json the new run, as `isoline run show` gives it, and
    "repeated".

    \b
    FORK=$(isoline fork $RUN --from 40)
    isoline fork $RUN --from 40 --region us --overlay '{"model": "small"}'
    isoline fork $RUN --mode replay --from 12 --json
    isoline fork $RUN --from 12 --dry-run
    """
    if dry_run:
        if from_seq is None and mode_of(mode) == "branch":
            raise CommandError("--from: a branch needs it")
        await show_forecast(session, run_id, from_seq or 0, mode_of(mode))
        return
    data, digest = overlay_of(overlay), None if expect_digest is None else digest_of(expect_digest, "--expect-digest")
    async with session.client() as client:
        try:
            made = await client.run(run_id).fork(
                from_seq,
                mode=mode_of(mode),
                overlay=data,
                home_region=home or session.region,
                expected_prefix_digest=digest,
                executed=executed,
                request_id=request_id,
            )
        except IsolineError as error:
            raise note_request_id(error) from None
    show_made(session.out, made)
