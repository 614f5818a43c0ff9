"""The regions' databases under Patroni: started, killed, watched. See ``failover.Databases``. Who leads is decided by Patroni alone.

A region is an etcd, a Patroni and the PostgreSQL that Patroni starts; they die together. Only over a WAN of namespaces: an etcd has one address
for all others, and behind proxies every region would need another one.
"""

import secrets
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from isoline_drill.errors import DrillError
from isoline_drill.failover import Rejoined, Step, TakenOver, Way
from isoline_drill.patroni import capsule, said
from isoline_drill.patroni.installed import Programs
from isoline_drill.patroni.node import Node
from isoline_drill.patroni.settings import (
    POSTGRES_PORT,
    SERVES,
    TTL_S,
    Cluster,
    Member,
    Secret,
    etcd_options,
    patroni_text,
)
from isoline_drill.processes import Program, environment
from isoline_drill.promotion import Moment
from isoline_drill.region_nodes import ADMITTED, EVERY_NODE
from isoline_drill.wan.base import Wan
from isoline_server.embedded import EmbeddedPostgresError, Endpoint
from isoline_server.embedded.folder import DataFolder, write_private
from isoline_server.embedded.installation import Installation, prepare
from isoline_server.embedded.node import SCRAM_ITERATIONS_SINCE
from isoline_server.embedded.process import attempt
from isoline_server.embedded.psql import MAINTENANCE_DATABASE, QUERY_S, identifier
from isoline_server.embedded.replay import CATCH_UP_S, pause_replay, resume_replay, wait_caught_up
from isoline_server.embedded.settings import SUPERUSER, standby_settings

START_S: Final = 90.0
"""For a region to come up, with a copy of the leader over the WAN."""
TAKE_OVER_S: Final = TTL_S + 60.0
"""From a fault until somebody leads: the lease, an election of etcd, which prolongs the lease, and time for a loaded machine."""
FOLLOW_S: Final = 30.0
REJOIN_S: Final = 120.0

T = TypeVar("T")

_POLL_S: Final = 0.05
_ASK_EVERY_S: Final = 0.25
"""Between questions that take a program each."""


class PatroniDatabases:
    """One Patroni a region. Synchronous, for one thread at a time: the one that entered, for the programs' lives are tied to it.

    ``folder`` must be new; it is kept, with the logs in it. ``durable=False`` gives up surviving a power cut for speed.
    """

    way: Way = "patroni"
    ttl_s: int | None = TTL_S

    def __init__(
        self,
        wan: Wan,
        folder: Path,
        programs: Programs,
        *,
        durable: bool = True,
        database: str = "isoline",
        on_progress: Callable[[str], None],
    ) -> None:
        self._wan = wan
        self._path = folder
        self._programs = programs
        self._durable = durable
        self._database = database
        self._report = on_progress
        self._leader = wan.regions[0]
        self._stack = ExitStack()
        self._nodes: dict[str, Node] = {}
        self._installed: Installation | None = None

    def __enter__(self) -> Self:
        """Make and start everything. On return both standbys stream and may be elected. On failure nothing is left running."""
        with ExitStack() as stack:
            self._prepare(stack)
            self._start_etcd()
            self._start_leader()
            self._start_standbys()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # --- for programs in the regions ---

    @property
    def leader(self) -> str:
        return self._leader

    def url(self, viewer: str, owner: str) -> str:
        host, port = self._wan.address(viewer, owner, POSTGRES_PORT)
        return Endpoint(
            name=owner,
            host=host,
            port=port,
            user=SUPERUSER,
            database=self._database,
            password=self._installation.password,
        ).url()

    def wait_caught_up(self, region: str) -> None:
        leader, standby = partial(self._ask, self._leader), partial(self._ask, region)
        wait_caught_up(region, primary=leader, standby=standby, timeout_s=CATCH_UP_S)

    # --- faults ---

    def kill(self, region: str) -> None:
        self._nodes[region].kill()
        self._report(f"{region}: Patroni, PostgreSQL and etcd killed")

    def pause_replay(self, region: str) -> None:
        pause_replay(region, partial(self._ask, region))

    def resume_replay(self, region: str) -> None:
        resume_replay(partial(self._ask, region))

    # --- what Patroni does ---

    def fail_over(self, detection_s: float) -> TakenOver:  # noqa: ARG002 (nobody waits so long here: the lease is the detection)
        """Watch the others until one of them leads and another one follows it. Raises ``DrillError`` when none does in time."""
        old = self._leader
        others = [region for region in self._wan.regions if region != old and self._nodes[region].running]
        new = self._await(
            "no region leads",
            lambda: next((each for each in others if self._at(each, said.PROMOTED)), None),
            TAKE_OVER_S,
        )
        promoted = self._at(new, said.PROMOTED)
        acting = self._at(new, said.LOCKED) or promoted
        assert promoted is not None
        assert acting is not None
        self._leader = new
        following = self._await(f"nobody follows {new}", lambda: self._at(new, said.COUNTS), FOLLOW_S)
        return TakenOver(
            old=old,
            new=new,
            detection_s=TTL_S,
            acting=acting,
            promoted=promoted,
            follower_streaming=following,
            steps=[
                Step(at=acting, what=f"{new} has Patroni's lease"),
                Step(at=promoted, what=f"{new} promoted"),
                Step(at=following, what=f"a standby follows {new}"),
            ],
        )

    def rejoin(self, region: str) -> Rejoined:
        """Start the region's programs, if they were killed, and let Patroni bring it back. On return it streams, and commits may count on it."""
        node = self._nodes[region]
        if not node.running:
            node.etcd.launch()
            node.etcd.wait_ready(START_S)
            node.start_patroni()
        self._await_counted([region], REJOIN_S)
        back = Rejoined(region=region, way=said.way_back(node.said()))
        self._report(f"{region}: back ({back.way})")
        return back

    # --- how it is put together ---

    def _prepare(self, stack: ExitStack) -> None:
        if self._wan.kind != "namespaces":
            raise DrillError("--failover patroni needs --wan namespaces: an etcd has one address for all regions")
        folder = DataFolder.open(self._path)
        stack.callback(folder.close)
        self._installed = shared = prepare(folder, owner_of=self._leader, database=self._database, durable=False)
        if not attempt(shared.identity, [*self._programs.patroni, "--version"]):
            raise DrillError(
                f"PostgreSQL's user (uid {shared.identity.uid}) cannot run {self._programs.patroni[0]}; install it where all may read"
            )
        members = [self._member(region) for region in self._wan.regions]
        cluster = self._cluster(members)
        for member in members:
            if member.folder.exists():
                raise EmbeddedPostgresError(f"{self._path} holds databases already; use a new folder")
            member.folder.mkdir(mode=0o700)
            shared.identity.give(member.folder)
            write_private(member.config, patroni_text(member, cluster), shared.identity)
            node = self._node(member, members)
            self._nodes[member.name] = node
            stack.callback(node.kill)

    def _member(self, region: str) -> Member:
        return Member(name=region, host=self._wan.host(region), folder=self._installation.folder.node(region))

    def _cluster(self, members: list[Member]) -> Cluster:
        shared = self._installation
        cheap = {"scram_iterations": "1"} if shared.binaries.major >= SCRAM_ITERATIONS_SINCE else {}
        return Cluster(
            members=members,
            bin_dir=shared.binaries.bin_dir,
            superuser=Secret(user=SUPERUSER, password=shared.password),
            replication=Secret(user=f"{SUPERUSER}_replication", password=secrets.token_urlsafe(32)),
            rewind=Secret(user=f"{SUPERUSER}_rewind", password=secrets.token_urlsafe(32)),
            admits=ADMITTED,
            parameters={
                **standby_settings(
                    name="",  # and whom it follows: Patroni's to say
                    upstream=None,
                    passfile=shared.folder.passfile,
                    durable=self._durable,
                    extra=EVERY_NODE,
                ),
                **cheap,  # passwords are random: stretching them would cost every connection
            },
        )

    def _node(self, member: Member, members: list[Member]) -> Node:
        shared = self._installation
        shut_in = partial(capsule.command, shared.identity, member.folder)
        made = partial(Program, namespace=self._wan.namespace(member.name), environment=_environment())
        return Node(
            etcd=made(
                f"etcd-{member.name}",
                [*self._programs.etcd, *etcd_options(member, members)],
                log=shared.folder.log(f"etcd-{member.name}"),
                ready=SERVES,
            ),
            patroni=made(
                f"patroni-{member.name}",
                shut_in([*self._programs.patroni, str(member.config)]),
                log=shared.folder.log(member.name),
            ),
        )

    def _start_etcd(self) -> None:
        for node in self._nodes.values():
            node.etcd.launch()
        for node in self._nodes.values():
            node.etcd.wait_ready(START_S)
        self._report(f"etcd serves in {', '.join(self._nodes)}")

    def _start_leader(self) -> None:
        self._nodes[self._leader].start_patroni()
        self._await(f"{self._leader} does not lead", lambda: self._at(self._leader, said.LEADS), START_S)
        self._ask(self._leader, f"create database {identifier(self._database)}")
        self._report(f"{self._leader}: leads by Patroni")

    def _start_standbys(self) -> None:
        standbys = [region for region in self._wan.regions if region != self._leader]
        for region in standbys:
            self._nodes[region].start_patroni()
        self._await_counted(standbys, START_S)
        self._await("no standby may be elected", lambda: self._at(self._leader, said.QUORUM_OF_TWO), START_S)
        self._report(f"{', '.join(standbys)}: hot standbys by Patroni")

    def _await_counted(self, regions: Collection[str], within_s: float) -> None:
        """Until commits may count on all of these: they stream, and the leader names them."""
        streaming = (
            "select application_name from pg_stat_replication where state = 'streaming' and sync_state <> 'async'"
        )

        def counted() -> bool:
            return set(regions) <= set(self._ask(self._leader, streaming).splitlines())

        self._await(f"{', '.join(regions)} do not follow {self._leader}", counted, within_s, every_s=_ASK_EVERY_S)

    def _await(
        self, otherwise: str, condition: Callable[[], T | None], within_s: float, *, every_s: float = _POLL_S
    ) -> T:
        deadline = time.monotonic() + within_s
        while not (answer := condition()):
            self._check_alive()
            if time.monotonic() > deadline:
                tails = "\n".join(f"{name}:\n{node.log_tail()}" for name, node in self._nodes.items())
                raise DrillError(f"{otherwise} after {within_s:.0f} s\n{tails}")
            time.sleep(every_s)
        return answer

    def _check_alive(self) -> None:
        for region, node in self._nodes.items():
            if node.lost:
                raise DrillError(f"{region}: Patroni has ended:\n{node.log_tail()}")

    def _at(self, region: str, words: said.Words) -> Moment | None:
        """When a region's log said so first since its programs were started."""
        unix_s = said.first_said(self._nodes[region].said(), words)
        return None if unix_s is None else Moment.at_unix(unix_s)

    def _ask(self, region: str, sql: str) -> str:
        shared = self._installation
        endpoint = Endpoint(
            name=region,
            host=self._wan.host(region),
            network=self._wan.namespace(region),
            port=POSTGRES_PORT,
            user=SUPERUSER,
            database=MAINTENANCE_DATABASE,
        )
        return shared.psql.run(endpoint, sql, database=MAINTENANCE_DATABASE, timeout_s=QUERY_S, wait_for_standbys=False)

    @property
    def _installation(self) -> Installation:
        if self._installed is None:
            raise EmbeddedPostgresError("the databases have not been started")
        return self._installed


def _environment() -> dict[str, str]:
    """Ours, without the variables by which somebody points etcd or Patroni elsewhere; with moments in UTC."""
    kept = environment(TZ="UTC", LC_ALL="C.UTF-8", PYTHONUNBUFFERED="1")
    return {name: value for name, value in kept.items() if not name.upper().startswith(("ETCD", "PATRONI"))}
