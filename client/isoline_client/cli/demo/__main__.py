"""``python -m isoline_client.cli.demo``: the demo without the other commands."""

import typer

from isoline_client.cli.demo import register

app = typer.Typer()
register(app)

if __name__ == "__main__":
    app()
