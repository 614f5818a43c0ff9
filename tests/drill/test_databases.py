"""PostgreSQL in three regions, and an operator's verbs on it: every test is about real servers, and most of them kill one."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from drill.loopback import REGIONS, Loopback
from embedded.servers import servers_below
from isoline_drill.databases import RegionDatabases
from isoline_drill.promotion import PromotionRefused
from isoline_drill.wan import Wan, enter, namespaces_work, open_wan
from isoline_server.embedded import EmbeddedPostgresError
from support.waiting import wait_until

pytestmark = pytest.mark.postgres

WAIT_S = 0.05
"""No server of Isoline reads from these databases, so nobody has to be waited for."""


@pytest.fixture(scope="module")
def shared() -> Iterator[RegionDatabases]:
    with RegionDatabases(Loopback(), durable=False) as running:
        running.execute(running.leader, "create table kept (n int)")
        yield running


@pytest.fixture
def databases(shared: RegionDatabases) -> RegionDatabases:
    """All three at work, whoever leads by now, and the table empty."""
    if not shared.is_running(shared.leader):
        shared.restart(shared.leader)
    for region in standbys(shared):
        shared.rejoin(region)
    shared.execute(shared.leader, "truncate kept")
    for region in standbys(shared):
        shared.wait_caught_up(region)
    return shared


class OneRegion(Loopback):
    regions = ("eu",)


def standbys(databases: RegionDatabases) -> list[str]:
    return [region for region in databases.regions if region != databases.leader]


def add(databases: RegionDatabases, *rows: int, region: str | None = None, timeout_s: float = 20.0) -> None:
    values = ", ".join(f"({row})" for row in rows)
    databases.execute(region or databases.leader, f"insert into kept values {values}", timeout_s=timeout_s)


def rows(databases: RegionDatabases, region: str) -> set[int]:
    return {int(row) for row in databases.execute(region, "select n from kept").split()}


def waits_for_standbys(databases: RegionDatabases, region: str) -> bool:
    stuck = "select count(*) from pg_stat_activity where wait_event = 'SyncRep' and query like 'insert%'"
    return databases.execute(region, stuck) != "0"


class Load:
    """Inserts 1, 2, 3 … over one connection until that breaks; remembers what was acknowledged, and when last."""

    def __init__(self, url: str) -> None:
        self.acknowledged: set[int] = set()
        self.last_s = 0.0
        self._url = url
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        wait_until(lambda: len(self.acknowledged) > 50)

    def _run(self) -> None:
        row = 0
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                while True:
                    row += 1
                    if connection.execute("insert into kept values (%s)", [row]).statusmessage != "INSERT 0 1":
                        return
                    self.acknowledged.add(row)
                    self.last_s = time.monotonic()
        except psycopg.OperationalError:
            return

    def ended(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive()


# --- at work ---


def test_a_row_of_the_leader_appears_in_every_region(databases: RegionDatabases) -> None:
    add(databases, 1)
    for region in standbys(databases):
        databases.wait_caught_up(region)
        assert rows(databases, region) == {1}
        assert databases.execute(region, "select pg_is_in_recovery()") == "t"


def test_every_node_waits_for_one_of_the_two_others(databases: RegionDatabases) -> None:
    for region in databases.regions:
        first, second = (other for other in databases.regions if other != region)
        assert databases.execute(region, "show synchronous_standby_names") == f'ANY 1 ("{first}", "{second}")'
        assert databases.execute(region, "show data_checksums") == "on"


def test_a_node_is_durable_unless_told_otherwise(tmp_path: Path) -> None:
    with RegionDatabases(OneRegion(), tmp_path / "data") as alone:
        assert alone.execute("eu", "show fsync") == "on"
        assert alone.execute("eu", "show full_page_writes") == "on"
    with pytest.raises(EmbeddedPostgresError, match="use a new folder"):
        RegionDatabases(OneRegion(), tmp_path / "data").start()
    assert servers_below(tmp_path) == []


def test_programs_reach_all_nodes_their_own_first(databases: RegionDatabases) -> None:
    urls = databases.urls("us", "postgresql")
    assert urls[0] == databases.url("us", "us", "postgresql")
    assert len(set(urls)) == 3
    for url in urls:
        with psycopg.connect(url) as connection:
            assert connection.execute("select count(*) from kept").fetchone() == (0,)
    assert databases.url("us", "eu").startswith("postgresql+psycopg://isoline:")


def test_nobody_gets_in_without_the_password(databases: RegionDatabases) -> None:
    url = databases.url("eu", "us", "postgresql")
    secret = url.partition(":")[2].partition(":")[2].partition("@")[0]
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(url.replace(secret, "guess"))


def test_killed_nodes_start_again_in_the_part_they_had(databases: RegionDatabases) -> None:
    leader, (standby, _) = databases.leader, standbys(databases)
    add(databases, 1)
    databases.wait_caught_up(standby)
    databases.kill(leader)
    databases.kill(standby)
    assert not databases.is_running(leader)
    databases.restart(standby)  # its leader is down
    assert rows(databases, standby) == {1}
    databases.restart(leader)
    add(databases, 2)
    databases.wait_caught_up(standby)
    assert rows(databases, standby) == {1, 2}
    assert databases.rejoin(standby).way == "streams already"


def test_a_paused_standby_answers_with_the_past(databases: RegionDatabases) -> None:
    late, other = standbys(databases)
    databases.pause_replay(late)
    add(databases, 1)
    databases.wait_caught_up(other)
    assert (rows(databases, late), rows(databases, other)) == (set(), {1})
    databases.resume_replay(late)
    databases.wait_caught_up(late)
    assert rows(databases, late) == {1}


# --- promotion ---


@pytest.mark.parametrize("last_standby", [0, 1])
def test_the_standby_that_received_most_is_promoted_and_nothing_acknowledged_is_lost(
    databases: RegionDatabases, last_standby: int
) -> None:
    old = databases.leader
    behind, ahead = standbys(databases)[last_standby], standbys(databases)[1 - last_standby]
    databases.detach(behind)
    load = Load(databases.url(old, old, "postgresql"))
    databases.kill(old)
    load.ended()
    with pytest.raises(PromotionRefused, match=rf"{behind} has received WAL up to 0/\w+ and {ahead} up to 0/\w+"):
        databases.promote(behind, wait_s=WAIT_S)
    assert databases.leader == old
    done = databases.promote(wait_s=WAIT_S)
    assert (done.old, done.new, done.forced, databases.leader) == (old, ahead, False, ahead)
    assert load.acknowledged <= rows(databases, ahead)
    assert done.follower_streaming is not None
    add(databases, -1)
    databases.wait_caught_up(behind)
    assert rows(databases, behind) == rows(databases, ahead)


def test_a_standby_that_was_restarted_without_a_leader_counts_with_all_it_has(databases: RegionDatabases) -> None:
    """It comes up with most of what it received still to be replayed, and then has replayed less than the other one has received."""
    old, (ahead, behind) = databases.leader, standbys(databases)
    databases.pause_replay(ahead)
    databases.execute(old, "insert into kept select generate_series(1, 500000)")
    databases.wait_caught_up(behind)
    databases.detach(behind)
    add(databases, -1)
    databases.kill(old)
    databases.kill(ahead)
    databases.restart(ahead)
    assert databases.promote(wait_s=WAIT_S).new == ahead
    assert databases.execute(ahead, "select count(*), min(n) from kept") == "500001|-1"


def test_a_paused_replay_ends_with_a_promotion(databases: RegionDatabases) -> None:
    for region in standbys(databases):
        databases.pause_replay(region)
    add(databases, 1, 2, 3)
    databases.kill(databases.leader)
    done = databases.promote(wait_s=WAIT_S)
    assert rows(databases, done.new) == {1, 2, 3}
    assert done.follower_streaming is not None


def test_with_a_standby_out_of_reach_a_promotion_takes_force(databases: RegionDatabases) -> None:
    old, (lost, left) = databases.leader, standbys(databases)
    databases.kill(old)
    databases.kill(lost)
    with pytest.raises(PromotionRefused, match=rf"only 1 can be; out of reach: {lost}\..*force=True"):
        databases.promote(wait_s=WAIT_S)
    assert (databases.leader, databases.execute(left, "select pg_is_in_recovery()")) == (old, "t")
    done = databases.promote(wait_s=WAIT_S, force=True)
    assert (done.new, done.forced, done.follower_streaming) == (left, True, None)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(add, databases, 1)
        wait_until(lambda: waits_for_standbys(databases, left))
        with pytest.raises(EmbeddedPostgresError, match=f"{lost} took no part in the last promotion"):
            databases.restart(lost)
        databases.rejoin(lost)
        waiting.result(20)
    databases.wait_caught_up(lost)
    assert rows(databases, lost) == {1}


def test_a_region_that_never_followed_the_leader_need_not_be_reached(databases: RegionDatabases) -> None:
    databases.kill(databases.leader)
    first = databases.promote(wait_s=WAIT_S)
    add(databases, 1)
    databases.kill(first.new)
    second = databases.promote(wait_s=WAIT_S)  # the first leader of the three has not come back
    assert {first.old, first.new, second.new} == set(REGIONS)
    assert rows(databases, second.new) == {1}


def test_a_leader_and_a_region_that_must_rejoin_are_not_promoted(databases: RegionDatabases) -> None:
    old = databases.leader
    with pytest.raises(PromotionRefused, match="leads already"):
        databases.promote(old, wait_s=WAIT_S)
    databases.promote(wait_s=WAIT_S)
    with pytest.raises(EmbeddedPostgresError, match="must rejoin first"):
        databases.promote(old, wait_s=WAIT_S)
    with pytest.raises(EmbeddedPostgresError, match="no region is called 'mars'"):
        databases.promote("mars", wait_s=WAIT_S)


def test_a_new_leader_that_is_named_leads_and_waits_as_long_as_told(databases: RegionDatabases) -> None:
    wanted = standbys(databases)[1]
    done = databases.promote(wanted, wait_s=0.8)
    assert done.new == databases.leader == wanted
    assert done.promoted.monotonic_s - done.detached.monotonic_s >= 0.8
    assert done.promoted.unix_s - done.detached.unix_s == pytest.approx(
        done.promoted.monotonic_s - done.detached.monotonic_s, abs=0.1
    )
    assert databases.execute(wanted, "select pg_is_in_recovery()") == "f"


# --- an old leader that still runs ---


def test_a_leader_without_standbys_acknowledges_nothing(databases: RegionDatabases) -> None:
    old = databases.leader
    with ThreadPoolExecutor(1) as pool:
        for region in standbys(databases):
            databases.detach(region)
        waiting: Future[None] = pool.submit(add, databases, 1, region=old)
        wait_until(lambda: waits_for_standbys(databases, old))
        new = databases.promote(wait_s=0.5).new
        add(databases, 2)
        assert not waiting.done()
        databases.fence(old)
        with pytest.raises(EmbeddedPostgresError, match=r"server closed the connection|terminating connection"):
            waiting.result(20)
    databases.rejoin(old)
    databases.wait_caught_up(old)
    assert rows(databases, old) == rows(databases, new) == {2}


def test_what_a_living_leader_acknowledged_under_load_is_there_after_a_promotion(databases: RegionDatabases) -> None:
    old = databases.leader
    load = Load(databases.url(old, old, "postgresql"))
    done = databases.promote(wait_s=0.5)
    last_s = load.last_s
    assert last_s < done.detached.monotonic_s
    databases.fence(old)
    load.ended()
    assert load.last_s == last_s
    assert load.acknowledged <= rows(databases, done.new)


def test_a_refused_promotion_leaves_all_as_it_was(databases: RegionDatabases) -> None:
    behind, ahead = standbys(databases)
    databases.detach(behind)
    add(databases, 1)
    with pytest.raises(PromotionRefused, match="has received WAL up to"):
        databases.promote(behind, wait_s=WAIT_S)
    add(databases, 2)  # so one standby at least follows again
    for region in (behind, ahead):
        databases.wait_caught_up(region)
        assert rows(databases, region) == {1, 2}


# --- coming back ---


def test_an_old_leader_comes_back_by_rewind_without_what_was_never_replicated(databases: RegionDatabases) -> None:
    old = databases.leader
    add(databases, 1)
    for region in standbys(databases):
        databases.detach(region)
    databases.execute(old, "set synchronous_commit = local; insert into kept values (666)")
    assert rows(databases, old) == {1, 666}
    new = databases.promote(wait_s=WAIT_S).new
    add(databases, 2)
    databases.kill(old)
    assert databases.rejoin(old).way == "rewound"
    databases.wait_caught_up(old)
    assert rows(databases, old) == rows(databases, new) == {1, 2}
    assert databases.execute(old, "select count(*) from pg_replication_slots") == "0"
    databases.kill(new)
    assert databases.promote(old, wait_s=WAIT_S).new == old  # and it may lead again


def test_an_old_leader_that_cannot_be_rewound_is_copied_and_the_reason_is_told(
    databases: RegionDatabases,
) -> None:
    old = databases.leader
    databases.promote(wait_s=WAIT_S)
    databases.fence(old)
    folder = Path(databases._nodes[old].dir)
    (folder / "global/pg_control").write_bytes(b"nonsense")
    back = databases.rejoin(old)
    assert back.way == "copied"
    assert back.reason.startswith("pg_rewind: ")
    databases.wait_caught_up(old)


def test_the_leader_does_not_rejoin_itself_and_nobody_joins_a_dead_one(databases: RegionDatabases) -> None:
    leader, (standby, _) = databases.leader, standbys(databases)
    with pytest.raises(EmbeddedPostgresError, match="nobody for it to follow"):
        databases.rejoin(leader)
    databases.kill(leader)
    with pytest.raises(EmbeddedPostgresError, match="restart it, or promote another"):
        databases.rejoin(standby)


# --- over a network that can be cut ---

INSERT = """
import psycopg, sys
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    print(connection.execute("insert into kept values (1)").statusmessage)
"""


@pytest.fixture(params=["namespaces", "proxies"])
def wan(request: pytest.FixtureRequest) -> Iterator[Wan]:
    missing = namespaces_work() if request.param == "namespaces" else None
    if missing is not None:
        pytest.skip(f"no WAN of namespaces here: {missing}")
    with open_wan(REGIONS, request.param) as made:
        made.delay("eu", "us", 20)
        made.delay("eu", "ap", 40)
        made.delay("us", "ap", 60)
        yield made


def test_a_leader_that_is_cut_off_acknowledges_nothing_and_comes_back_without_it(wan: Wan) -> None:
    with RegionDatabases(wan, durable=False) as databases, ThreadPoolExecutor(1) as pool:
        databases.execute("eu", "create table kept (n int)")
        for viewer in REGIONS:  # from everywhere, through the WAN
            program = [sys.executable, "-c", INSERT, databases.url(viewer, "eu", "postgresql")]
            assert subprocess.check_output(enter.command(wan.namespace(viewer), program)) == b"INSERT 0 1\n"
        wan.isolate("eu")
        waiting = pool.submit(add, databases, 666, region="eu")
        wait_until(lambda: waits_for_standbys(databases, "eu"))
        done = databases.promote(wait_s=WAIT_S)
        assert done.follower_streaming is not None
        add(databases, 2)
        wan.heal()
        assert (waiting.done(), rows(databases, "eu")) == (False, {1})
        databases.execute("eu", "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'")
        wait_until(
            lambda: rows(databases, "eu") == {1, 666}
        )  # given up waiting, and now for all to see: hence the fence
        databases.fence("eu")
        assert databases.rejoin("eu").way == "rewound"
        for region in standbys(databases):
            databases.wait_caught_up(region)
            assert rows(databases, region) == {1, 2}


def test_every_node_runs_in_the_network_of_its_region() -> None:
    if (missing := namespaces_work()) is not None:
        pytest.skip(f"no WAN of namespaces here: {missing}")
    with open_wan(REGIONS, "namespaces") as wan, RegionDatabases(wan, durable=False) as databases:
        for region in REGIONS:
            namespace = wan.namespace(region)
            assert namespace is not None
            pid = databases._nodes[region].process.pid
            assert Path(f"/proc/{pid}/ns/net").stat().st_ino == Path(namespace).stat().st_ino
            assert databases.execute(region, "show listen_addresses") == wan.host(region)
            assert databases.execute(region, "select inet_client_addr()") == wan.host(region)


# --- whoever owns them dies ---

OWNER = """
import pathlib, sys
from drill.loopback import Loopback
from isoline_drill.databases import RegionDatabases
with RegionDatabases(Loopback(), pathlib.Path(sys.argv[1]), durable=False):
    print("up", flush=True)
    sys.stdin.read()
"""


def test_a_killed_owner_leaves_no_server_running(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-c", OWNER, str(tmp_path / "data")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        assert len(servers_below(tmp_path)) == 3
        owner.kill()
    wait_until(lambda: not servers_below(tmp_path), what="the end of all servers")
