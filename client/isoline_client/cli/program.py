"""The program: which commands there are, and what stands above them all. Commands of other packages come through an entry point group."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points, version
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from isoline_client.cli import (
    append,
    compare,
    demo,
    diff,
    effects,
    executor,
    fork,
    hosts,
    importing,
    reading,
    runs,
    seams,
    steering,
    verify,
)
from isoline_client.cli.failures import CommandError, Exit, describe
from isoline_client.cli.options import (
    JsonOption,
    KeyFileOption,
    RegionOption,
    ServerOption,
    TimeoutOption,
    given,
    help_text,
)
from isoline_client.cli.output import Output

GROUP: Final = "isoline.commands"
"""Entry points here are functions that take the ``typer.Typer`` and add commands to it."""

INSTALL: Final = "pip install 'isoline[server]'"
OURS: Final = {"isoline", "isoline_client", "isoline_server"}
SERVER_PANEL: Final = "Server commands"

ABOUT: Final = """A log whose prefix reads the same, byte for byte, from every region.

A [bold]run[/bold] is an append-only log of events with one order. Append to it from anywhere, read it from any region, fork it at any \
event, and prove that every region holds the same history.

[bold]First steps[/bold]
  RUN=$(isoline run create my-workflow)
  echo '{"type": "run.started", "payload": {}}' | isoline append $RUN
  isoline read $RUN
  isoline verify $RUN --regions all
"""

ENDS: Final = """[bold]Results[/bold] go to stdout, progress and errors to stderr. With --json a result is one JSON object a line, and an \
error is {"error": {"kind", "reason", "message", "details", "hints", "exitCode"}}. Seqs count from 0; ranges leave out their end.

[bold]Exit codes[/bold]  0 done · 1 a negative answer: runs differ, a region differs, bytes do not verify · 2 wrong usage or input · \
3 refused by the server · 4 no answer, or it is unknown whether a change landed · 130 interrupted · 141 the output's reader has gone

[bold]Environment[/bold]  ISOLINE_SERVERS (eu=host:7101,us=host:7102) · ISOLINE_API_KEY · ISOLINE_REGION · ISOLINE_DATA_DIR (where \
`isoline up` keeps its cluster) · NO_COLOR"""


class Program(TyperGroup):
    """The group of all commands: it also says what is missing when a command is."""

    not_loaded: tuple[str, ...] = ()
    """Why commands of other packages are not there."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in OURS:
                raise
            raise typer.Exit(
                _say_missing(f"this command needs {error.name}, which is not installed: {INSTALL}")
            ) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            if self.not_loaded and hasattr(error, "message"):
                error.message += f" ({'; '.join(self.not_loaded)})"
            raise


def make_app() -> typer.Typer:
    """Put the program together."""
    app = typer.Typer(
        name="isoline",
        help=ABOUT,
        epilog=ENDS,
        rich_markup_mode="rich",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    for module in (
        runs,
        steering,
        append,
        importing,
        reading,
        fork,
        diff,
        compare,
        verify,
        effects,
        executor,
        seams,
        hosts,
        demo,
    ):
        module.register(app)
    _as_text(app, 0)
    not_loaded = add_foreign_commands(app, tuple(entry_points(group=GROUP)))
    app.callback(cls=type("Program", (Program,), {"not_loaded": not_loaded}))(_before_every_command)
    return app


def add_foreign_commands(app: typer.Typer, found: tuple[EntryPoint, ...]) -> tuple[str, ...]:
    """Let every entry point add its commands. One that fails is left out, and the answer says why: our own commands must work."""
    not_loaded = []
    for entry in found:
        before = len(app.registered_commands)
        try:
            register: Callable[[typer.Typer], None] = entry.load()
            register(app)
        except ModuleNotFoundError as error:
            del app.registered_commands[before:]
            not_loaded.append(f"the {entry.name} commands need {error.name}: {INSTALL}")
        except Exception as error:  # noqa: BLE001 - whatever another package does wrong, this one's commands go on
            del app.registered_commands[before:]
            not_loaded.append(f"the {entry.name} commands ({entry.value}) could not be loaded: {error!r}")
        _as_text(app, before)
        for command in app.registered_commands[before:]:
            command.rich_help_panel = SERVER_PANEL
    return tuple(not_loaded)


def _as_text(app: typer.Typer, first: int) -> None:
    """Show the docstrings of commands from elsewhere as they stand: brackets in them are no markup of ours."""
    for command in app.registered_commands[first:]:
        if command.help is None and command.callback is not None:
            command.help = help_text(command.callback, examples="")


def _say_missing(message: str) -> int:
    Output(json=False).failure(describe(CommandError(message)))
    return int(Exit.USAGE)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"isoline {version('isoline')}")
        raise typer.Exit


def _before_every_command(
    ctx: typer.Context,
    *,
    server: ServerOption = None,
    region: RegionOption = "",
    timeout: TimeoutOption = None,
    api_key_file: KeyFileOption = None,
    json: JsonOption = False,
    show_version: Annotated[
        bool, typer.Option("--version", help="Say the version and end.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    del show_version  # its callback has answered
    ctx.obj = given(server=server, region=region, timeout=timeout, api_key_file=api_key_file, json=json)
