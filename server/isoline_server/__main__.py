"""``python -m isoline_server``: the server's commands without the client's."""

import typer

from isoline_server.commands import register

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Isoline server commands.")
register(app)

if __name__ == "__main__":
    app()
