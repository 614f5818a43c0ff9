"""``isoline executor``: a process that runs workflows. Options and signals here; what it does is ``isoline_client.executor``."""

import asyncio
import os
import re
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from isoline_client.cli.failures import CommandError, Exit
from isoline_client.cli.options import add_command
from isoline_client.cli.session import Session
from isoline_client.executor.settings import GRACE_S, LEASE_TTL_MS, MAX_RUNS, POLL_MS, Settings, Until

if TYPE_CHECKING:
    from isoline_client.executor.service import Executor

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000}


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, executor)


async def executor(
    session: Session,
    *,
    workflows: Annotated[
        str,
        typer.Option(
            "--workflows",
            "-w",
            metavar="MODULE[,…]",
            help="Python modules that hold the workflows, as `import` takes them (the current folder is searched too), or .json files.",
            show_default=False,
        ),
    ],
    max_runs: Annotated[int, typer.Option("--max-runs", min=1, max=10_000, help="Runs driven at once.")] = MAX_RUNS,
    lease_ttl: Annotated[
        str,
        typer.Option("--lease-ttl", metavar="DURATION", help="How long a dead executor's runs wait for another."),
    ] = f"{LEASE_TTL_MS // 1000}s",
    poll: Annotated[
        str, typer.Option("--poll", metavar="DURATION", help="Pause between claims that bring nothing.")
    ] = f"{POLL_MS}ms",
    grace: Annotated[
        str,
        typer.Option("--grace", metavar="DURATION", help="How long nodes under way may take to end after SIGTERM."),
    ] = f"{GRACE_S:g}s",
    owner: Annotated[
        str,
        typer.Option("--owner", metavar="NAME", help="This process, for people. Else HOST:PID.", show_default=False),
    ] = "",
    require_isolation: Annotated[
        bool,
        typer.Option(
            "--require-isolation", help="Do not start where replays cannot be shut into a worker without a network."
        ),
    ] = False,
    side_effect: Annotated[
        list[str] | None,
        typer.Option(
            "--side-effect",
            metavar="TYPE",
            help="Node type that replays must not run, though it does not declare itself side-effecting. May be given more than once.",
            show_default=False,
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Claim once, drive what that brought, end.")] = False,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when nothing is runnable and no run has a time to wake.")
    ] = False,
) -> None:
    r"""Run workflows: claim the runs of a region, execute their nodes, write what happens. Until SIGTERM or Ctrl-C, then drain.

    It holds no state of its own. Kill it at any point: another executor of the region takes its runs over when their leases are up, goes on
    from their logs, and sends no external effect a second time. What it cannot know is in doubt, and waits for `isoline effects resolve`.

    A module holds workflows at its top level, or as a list WORKFLOWS. Forks are executed as runs are: a replay re-executes its source
    without effects, a branch goes its own way and its effects happen (see `isoline fork --dry-run`).

    Durations are 500ms, 15s or 2m. Each step of a run is a line on stderr; with --json one JSON object a line.

    \b
    isoline executor --region eu --workflows shop.workflows
    isoline executor --region eu --workflows shop.workflows,shop.reports --max-runs 64 --lease-ttl 5s
    isoline executor --region us --workflows shop.workflows --until-idle
    """
    if once and until_idle:
        raise CommandError("--once and --until-idle: give one of them")
    until: Until = "once" if once else "idle" if until_idle else "stopped"
    settings = Settings(
        owner=owner or f"{socket.gethostname()}:{os.getpid()}",
        region=session.region,
        max_runs=max_runs,
        lease_ttl_ms=_duration_ms(lease_ttl, "--lease-ttl", least=1_000, most=600_000),
        poll_ms=_duration_ms(poll, "--poll", least=10, most=60_000),
        grace_s=_duration_ms(grace, "--grace", least=0, most=3_600_000) / 1000,
        until=until,
        require_isolation=require_isolation,
        also_side_effects=frozenset(side_effect or ()),
    )
    await _execute(session, workflows, settings)


async def _execute(session: Session, modules: str, settings: Settings) -> None:
    from isoline_client.executor import serving
    from isoline_client.executor.logs import log_to_stderr

    log_to_stderr(as_json=session.out.json)
    sys.path.insert(0, str(Path.cwd()))
    try:
        async with session.client() as client, serving.executor(client, modules, settings) as running:
            _drain_on_signals(running)
            await running.run()
    except serving.CannotStart as error:
        said, *more = str(error).splitlines()  # a definition's faults, one a line
        refused = CommandError(said, Exit.USAGE)
        for line in more:
            refused.add_note(line.strip())
        raise refused from error


def _drain_on_signals(running: "Executor") -> None:
    """The first signal drains, the second cuts off."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if running.draining:
            running.cut_off()
        running.drain()

    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop)


def _duration_ms(text: str, option: str, *, least: int, most: int) -> int:
    found = _DURATION.fullmatch(text)
    value = int(float(found[1]) * _UNITS_MS[found[2]]) if found else -1
    if not least <= value <= most:
        raise CommandError(
            f"{option}: must be a duration from {least} ms to {most} ms, as 500ms, 15s or 2m, not {text!r}"
        )
    return value
