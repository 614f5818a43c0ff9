"""The options that every command has, and how a command becomes one of the program's.

A command is a coroutine of a ``Session`` and its own parameters. ``connected`` adds the common options to it, so that they may stand before
the command's name or behind it.
"""

import inspect
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from isoline_client.cli.session import TIMEOUT_S, Given, Session, run

Work = Callable[..., Coroutine[Any, Any, int | None]]

_PANEL: Final = "Connection and output (every command)"
ServerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--server",
        "-s",
        metavar="[REGION=]HOST:PORT",
        help="A server; may be given more than once. Else ISOLINE_SERVERS (comma separated), else the local cluster, else 127.0.0.1:7100.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
RegionOption = Annotated[
    str,
    typer.Option(
        "--region",
        "-r",
        metavar="REGION",
        help="Ask this region's server first; a new run or fork lives there. Else ISOLINE_REGION.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.1,
        max=86_400,
        help=f"How long one call may take, tries at other servers included.  \\[default: {TIMEOUT_S:g}]",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
KeyFileOption = Annotated[
    Path | None,
    typer.Option(
        "--api-key-file",
        metavar="FILE",
        help="A file that holds the API key. Else ISOLINE_API_KEY.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="For machines: JSON on stdout, errors as JSON on stderr.", rich_help_panel=_PANEL),
]

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's id, as `isoline run list` shows it.", show_default=False)
]
FreshnessOption = Annotated[
    str,
    typer.Option(
        "--freshness",
        metavar="latest|local",
        help="latest: the leader is asked for the head. local: what the region's own replica holds, however old.",
    ),
]


def given(
    *,
    server: ServerOption = None,
    region: RegionOption = "",
    timeout: TimeoutOption = None,
    api_key_file: KeyFileOption = None,
    json: JsonOption = False,
) -> Given:
    """What the common options say. Its signature is where they are declared."""
    return Given(servers=tuple(server or ()), region=region, timeout_s=timeout, api_key_file=api_key_file, json=json)


_COMMON: Final = tuple(inspect.signature(given).parameters.values())
_CONTEXT: Final = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)


def add_command(app: typer.Typer, work: Work, name: str | None = None, *, panel: str | None = None) -> None:
    """Make ``work`` a command of ``app``. Its docstring is the help: the first paragraph in lists, all of it in ``--help``."""
    app.command(name, help=help_text(work), rich_help_panel=panel, no_args_is_help=_needs_arguments(work))(
        connected(work)
    )


def connected(work: Work) -> Callable[..., None]:
    """``work`` with the common options and a session, ended by its exit code."""

    def call(ctx: typer.Context, **values: Any) -> None:
        own = given(**{each.name: values.pop(each.name) for each in _COMMON})
        outer = ctx.obj if isinstance(ctx.obj, Given) else Given()
        raise typer.Exit(run(own.over(outer), lambda session: work(session, **values)))

    _declare(call, [_CONTEXT, *list(inspect.signature(work).parameters.values())[1:], *_COMMON])
    call.__name__ = work.__name__
    return call


def help_text(work: Callable[..., Any], *, examples: str = "[bold]Examples[/bold]") -> str:
    r"""The docstring as typer shows it. Paragraphs flow, what looks like markup in it is none, and one that begins with a line ``\b`` is
    shown line by line, under the heading ``examples``."""
    return "\n\n".join(_paragraph(each, examples) for each in (inspect.getdoc(work) or "").split("\n\n"))


def _paragraph(text: str, heading: str) -> str:
    first, *lines = text.split("\n")
    if first.strip() not in {"\b", r"\b"}:
        return escape(" ".join([first, *lines]))
    return "\n".join([heading, *(f"  {escape(line)}" for line in lines)] if heading else map(escape, lines))


def _declare(call: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> None:
    """Give a function the signature that typer reads."""
    keyword_only = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    call.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in keyword_only}


def _needs_arguments(work: Work) -> bool:
    own = list(inspect.signature(work).parameters.values())[1:]
    return any(each.default is inspect.Parameter.empty for each in own)


__all__ = ["FreshnessOption", "RunArgument", "Session", "add_command", "connected", "given", "help_text"]
