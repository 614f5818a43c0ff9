"""Running SQL through the ``psql`` program, and quoting for it. For set-up and drills: the service itself never comes this way."""

import subprocess
from pathlib import Path
from typing import Final

from isoline_server.embedded.endpoint import Endpoint
from isoline_server.embedded.errors import EmbeddedPostgresError
from isoline_server.embedded.process import clean_environment, launched

MAINTENANCE_DATABASE: Final = "postgres"
"""Every cluster has it, on every node."""
QUERY_S: Final = 60.0


class Psql:
    """``psql`` with the cluster's password. SQL goes on its command line, where other users see it: no secrets in it."""

    def __init__(self, *, program: str, passfile: Path) -> None:
        self._program = program
        self._passfile = passfile

    def run(
        self,
        endpoint: Endpoint,
        sql: str,
        *,
        database: str | None = None,
        timeout_s: float = QUERY_S,
        wait_for_standbys: bool = True,
    ) -> str:
        """The rows, one a line, columns separated by ``|``.

        ``wait_for_standbys=False`` commits without the quorum: for set-up, which must not hang while the standbys are still to come.
        """
        command = [
            self._program,
            "--no-psqlrc",
            "--no-password",
            "--quiet",
            "--no-align",
            "--tuples-only",
            "--set=ON_ERROR_STOP=1",
        ]
        where = f"host={endpoint.host} port={endpoint.port} user={endpoint.user} sslmode=disable gssencmode=disable"
        name = endpoint.database if database is None else database
        argv = [*command, f"--command={sql}", f"--dbname={where} dbname={conninfo_value(name)}"]
        options = {} if wait_for_standbys else {"PGOPTIONS": "-c synchronous_commit=local"}
        try:
            answer = subprocess.run(
                argv if endpoint.network is None else launched(argv, network=endpoint.network),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                timeout=timeout_s,
                check=False,
                env=clean_environment({"PGPASSFILE": str(self._passfile), "PGCLIENTENCODING": "UTF8", **options}),
            )
        except subprocess.TimeoutExpired:
            raise EmbeddedPostgresError(f"{endpoint.name}: no answer within {timeout_s:g} s to: {sql}") from None
        if answer.returncode != 0:
            raise EmbeddedPostgresError(f"{endpoint.name}: {answer.stderr.strip()}")
        return answer.stdout.removesuffix("\n")


def identifier(name: str) -> str:
    """A name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as SQL."""
    return "'" + text.replace("'", "''") + "'"


def conninfo_value(text: str) -> str:
    """A value as libpq's ``key=value`` strings want it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
