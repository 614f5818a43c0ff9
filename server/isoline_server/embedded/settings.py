"""What the servers are told: every setting with its reason, and how a settings file is written. No files are touched here.

``default_transaction_isolation`` is not among them and may not be: a hot standby refuses every statement at SERIALIZABLE. Writers ask for
it on their own connections.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from isoline_server.embedded.placement import Address
from isoline_server.embedded.psql import conninfo_value, identifier

SUPERUSER: Final = "isoline"
CONF_NAME: Final = "isoline.conf"
STANDBYS_MAX: Final = 8
"""Two senders each while they copy; more would need more ``max_wal_senders``, and no laptop plays nine regions."""

_EVERY_NODE: Final[Mapping[str, str]] = {
    "unix_socket_directories": "",  # the path of a socket may be too long below a deep data folder
    "logging_collector": "off",  # the supervisor holds the log file
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Files in the data folder: they go with it after a kill, and the 64 MB of /dev/shm in a container do not limit them.
    "dynamic_shared_memory_type": "mmap",
    "max_connections": "100",
    "jit": "off",  # our statements are short; compiling them would cost more than it gains
    "wal_level": "replica",
    "hot_standby": "on",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    # A standby that stays away loses its slot here and is copied anew; without a bound it would fill the disk.
    "max_slot_wal_keep_size": "1GB",
    # A drill shows a dead peer within seconds, not within PostgreSQL's minute.
    "wal_sender_timeout": "5s",
    "wal_receiver_timeout": "5s",
    "wal_receiver_status_interval": "1s",
    "wal_retrieve_retry_interval": "200ms",
}
_PRIMARY_BUFFERS: Final = "128MB"
_STANDBY_BUFFERS: Final = "32MB"
_NOT_DURABLE: Final[Mapping[str, str]] = {"fsync": "off", "full_page_writes": "off"}

_OURS: Final = frozenset(
    {
        "archive_mode", "cluster_name", "config_file", "data_directory", "external_pid_file", "hba_file", "hot_standby", "ident_file",
        "listen_addresses", "logging_collector", "port", "primary_conninfo", "primary_slot_name",
        "synchronous_standby_names", "unix_socket_directories", "wal_level",
    }
)  # fmt: skip


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise ``ValueError`` for a setting that would break the cluster."""
    for name, value in settings.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name):
            raise ValueError(f"settings: {name!r} is not the name of a setting")
        if name.lower() in _OURS:
            raise ValueError(f"settings: {name} is decided by the supervisor")
        if name.lower() == "default_transaction_isolation":
            raise ValueError(
                "settings: default_transaction_isolation must be set per connection: hot standbys refuse serializable"
            )
        if "\n" in value or "\0" in value:
            raise ValueError(f"settings: the value of {name} has a line break")


def primary_settings(*, standbys: Sequence[str], durable: bool, extra: Mapping[str, str]) -> dict[str, str]:
    """For the primary. A commit is acknowledged when one standby, whichever, has it on disk too."""
    own = {
        "cluster_name": "primary",
        "shared_buffers": _PRIMARY_BUFFERS,
        "synchronous_standby_names": quorum_of(standbys),
    }
    return {**_EVERY_NODE, **own, **({} if durable else _NOT_DURABLE), **extra}


def standby_settings(
    *, name: str, upstream: Address | None, passfile: Path, durable: bool, extra: Mapping[str, str]
) -> dict[str, str]:
    """For a standby of ``upstream``, or of nobody. Limits on connections must not be below the primary's, so both get the same."""
    source = "" if upstream is None else replication_conninfo(upstream, passfile=passfile, name=name)
    own = {
        "cluster_name": name,
        "shared_buffers": _STANDBY_BUFFERS,
        "primary_conninfo": source,
        "primary_slot_name": slot_name(name),
    }
    return {**_EVERY_NODE, **own, **({} if durable else _NOT_DURABLE), **extra}


def quorum_of(standbys: Sequence[str]) -> str:
    """Who is waited for at a commit: one of the standbys, whichever; nobody without standbys."""
    return f"ANY 1 ({', '.join(identifier(name) for name in standbys)})" if standbys else ""


def replication_conninfo(upstream: Address, *, passfile: Path, name: str) -> str:
    """How a standby reaches the primary, to copy it and to follow it; ``name`` is what the primary knows it by."""
    host, port = upstream
    who = f"user={SUPERUSER} passfile={conninfo_value(str(passfile))} application_name={conninfo_value(name)}"
    return f"host={host} port={port} sslmode=disable gssencmode=disable connect_timeout=5 {who}"


def slot_name(standby: str) -> str:
    """The replication slot of a standby; PostgreSQL allows no hyphens in it."""
    return f"isoline_{standby.replace('-', '_')}"


def check_standby_names(standbys: Sequence[str]) -> None:
    """Raise ``ValueError`` for names that cannot be folders, slots and application names at once."""
    for name in standbys:
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", name) or name == "primary":
            raise ValueError(
                f"standbys: {name!r} must be lower-case letters, digits, '-' or '_', start with a letter, not be 'primary'"
            )
    if len({slot_name(name) for name in standbys}) != len(standbys):
        raise ValueError(f"standbys: the names must differ in more than '-' and '_': {', '.join(standbys)}")
    if len(standbys) > STANDBYS_MAX:
        raise ValueError(f"standbys: at most {STANDBYS_MAX}")


def render(settings: Mapping[str, str]) -> str:
    """The text of a settings file."""
    return "".join(f"{name} = '{_escaped(value)}'\n" for name, value in settings.items())


def port_in(text: str) -> int | None:
    """The port that a file written by ``render`` names."""
    found = re.search(r"^port = '(\d+)'$", text, re.MULTILINE)
    return int(found[1]) if found else None


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")
