"""The configuration of a server: a TOML file, overridden by ``ISOLINE_…`` environment variables. Validated once; lower layers get values.

::

    topology = "postgres"                       # embedded, postgres or cockroach
    leader_url = "postgresql+psycopg://isoline@db-eu:5432/isoline"
    leader_region = "eu"                        # for people; the database decides who leads
    standby_urls = ["postgresql+psycopg://isoline@db-us:5432/isoline"]           # who else may lead, after a failover (PostgreSQL)

    [regions.eu]
    listen = "127.0.0.1:7101"
    [regions.us]
    listen = "127.0.0.1:7102"
    local_url = "postgresql+psycopg://isoline@db-us:5432/isoline"    # this region's hot standby
    replica_counts = true                       # it is in synchronous_standby_names: what it shows is durable

    [[api_keys]]                                # none: loopback only, everybody is tenant "local"
    sha256 = "…"                                # isoline key --tenant acme prints one
    tenant = "acme"
    scopes = ["runs:create", "runs:read", "runs:append"]             # executors: "runs:execute", too
"""

import ipaddress
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from isoline_server.api.credentials import ALL_SCOPES, Caller, Scope
from isoline_server.domain.errors import InvalidField
from isoline_server.domain.ids import Region, Tenant, check_region, check_tenant

ANONYMOUS_TENANT = Tenant("local")
RegionCode = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]{0,14}$")]


class ConfigError(Exception):
    """The configuration cannot be used; the message names the setting."""


class RegionSettings(BaseModel):
    """One region: where its server listens, and its own replica (none: the leader is the region's).

    ``replica_counts``: the replica is one that commits wait for (PostgreSQL's ``synchronous_standby_names``), so what it shows is on two nodes,
    and a far region need not wait for the leader to say so, too.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    listen: str = "127.0.0.1:7100"
    local_url: str | None = None
    replica_counts: bool = False


class ApiKey(BaseModel):
    """One static key, by its SHA-256."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    tenant: str
    scopes: tuple[Scope, ...] = tuple(sorted(ALL_SCOPES))

    @model_validator(mode="after")
    def _tenant_is_one(self) -> Self:
        try:
            check_tenant(self.tenant)
        except InvalidField as error:
            raise ValueError(str(error)) from None
        return self


class Settings(BaseSettings):
    """Everything a server is told."""

    model_config = SettingsConfigDict(env_prefix="ISOLINE_", env_nested_delimiter="__", extra="forbid", frozen=True)
    topology: Literal["embedded", "postgres", "cockroach"] = "postgres"
    leader_url: str
    leader_region: str = ""
    standby_urls: tuple[str, ...] = ()
    regions: dict[RegionCode, RegionSettings] = Field(min_length=1)
    api_keys: tuple[ApiKey, ...] = ()
    append_lanes: int = Field(default=1, ge=1, le=64)
    reader_connections: int = Field(default=8, ge=1, le=512)
    local_deadline_ms: int = Field(default=250, ge=1)
    leader_deadline_ms: int = Field(default=2_000, ge=1)
    drain_grace_s: float = Field(default=10.0, ge=0)
    reflection: bool = True
    log_format: Literal["json", "console"] = "json"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    otlp_endpoint: str | None = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the library's signature
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return env_settings, init_settings

    @model_validator(mode="after")
    def _open_only_on_loopback(self) -> Self:
        if not self.api_keys:
            for code, region in self.regions.items():
                if not _is_loopback(region.listen):
                    raise ValueError(
                        f"regions.{code}.listen: {region.listen} is not loopback; without api_keys a server listens on loopback only"
                    )
        return self

    @model_validator(mode="after")
    def _failover_is_postgres(self) -> Self:
        if self.topology == "cockroach":
            if self.standby_urls:
                raise ValueError(
                    "standby_urls: CockroachDB moves leaseholders itself; one address, of a load balancer, is enough"
                )
            for code, region in self.regions.items():
                if region.replica_counts:
                    raise ValueError(
                        f"regions.{code}.replica_counts: only PostgreSQL has replicas that count towards a quorum"
                    )
        return self

    @property
    def homes(self) -> tuple[Region, ...]:
        """Every region, in a fixed order."""
        return tuple(check_region(code) for code in sorted(self.regions))

    @property
    def callers(self) -> dict[str, Caller]:
        """Callers by the SHA-256 of their key."""
        return {
            key.sha256: Caller(tenant=check_tenant(key.tenant), scopes=frozenset(key.scopes)) for key in self.api_keys
        }

    @property
    def anonymous(self) -> Caller | None:
        """Who calls without a key: the tenant ``local`` while no key is configured, else nobody."""
        return None if self.api_keys else Caller(tenant=ANONYMOUS_TENANT, scopes=ALL_SCOPES)


def load_settings(path: Path | None, **overrides: Any) -> Settings:
    """Read the file (if any) and the environment. Raises ``ConfigError`` with every setting that is wrong."""
    try:
        stored = {} if path is None else tomllib.loads(path.read_text())
        return Settings(**{**stored, **overrides})
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path or 'configuration'}: {error}") from error


def _is_loopback(listen: str) -> bool:
    host = listen.rpartition(":")[0].strip("[]")
    if host == "localhost" or listen.startswith("unix:"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
