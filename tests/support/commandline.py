"""Whether ``isoline`` knows a command line, asked of its own tree of commands. Nothing is run."""

from collections.abc import Sequence

import typer.main

from isoline_client.cli.program import make_app


def refusal(arguments: Sequence[str]) -> str | None:
    """Why the program would not take these arguments, whose first names the command; None if it would."""
    group = typer.main.get_command(make_app())
    context = group.context_class(group, info_name="isoline")
    command, rest = group, list(arguments)
    while hasattr(command, "get_command"):
        name, rest = rest[0], rest[1:]
        found = command.get_command(context, name)
        if found is None:
            return f"there is no command {name}"
        command = found
    try:
        command.make_context(name, rest, parent=context)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        return str(error.format_message())
    return None
