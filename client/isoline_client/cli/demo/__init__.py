"""``isoline demo``: three regions on this machine, real histories, forks, a killed server, and the proof that nothing differs or is lost.

``up`` starts and stops the cluster, ``history`` reads recorded events and ``purchase`` (with ``shop``) makes some, ``ledger`` keeps the
books on what was acknowledged, ``steps`` is what is done, ``findings`` what was found and whether it is good, ``report`` shows it. Here
is only the command.
"""

from pathlib import Path
from typing import Annotated

import typer

from isoline_client.cli.session import Given, run


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    ctx: typer.Context,
    *,
    history: Annotated[
        list[Path] | None,
        typer.Option(
            "--history",
            metavar="FILE.jsonl ...",
            help="Recorded events to append, a run for each file; without it a small workflow with tool calls is really run.",
            dir_okay=False,
        ),
    ] = None,
    more: Annotated[list[Path] | None, typer.Argument(metavar="[FILE.jsonl]...", hidden=True, dir_okay=False)] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir", help="Keep the cluster's data here.  [default: a temporary folder]", file_okay=False
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the cluster running, and say what to try next.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    r"""Start three regions on this machine and prove that they hold the same history.

    Appends histories; reads one prefix through every region while others append, and recomputes its digest; forks it in every region;
    kills a region's server with a writer on it; then reads everything back and compares it with what the writers were told. Each line of a
    history is an object with type, payload and perhaps nodeId and masked; a timestamp is not kept, for the server stamps events itself.

    Exit code 1 when anything differs, or an acknowledged event is lost or there twice. --json prints one object:

    \b
      regions            the regions' names; the first one leads
      prefix             rows of run, region, seq, digest, source, ms: the prefix up to seq, read and verified through the region
      prefix_equal       are its digests equal, and equal to that of the events as they were appended?
      forks              rows of run, source_run, region, mode, from_seq, and reads: rows as in prefix, read back from the fork
      fork_prefix_equal  is every fork's prefix digest its parent's at from_seq - 1?
      states, state_equal  the same for status, variables and channels at the end of the prefix
      killed             region, pids, events acknowledged before, while it was away and after, how long it was away
      log, log_equal     as prefix, for the whole logs at the end
      acknowledged, lost, duplicates, misplaced, unknown, gaps  the account of every event (all but the first must be 0)
      repeated           acknowledgements that a retry got, because the first answer was lost
      ok, seconds, data_dir, runs
    """
    outer = ctx.obj if isinstance(ctx.obj, Given) else Given()
    files = [*(history or ()), *(more or ())]
    from isoline_client.cli.demo.command import demonstrate

    raise typer.Exit(
        run(
            Given(json=json or outer.json),
            lambda session: demonstrate(session.out, files, data_dir=data_dir, keep=keep),
        )
    )
