"""Where one PostgreSQL of the cluster can be reached. A value and its spelling as a URL: no connecting, no processes."""

from dataclasses import dataclass, field
from urllib.parse import quote


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One address. The password is left out of ``repr`` so that it does not slip into logs; ``url()`` contains it."""

    name: str
    host: str
    port: int
    user: str
    database: str
    password: str = field(default="", repr=False)
    network: str | None = field(default=None, repr=False)
    """Path of the network namespace in which the address can be reached; ``None``: ours."""

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    def url(self, dialect: str = "postgresql+psycopg", database: str | None = None) -> str:
        """The URL for SQLAlchemy, or for libpq itself with ``dialect="postgresql"``."""
        secret = f":{quote(self.password, safe='')}" if self.password else ""
        name = quote(self.database if database is None else database, safe="")
        return f"{dialect}://{quote(self.user, safe='')}{secret}@{self.host}:{self.port}/{name}"
