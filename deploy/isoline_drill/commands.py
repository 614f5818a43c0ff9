"""``isoline drill``: options in, a report out. What a drill does is in ``scenarios``; what it runs on in ``world``."""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from isoline_drill.report import Report

NAMES: Final = ("region-loss", "isolate", "lag", "executor-loss", "rolling-restart")
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_NOT_CARRIED_OUT: Final = 4


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(drill)


def drill(
    name: Annotated[str, typer.Argument(metavar="DRILL", help=f"One of {', '.join(NAMES)}.")],
    *,
    seed: Annotated[
        int, typer.Option("--seed", help="Of everything that is chosen: the moments, the victims, the load.")
    ] = 1,
    wan: Annotated[
        str,
        typer.Option(
            "--wan",
            help="namespaces (real packets, real silence; root on Linux), proxies (delayed TCP; anywhere), or auto.",
        ),
    ] = "auto",
    rate: Annotated[float, typer.Option("--rate", min=1, max=500, help="Operations a second and region.")] = 15.0,
    detection: Annotated[
        float,
        typer.Option(
            "--detection",
            min=0,
            max=60,
            help="Seconds until the operator acts. Reported apart from what Isoline needs.",
        ),
    ] = 1.0,
    failover: Annotated[
        str,
        typer.Option(
            "--failover",
            help="Who promotes: operator (the drill itself), patroni (with etcd; region-loss, isolate), or auto: Patroni where installed.",
        ),
    ] = "auto",
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Also draw the timeline, as .png or .svg.", show_default=False)
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option("--keep", help="Keep logs, histories and databases in this new folder.", show_default=False),
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Without fsync: for a quick look, not for evidence.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Break a three-region service on this machine, and prove what came of it.

    A drill starts three regions, each with a PostgreSQL node, a server and an executor, over an emulated wide-area network of 30, 80 and
    120 ms; puts load on all of them; does something terrible; and holds what every client was told against the logs of every region.

    \b
      region-loss      the leading region is killed; an operator or Patroni promotes another; the region comes back
      isolate          the leading region is cut off and lives on; then a following one
      lag              a replica falls behind, and is then cut off
      executor-loss    executors are killed in the middle of effects
      rolling-restart  every server is drained and restarted

    It passes when nothing acknowledged is lost, nothing is there twice, no log has a gap, every read was a prefix of the final log, and no
    effect was carried out twice. Exit code 0: passed, 1: failed, 4: could not be carried out.

    \b
      isoline drill region-loss --seed 7 --plot timeline.svg
      isoline drill region-loss --failover patroni
      isoline drill isolate --wan proxies --json
    """  # noqa: D301 - the backspace is click's marker for a paragraph that is shown as it is
    _check(name, wan, failover, plot)
    folder = keep or Path(tempfile.mkdtemp(prefix="isoline-drill-"))
    try:
        report = _carried_out(
            name, folder, seed=seed, wan=wan, rate=rate, detection_s=detection, failover=failover, durable=not fast
        )
        if plot is not None:
            _draw(report, plot)
        _tell(report, as_json=as_json)
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    if not report.passed:
        raise typer.Exit(EXIT_FAILED)


def _check(name: str, wan: str, failover: str, plot: Path | None) -> None:
    from isoline_drill.patroni.choice import ASKED, makes_no_sense
    from isoline_drill.plot import FORMATS

    if name not in NAMES:
        _refuse(f"DRILL: there is {', '.join(NAMES)}; not {name}")
    if wan not in ("auto", "namespaces", "proxies"):
        _refuse(f"--wan: auto, namespaces or proxies; not {wan}")
    if failover not in ASKED:
        _refuse(f"--failover: {', '.join(ASKED)}; not {failover}")
    if (why := makes_no_sense(name, failover, wan)) is not None:
        _refuse(why)
    if plot is not None and plot.suffix not in FORMATS:
        _refuse(f"--plot: the name must end in {' or '.join(FORMATS)}; not {plot.name}")


def _refuse(text: str) -> None:
    typer.echo(f"isoline drill: {text}", err=True)
    raise typer.Exit(EXIT_USAGE)


def _carried_out(
    name: str, folder: Path, *, seed: int, wan: str, rate: float, detection_s: float, failover: str, durable: bool
) -> "Report":
    from isoline_drill.errors import DrillError
    from isoline_drill.patroni.choice import choose
    from isoline_drill.promotion import PromotionRefused
    from isoline_drill.scenarios import SCENARIOS
    from isoline_drill.stage import Stage
    from isoline_drill.wan.base import Kind
    from isoline_drill.wan.namespaces import WanError
    from isoline_drill.world import Order, World
    from isoline_server.embedded import EmbeddedPostgresError

    kinds: dict[str, Kind | None] = {"auto": None, "namespaces": "namespaces", "proxies": "proxies"}
    since_s = time.monotonic()

    def say(line: str) -> None:
        sys.stderr.write(f"{time.monotonic() - since_s:7.2f} s  {line}\n")
        sys.stderr.flush()

    try:
        (folder / "logs").mkdir(parents=True)
        patroni = choose(name, failover, kinds[wan], say)
        with World(Order(folder=folder, wan=kinds[wan], patroni=patroni, durable=durable), say) as world:
            stage = Stage(world, seed=seed, rate=rate, detection_s=detection_s)
            SCENARIOS[name](stage)
            return stage.report(name)
    except (DrillError, EmbeddedPostgresError, PromotionRefused, WanError, OSError) as error:
        typer.echo(f"isoline drill: {error}", err=True)
        raise typer.Exit(EXIT_NOT_CARRIED_OUT) from error


def _draw(report: "Report", plot: Path) -> None:
    from isoline_drill.plot import draw

    draw(report.timeline, f"{report.drill}, seed {report.seed}", plot)


def _tell(report: "Report", *, as_json: bool) -> None:
    from rich.console import Console

    from isoline_drill.report import show

    if as_json:
        typer.echo(json.dumps(report.document()))
    else:
        show(report, Console())
