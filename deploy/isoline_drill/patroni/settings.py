"""What etcd and Patroni are told, every setting with its reason. Values in, text and command lines out: no files, no processes, no clock."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

SCOPE: Final = "isoline"
TTL_S: Final = 20
"""How long the leader's lease lasts. Patroni allows no less."""
LOOP_WAIT_S: Final = 1
"""Patroni's pace: the lease is renewed and the standbys' names are looked after so often."""
RETRY_S: Final = 3
"""How long etcd or PostgreSQL may fail before a leader steps down. ``LOOP_WAIT_S + 2 * RETRY_S`` must not be above the ttl."""
HEARTBEAT_MS: Final = 150
"""Of etcd: a little more than the longest round trip (120 ms)."""
ELECTION_MS: Final = 1500
"""Of etcd: ten heartbeats, so that one late packet elects nobody."""

POSTGRES_PORT: Final = 5432
REST_PORT: Final = 8008
ETCD_PORT: Final = 2379
ETCD_PEER_PORT: Final = 2380
"""Every region has a network of its own, so all use the same ports."""

SERVES: Final = "ready to serve client requests"
"""What etcd writes to its log once it is one of a quorum."""

_PATRONI_DECIDES: Final = frozenset(
    {"cluster_name", "hot_standby", "primary_conninfo", "primary_slot_name", "synchronous_standby_names"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A role and its password, which is kept out of ``repr``."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One region: its name is the node's name, its host where all three programs listen, its folder theirs alone."""

    name: str
    host: str
    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def config(self) -> Path:
        return self.folder / "patroni.yml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What all regions share. ``parameters`` are PostgreSQL's, as the nodes of an operator have them; ``admits`` networks in CIDR form."""

    members: Sequence[Member]
    bin_dir: Path
    superuser: Secret
    replication: Secret
    rewind: Secret
    admits: Sequence[str]
    parameters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def etcd_options(member: Member, members: Sequence[Member]) -> list[str]:
    """The command line of one region's etcd."""
    peer, client = _peer(member), f"http://{member.host}:{ETCD_PORT}"
    return [
        f"--name={member.name}",
        f"--data-dir={member.folder / 'etcd'}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--initial-cluster={','.join(f'{other.name}={_peer(other)}' for other in members)}",
        "--initial-cluster-state=new",
        f"--initial-cluster-token={SCOPE}",
        f"--heartbeat-interval={HEARTBEAT_MS}",
        f"--election-timeout={ELECTION_MS}",
        "--logger=zap",
    ]


def patroni_text(member: Member, cluster: Cluster) -> str:
    """The configuration of one region's Patroni. JSON, which is YAML as well."""
    own_first = sorted(cluster.members, key=lambda each: each.name != member.name)
    document = {
        "scope": SCOPE,
        "name": member.name,
        "log": {"level": "INFO"},
        "restapi": _listening(member, REST_PORT),
        "etcd3": {"hosts": [f"{each.host}:{ETCD_PORT}" for each in own_first]},
        "bootstrap": {
            "dcs": _shared(cluster),
            "initdb": [{"encoding": "UTF8"}, {"auth": "scram-sha-256"}, "no-locale", "data-checksums"],
        },
        "postgresql": {
            **_listening(member, POSTGRES_PORT),
            "bin_dir": str(cluster.bin_dir),
            "data_dir": str(member.data),
            "pgpass": str(member.folder / "pgpass"),
            "authentication": {
                "superuser": _login(cluster.superuser),
                "replication": _login(cluster.replication),
                "rewind": _login(cluster.rewind),
            },
            "pg_hba": [
                f"host {database} all {network} scram-sha-256"
                for network in cluster.admits
                for database in ("all", "replication")
            ],
            "basebackup": [{"checkpoint": "fast"}],
            # What cannot be rewound is copied: nothing is lost by that, for the leader has all that was acknowledged.
            "remove_data_directory_on_rewind_failure": True,
            "remove_data_directory_on_diverged_timelines": True,
        },
        "watchdog": {"mode": "off"},
    }
    return json.dumps(document, indent=2) + "\n"


def _shared(cluster: Cluster) -> dict[str, Any]:
    """What Patroni keeps in etcd, the same for all."""
    return {
        "ttl": TTL_S,
        "loop_wait": LOOP_WAIT_S,
        "retry_timeout": RETRY_S,
        "primary_start_timeout": 0,  # a leader that crashed is not waited for
        "synchronous_mode": "quorum",
        # Without it a leader that has no standby left acknowledges alone, and Isoline takes that for its quorum's word.
        "synchronous_mode_strict": True,
        "synchronous_node_count": 1,
        "postgresql": {
            "use_pg_rewind": True,
            "use_slots": True,
            "parameters": {
                **{name: value for name, value in cluster.parameters.items() if name not in _PATRONI_DECIDES},
                # Moments are read from the log.
                "log_line_prefix": "%m [%p] ",
                "lc_messages": "C",
                "log_timezone": "UTC",
            },
        },
    }


def _listening(member: Member, port: int) -> dict[str, str]:
    address = f"{member.host}:{port}"
    return {"listen": address, "connect_address": address}


def _login(secret: Secret) -> dict[str, str]:
    return {"username": secret.user, "password": secret.password}


def _peer(member: Member) -> str:
    return f"http://{member.host}:{ETCD_PEER_PORT}"
