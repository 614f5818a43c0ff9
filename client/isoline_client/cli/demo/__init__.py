"""``isoline demo``: three regions on this machine, real histories, forks, a killed server, and the proof that nothing differs or is lost.

``up`` starts and stops the cluster, ``history`` reads recorded events and ``purchase`` (with ``shop``) makes some, ``ledger`` keeps the
books on what was acknowledged, ``order`` is the workflow that ``reexecution`` has executed, replayed and branched, ``steps`` is what is
done, ``findings`` what was found and whether it is good, ``report`` shows it. Here is only the command.
"""

from pathlib import Path
from typing import Annotated, Final

import typer

from isoline_client.cli.options import help_text
from isoline_client.cli.session import Given, run

_ANSWER: Final = """

Exit code 1 when anything differs, or when an acknowledged event is lost
or there twice. --json prints one object:

\b
  regions        the names of the regions, the leading one first
  prefix         a row for each region (and run), of run, region, seq,
                 digest, source, ms: [0, seq] read and verified there
  prefix_equal   are they equal, also to what was acknowledged?
  states         a row for each region: the digest of status, variables
                 and channels behind the prefix; state_equal
  forks          run, source_run, region, mode, from_seq, and reads:
                 rows as in prefix, read back through every region
  fork_prefix_equal  is it the parent's digest at from_seq - 1?
  effects        a workflow with one order over HTTP; orders as the shop
                 counted them: after_run, after_replays (one in each
                 region), after_branch; and its replays
  masked_equal   are the replays alike behind the boundary, stamps and
                 declared values aside? raw_suffix_equal: even with them?
  killed         region, pid, pid_after, away_s, and the events that its
                 writer was told of before, while it was away, and after
  log            as prefix, for the whole log at the end; log_equal
  acknowledged   events of all writers; of these: lost, duplicates,
                 misplaced (at another seq than told); and in the log:
                 unknown (sent by nobody), gaps
  repeated       acknowledged to a retry, the first answer being lost
  ok             the verdict; seconds, data_dir, runs
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", help=help_text(demo) + _ANSWER)(demo)


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
    more: Annotated[list[Path] | None, typer.Argument(metavar="FILE.jsonl", hidden=True, dir_okay=False)] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir",
            help="Keep the cluster's data here. Without it they go, with a temporary folder.",
            file_okay=False,
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the cluster running, and say what to try next.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Start three regions on this machine and prove that they hold the same history.

    Appends histories; reads one prefix through every region while others
    append, and recomputes its digest; forks it in every region; kills a
    region's server with a writer on it; executes a workflow that orders
    something over HTTP, replays it in every region and branches it once,
    while the shop counts the orders; then reads everything back and
    compares it with what the writers were told.

    A line of a history is an object with type, payload and, where they
    apply, nodeId and masked. A timestamp in it is not kept: the server
    stamps events itself.
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
