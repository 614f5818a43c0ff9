"""Which regions there are and where each listens; and the configuration file that says so to the servers. Pure but for that file.

What a folder held before is kept: its regions, because runs live in them, and its ports where they are still free.
"""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from isoline_server.domain.ids import Region, check_region
from isoline_server.embedded import EmbeddedCluster
from isoline_server.embedded.ports import LOOPBACK, choose_port
from isoline_server.local_cluster.errors import ClusterError
from isoline_server.local_cluster.files import replace_file

REGIONS_DEFAULT: Final = (Region("eu"), Region("us"), Region("ap"))
CONFIG_NAME: Final = "isoline.toml"

_DECIDED_HERE: Final = ("ISOLINE_TOPOLOGY", "ISOLINE_LEADER_", "ISOLINE_REGIONS")
_HEADER: Final = "# Written by `isoline up` at every start: what is changed here is lost.\n"


def stored_config(data_dir: Path) -> dict[str, Any]:
    """The configuration of the last run; empty when there was none."""
    try:
        return tomllib.loads((data_dir / CONFIG_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise ClusterError(f"{data_dir / CONFIG_NAME}: {error}; remove it to have it written anew") from error


def choose_regions(asked: str | None, stored: Mapping[str, Any]) -> tuple[Region, ...]:
    """The regions, the leading one first: those asked for, else those of last time, else the default ones."""
    before = list(stored.get("regions", {}))
    if asked is None:
        return tuple(check_region(name) for name in before) or REGIONS_DEFAULT
    regions = tuple(check_region(name.strip(), "--regions") for name in asked.split(","))
    if len(set(regions)) != len(regions):
        raise ClusterError(f"--regions: {asked} names a region twice")
    if missing := [name for name in before if name not in regions]:
        raise ClusterError(
            f"--regions: this data folder also has {', '.join(missing)}, where runs may live; regions can be added, not taken away"
        )
    return regions


def choose_addresses(regions: Sequence[Region], stored: Mapping[str, Any]) -> dict[Region, str]:
    """An address for each region: last time's when its port is free."""
    taken: dict[Region, str] = {}
    for region in regions:
        last = stored.get("regions", {}).get(region, {}).get("listen", "")
        address = f"{LOOPBACK}:{choose_port(_port_of(last))}"
        while address in taken.values():
            address = f"{LOOPBACK}:{choose_port()}"
        taken[region] = address
    return taken


def _port_of(address: str) -> int | None:
    port = address.rpartition(":")[2]
    return int(port) if port.isdecimal() else None


def write_config(data_dir: Path, database: EmbeddedCluster, addresses: Mapping[Region, str]) -> Path:
    """Write what the servers are started with. The first region's own database is the one that leads."""
    leader, *_ = addresses
    lines = [
        _HEADER,
        _line("topology", "embedded"),
        _line("leader_url", database.primary.url()),
        _line("leader_region", leader),
    ]
    for region, address in addresses.items():
        own = database.primary if region == leader else database.standby(region)
        lines += [f"\n[regions.{region}]\n", _line("listen", address), _line("local_url", own.url())]
    path = data_dir / CONFIG_NAME
    replace_file(path, "".join(lines))
    return path


def _line(name: str, value: str) -> str:
    return f"{name} = {json.dumps(value)}\n"  # for text without control characters, JSON's spelling is TOML's


def server_environment() -> dict[str, str]:
    """Ours, without the variables that would overrule the file: a developer's shell may point them at another database."""
    return {name: value for name, value in os.environ.items() if not name.upper().startswith(_DECIDED_HERE)}
