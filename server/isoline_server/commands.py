"""The server's commands of ``isoline``: serve, migrate, key. They parse arguments and call; nothing is decided here.

Registered through the entry point group ``isoline.commands``, so that neither the server nor the client imports the other.
"""

import hashlib
import os
import secrets
import socket
from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        envvar="ISOLINE_CONFIG",
        help="TOML file; see `isoline serve --help` for its shape.",
        dir_okay=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the server's commands."""
    app.command()(serve)
    app.command()(migrate)
    app.command()(key)


def serve(
    region: Annotated[
        str, typer.Option("--region", "-r", help="The region this server answers for, as named in the configuration.")
    ],
    config: ConfigOption = None,
) -> None:
    r"""Serve one region until SIGTERM or Ctrl-C, then drain.

    The configuration names the database that leads, and for each region where its server listens and which replica is its own:

    \b
      topology = "postgres"                  # embedded, postgres or cockroach
      leader_url = "postgresql+psycopg://isoline@db-eu/isoline"
      [regions.eu]
      listen = "127.0.0.1:7101"
      [regions.us]
      listen = "127.0.0.1:7102"
      local_url = "postgresql+psycopg://isoline@db-us/isoline"

    Settings can also come from the environment (ISOLINE_LEADER_URL, …). Without api_keys a server listens on loopback only. Run
    `isoline migrate` first.
    """
    from isoline_server.bootstrap import serve as run_server
    from isoline_server.config import ConfigError, load_settings
    from isoline_server.domain.errors import IsolineError
    from isoline_server.operations.ports import StoreRetryable
    from isoline_server.store.migrate import SchemaMismatch

    try:
        run_server(load_settings(config), region)
    except (ConfigError, IsolineError, SchemaMismatch, StoreRetryable, OSError) as error:
        typer.echo(f"isoline serve: {error}", err=True)
        raise typer.Exit(1) from None


def migrate(config: ConfigOption = None) -> None:
    """Bring the database to the schema of this version. Safe to run again, and from several places at once."""
    from isoline_server.config import ConfigError, load_settings
    from isoline_server.store.migrate import LeaseBusy, RegionsMissing, SchemaMismatch, WrongDialect
    from isoline_server.store.migrate import migrate as run_migrations

    try:
        settings = load_settings(config)
        report = run_migrations(
            settings.leader_url,
            regions=settings.homes if settings.topology == "cockroach" else (),
            holder=f"{socket.gethostname()}:{os.getpid()}",
            on_progress=lambda line: typer.echo(line, err=True),
        )
    except (ConfigError, SchemaMismatch, LeaseBusy, RegionsMissing, WrongDialect, OSError) as error:
        typer.echo(f"isoline migrate: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"schema {report.from_revision or 'none'} -> {report.to_revision} in {len(report.steps)} steps")


def key(
    tenant: Annotated[str, typer.Option(help="The tenant the key acts for.")],
) -> None:
    """Make an API key: print it once, and the lines for the configuration, which hold only its SHA-256."""
    made = secrets.token_urlsafe(32)
    typer.echo(f"# give this to the client, it is not shown again: {made}", err=True)
    typer.echo(f'[[api_keys]]\nsha256 = "{hashlib.sha256(made.encode()).hexdigest()}"\ntenant = "{tenant}"')
