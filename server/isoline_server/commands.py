"""The server's commands of ``isoline``: serve, migrate, key, up, down. They parse arguments and call; nothing is decided here.

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

DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Folder of the local cluster. Else ISOLINE_DATA_DIR, else ~/.local/share/isoline.",
        file_okay=False,
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the server's commands."""
    app.command()(serve)
    app.command()(migrate)
    app.command()(key)
    app.command()(up)
    app.command()(down)


def serve(
    region: Annotated[
        str, typer.Option("--region", "-r", help="The region this server answers for, as named in the configuration.")
    ],
    config: ConfigOption = None,
    with_executor: Annotated[
        str,
        typer.Option(
            "--with-executor",
            metavar="MODULE[,…]",
            help="Also run an executor of the workflows in these modules, as a child of this process.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Serve one region until SIGTERM or Ctrl-C, then drain.

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
    """  # noqa: D301 - the backspace is click's marker for a paragraph that is shown as it is
    from isoline_server.bootstrap import serve as run_server
    from isoline_server.config import ConfigError, load_settings
    from isoline_server.domain.errors import IsolineError
    from isoline_server.local_cluster.companion import executor_beside
    from isoline_server.operations.ports import StoreRetryable
    from isoline_server.store.migrations.errors import MigrationError

    try:
        beside = executor_beside(region, with_executor) if with_executor else None
        run_server(load_settings(config), region, beside=beside)
    except (ConfigError, IsolineError, MigrationError, StoreRetryable, OSError) as error:
        typer.echo(f"isoline serve: {error}", err=True)
        raise typer.Exit(1) from None


def migrate(config: ConfigOption = None) -> None:
    """Bring the database to the schema of this version. Safe to run again, and from several places at once."""
    from isoline_server.config import ConfigError, load_settings
    from isoline_server.domain.errors import IsolineError
    from isoline_server.store.migrate import leading_url
    from isoline_server.store.migrate import migrate as run_migrations
    from isoline_server.store.migrations.errors import MigrationError

    try:
        settings = load_settings(config)
        report = run_migrations(
            leading_url((settings.leader_url, *settings.standby_urls)),
            regions=settings.homes if settings.topology == "cockroach" else (),
            holder=f"{socket.gethostname()}:{os.getpid()}",
            on_progress=lambda line: typer.echo(line, err=True),
        )
    except (ConfigError, IsolineError, MigrationError, OSError) as error:
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


def up(
    *,
    data_dir: DataDirOption = None,
    regions: Annotated[
        str | None,
        typer.Option(help="Comma-separated codes, the leading one first. Without it: as last time, else eu,us,ap."),
    ] = None,
    ephemeral: Annotated[
        bool,
        typer.Option(
            "--ephemeral",
            help="Use a temporary folder, removed at the end. Survives any killed process, not a power cut.",
        ),
    ] = False,
    with_executor: Annotated[
        str,
        typer.Option(
            "--with-executor",
            metavar="MODULE[,…]",
            help="Also run an executor of the workflows in these modules beside each server.",
            show_default=False,
        ),
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="When everything serves, print one JSON line instead of text.")
    ] = False,
    exit_with_parent: Annotated[
        bool,
        typer.Option(
            "--exit-with-parent",
            help="Stop when the process that started this one ends; also, when standard input is a pipe, at its end.",
        ),
    ] = False,
) -> None:
    """Run a whole cluster on this machine until SIGTERM or Ctrl-C: PostgreSQL, a hot standby and a server for each region.

    What dies is started again, and everything ends with this process, even if it is killed. Data, regions and free ports are kept in
    the data folder, and `isoline down` stops it. While it runs, cluster.json in the folder holds what --json prints:

    \b
      {"pid": 1, "regions": {"eu": {"address": "127.0.0.1:7100", "pid": 2}, ...}, "config": "...", "data_dir": "..."}
    """  # noqa: D301 - as in serve
    from isoline_server.local_cluster import ClusterError, Order, end_with_parent, run_cluster

    if exit_with_parent:
        end_with_parent()
    from isoline_server.domain.errors import IsolineError
    from isoline_server.embedded import EmbeddedPostgresError
    from isoline_server.store.migrate import LeaseBusy, SchemaMismatch

    # ISOLINE_DATA_DIR names a place for data that stay.
    chosen = None if ephemeral and data_dir is None else _data_dir(data_dir)
    try:
        run_cluster(
            Order(data_dir=chosen, regions=regions, ephemeral=ephemeral, workflows=with_executor),
            on_ready=lambda record: typer.echo(record.to_json() if as_json else record.to_text()),
        )
    except (ClusterError, EmbeddedPostgresError, IsolineError, SchemaMismatch, LeaseBusy, OSError, ValueError) as error:
        typer.echo(f"isoline up: {error}", err=True)
        raise typer.Exit(1) from None


def down(data_dir: DataDirOption = None) -> None:
    """Stop the cluster that `isoline up` runs over a data folder, and wait until it is gone. The data stay."""
    from isoline_server.local_cluster import ClusterError, stop_cluster

    try:
        pid = stop_cluster(_data_dir(data_dir))
    except (ClusterError, OSError) as error:
        typer.echo(f"isoline down: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"stopped (pid {pid})")


def _data_dir(given: Path | None) -> Path:
    found = given or Path(os.environ.get("ISOLINE_DATA_DIR") or "~/.local/share/isoline")
    return found.expanduser().resolve()
