"""Where the servers are: options, then ISOLINE_SERVERS, then the file of a local cluster, then the default address. No connecting here.

A local cluster that was started on this machine leaves ``cluster.json`` in its data folder::

    {"regions": {"eu": {"address": "127.0.0.1:7101", "pid": 123}, ...}, ...}
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

DEFAULT_ADDRESS: Final = "127.0.0.1:7100"
CLUSTER_FILE: Final = "cluster.json"
SERVERS_VARIABLE: Final = "ISOLINE_SERVERS"
REGION_VARIABLE: Final = "ISOLINE_REGION"
DATA_DIR_VARIABLE: Final = "ISOLINE_DATA_DIR"

_REGION: Final = re.compile(r"[a-z][a-z0-9]{0,14}")
_ADDRESS: Final = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")


class ServersError(ValueError):
    """What was given as servers cannot be used; the message says what and why."""


@dataclass(frozen=True, slots=True)
class Server:
    """One server. ``region`` is empty when nobody said which it is of."""

    address: str
    region: str = ""

    @property
    def label(self) -> str:
        return self.region or self.address


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers in order of preference, and where the list comes from. ``is_local``: from this machine's own cluster or the default."""

    listed: tuple[Server, ...]
    origin: str
    is_local: bool = False

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(server.address for server in self.listed)

    def preferring(self, region: str) -> "Servers":
        """The same servers with those of ``region`` first. Raise when every server's region is known and none is that one."""
        known = [server.region for server in self.listed]
        if region and region not in known and all(known):
            raise ServersError(f"no server of region {region}; {self.origin} names {', '.join(dict.fromkeys(known))}")
        return replace(self, listed=tuple(sorted(self.listed, key=lambda server: server.region != region)))


def resolve(given: Sequence[str] = (), environ: Mapping[str, str] = os.environ, region: str = "") -> Servers:
    """The servers to use. ``given`` are the texts of ``--server``; ``region`` (else ISOLINE_REGION) is preferred. Raise ``ServersError``."""
    return _listed(given, environ).preferring(region or environ.get(REGION_VARIABLE, ""))


def parse_server(text: str) -> Server:
    """Take ``REGION=HOST:PORT`` or ``HOST:PORT`` apart. Raise ``ServersError``."""
    region, mark, address = text.strip().rpartition("=")
    if mark and not _REGION.fullmatch(region):
        raise ServersError(f"{text!r}: {region!r} is no region code (a lower-case letter, then letters or digits)")
    if "://" in address:
        raise ServersError(f"{text!r}: give HOST:PORT without a scheme")
    found = _ADDRESS.fullmatch(address)
    if not address.startswith("unix:") and (found is None or not 0 < int(found["port"]) < 65_536):
        raise ServersError(f"{text!r}: must be HOST:PORT or REGION=HOST:PORT")
    return Server(address, region)


def cluster_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where a local cluster writes where it is."""
    folder = environ.get(DATA_DIR_VARIABLE)
    return (Path(folder) if folder else Path.home() / ".local" / "share" / "isoline") / CLUSTER_FILE


def read_cluster(path: Path) -> tuple[Server, ...] | None:
    """The servers of a local cluster; None when the file does not exist. Raise ``ServersError`` when it is damaged."""
    try:
        regions: Mapping[str, Any] = json.loads(path.read_text())["regions"]
        found = tuple(parse_server(f"{region}={each['address']}") for region, each in regions.items())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ServersError(f"{path} cannot be used ({error}); remove it or give --server") from error
    return found or None


def _listed(given: Sequence[str], environ: Mapping[str, str]) -> Servers:
    if given:
        return Servers(_parse_all(given, "--server"), "--server")
    texts = [text for text in environ.get(SERVERS_VARIABLE, "").split(",") if text.strip()]
    if texts:
        return Servers(_parse_all(texts, SERVERS_VARIABLE), SERVERS_VARIABLE)
    path = cluster_file(environ)
    local = read_cluster(path)
    if local:
        return Servers(local, str(path), is_local=True)
    nothing = f"the default, for there is no --server, no {SERVERS_VARIABLE} and no {path}"
    return Servers((Server(DEFAULT_ADDRESS),), nothing, is_local=True)


def _parse_all(texts: Sequence[str], origin: str) -> tuple[Server, ...]:
    try:
        return tuple(parse_server(text) for text in texts)
    except ServersError as error:
        raise ServersError(f"{origin}: {error}") from None
