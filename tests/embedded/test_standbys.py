"""A primary and two hot standbys: what each region sees, what a dead one costs, and how a standby comes back."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from embedded.servers import Supervisor, servers_below, wait_until
from isoline_server.embedded import EmbeddedCluster, EmbeddedPostgresError

pytestmark = pytest.mark.topology

STANDBYS = ("eu-west", "us")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("topology") / "data"


@pytest.fixture(scope="module")
def progress() -> list[str]:
    return []


@pytest.fixture(scope="module")
def shared(folder: Path, progress: list[str]) -> Iterator[EmbeddedCluster]:
    # Two segments, so that a standby can be left behind within a test.
    settings = {"max_slot_wal_keep_size": "32MB"}
    with EmbeddedCluster(
        folder, standbys=STANDBYS, durable=False, settings=settings, on_progress=progress.append
    ) as cluster:
        cluster.execute("primary", "create table kept (n int)")
        yield cluster


@pytest.fixture
def cluster(shared: EmbeddedCluster, progress: list[str]) -> EmbeddedCluster:
    """The shared cluster with everything running and an empty table."""
    for endpoint in shared.endpoints:
        if not shared.is_running(endpoint.name):
            shared.restart(endpoint.name)
    shared.execute("primary", "truncate kept")
    progress.clear()
    return shared


def add(cluster: EmbeddedCluster, *, timeout_s: float = 20.0) -> None:
    cluster.execute("primary", "insert into kept values (1)", timeout_s=timeout_s)


def count(cluster: EmbeddedCluster, name: str) -> int:
    return int(cluster.execute(name, "select count(*) from kept"))


def copies(progress: list[str]) -> list[str]:
    return [line for line in progress if "copying the primary" in line]


def test_a_write_becomes_visible_in_both_regions(cluster: EmbeddedCluster) -> None:
    add(cluster)
    for name in STANDBYS:
        cluster.wait_caught_up(name)
        assert count(cluster, name) == 1
        assert cluster.execute(name, "select pg_is_in_recovery()") == "t"
    assert cluster.execute("primary", "show synchronous_standby_names") == 'ANY 1 ("eu-west", "us")'
    assert [endpoint.name for endpoint in cluster.endpoints] == ["primary", *STANDBYS]


def test_a_paused_replay_lags_until_it_is_resumed(cluster: EmbeddedCluster) -> None:
    cluster.wait_caught_up("us")
    cluster.pause_replay("us")
    add(cluster)
    cluster.wait_caught_up("eu-west")
    assert (count(cluster, "eu-west"), count(cluster, "us")) == (1, 0)
    with pytest.raises(EmbeddedPostgresError, match="did not reach"):
        cluster.wait_caught_up("us", timeout_s=0.1)
    cluster.resume_replay("us")
    cluster.wait_caught_up("us")
    assert count(cluster, "us") == 1


def test_asynchronous_commits_are_waited_for_too(cluster: EmbeddedCluster) -> None:
    cluster.execute("primary", "set synchronous_commit = off; insert into kept values (1)")
    cluster.wait_caught_up("us")
    assert count(cluster, "us") == 1


def test_databases_are_made_from_templates_and_dropped_everywhere(cluster: EmbeddedCluster) -> None:
    cluster.create_database("template-a")
    cluster.execute("primary", "create table t as select 7 as n", "template-a")
    cluster.create_database("test-1", template="template-a")
    cluster.wait_caught_up("us")
    assert cluster.execute("us", "select n from t", "test-1") == "7"
    for name in ("test-1", "template-a"):
        cluster.drop_database(name)
    cluster.wait_caught_up("us")
    with pytest.raises(EmbeddedPostgresError, match="does not exist"):
        cluster.execute("us", "select 1", "test-1")


def test_commits_need_one_living_standby_and_wait_for_it(cluster: EmbeddedCluster) -> None:
    cluster.kill("us")
    add(cluster)
    cluster.kill("eu-west")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(add, cluster)
        stuck = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'"
        wait_until(lambda: cluster.execute("primary", stuck) == "1")
        assert count(cluster, "primary") == 1  # reads go on
        cluster.restart("us")
        waiting.result(timeout=20)
    assert count(cluster, "primary") == 2


def test_a_standby_serves_what_it_has_while_the_primary_is_dead(cluster: EmbeddedCluster, progress: list[str]) -> None:
    add(cluster)
    cluster.wait_caught_up("us")
    cluster.kill("primary")
    cluster.kill("us")
    cluster.restart("us")
    assert count(cluster, "us") == 1
    cluster.restart("primary")
    add(cluster)
    cluster.wait_caught_up("us")
    assert (count(cluster, "us"), copies(progress)) == (2, [])


def test_standbys_follow_a_primary_whose_port_has_changed(cluster: EmbeddedCluster, progress: list[str]) -> None:
    add(cluster)
    port = cluster.primary.port
    cluster.stop()
    with socket.create_server(("127.0.0.1", port)):
        cluster.start()
    assert cluster.primary.port != port
    add(cluster)
    for name in STANDBYS:
        cluster.wait_caught_up(name)
        assert count(cluster, name) == 2
    assert copies(progress) == []


def test_killing_the_supervisor_stops_every_server_and_all_resume(
    cluster: EmbeddedCluster, supervise: Callable[..., Supervisor], progress: list[str], folder: Path
) -> None:
    cluster.stop()
    supervisor = supervise(str(folder), "third", *STANDBYS)
    supervisor.wait_up()
    assert len(servers_below(folder)) == 3
    supervisor.kill()
    wait_until(lambda: not servers_below(folder))
    cluster.start()
    cluster.wait_caught_up("us")
    assert cluster.execute("us", "select text from marks") == "third"
    assert copies(progress) == []


def test_a_standby_that_was_promoted_is_copied_anew(cluster: EmbeddedCluster, progress: list[str]) -> None:
    cluster.execute("us", "select pg_promote()")
    cluster.execute("us", "insert into kept values (666)")
    cluster.restart("us")
    assert copies(progress) == ["us: copying the primary (it was promoted and has a history of its own)"]
    assert count(cluster, "us") == 0


def test_a_standby_of_another_timeline_is_copied_anew(
    cluster: EmbeddedCluster, progress: list[str], folder: Path
) -> None:
    cluster.execute("us", "select pg_promote()")
    cluster.execute("us", "checkpoint")
    cluster.kill("us")
    (folder / "nodes/us/standby.signal").touch()
    cluster.restart("us")
    assert len(copies(progress)) == 1
    assert "timeline" in copies(progress)[0]


def test_a_standby_whose_data_is_damaged_is_copied_anew(
    cluster: EmbeddedCluster, progress: list[str], folder: Path
) -> None:
    cluster.kill("us")
    (folder / "nodes/us/global/pg_control").write_bytes(b"nonsense")
    cluster.restart("us")
    assert len(copies(progress)) == 1
    add(cluster)
    cluster.wait_caught_up("us")
    assert count(cluster, "us") == 1


def test_a_standby_that_was_away_too_long_is_copied_anew(cluster: EmbeddedCluster, progress: list[str]) -> None:
    cluster.kill("us")
    status = "select wal_status from pg_replication_slots where slot_name = 'isoline_us'"
    for _ in range(8):
        cluster.execute("primary", "select pg_logical_emit_message(false, 'fill', 'x'), pg_switch_wal()")
        cluster.execute("primary", "checkpoint")
        if cluster.execute("primary", status) == "lost":
            break
    cluster.restart("us")
    assert copies(progress) == ["us: copying the primary (it was away for longer than WAL is kept for it)"]


def test_a_standby_whose_slot_and_wal_are_gone_is_copied_anew(cluster: EmbeddedCluster, progress: list[str]) -> None:
    cluster.kill("us")
    wait_until(
        lambda: (
            cluster.execute("primary", "select active from pg_replication_slots where slot_name = 'isoline_us'") == "f"
        )
    )
    cluster.execute("primary", "select pg_drop_replication_slot('isoline_us')")
    for _ in range(8):
        cluster.execute("primary", "select pg_logical_emit_message(false, 'fill', 'x'), pg_switch_wal()")
    cluster.execute("primary", "checkpoint")
    cluster.restart("us")
    assert len(copies(progress)) == 1
    assert "has already been removed" in copies(progress)[0]


def test_a_primary_that_vanished_is_not_replaced_by_an_empty_one(cluster: EmbeddedCluster, folder: Path) -> None:
    cluster.stop()
    (folder / "nodes/primary").rename(folder / "nodes/elsewhere")
    with pytest.raises(EmbeddedPostgresError, match="the primary's data is missing"):
        cluster.start()
    (folder / "nodes/elsewhere").rename(folder / "nodes/primary")
    cluster.start()


def test_a_standby_that_is_no_longer_asked_for_keeps_no_wal(cluster: EmbeddedCluster, folder: Path) -> None:
    cluster.stop()
    with EmbeddedCluster(folder, standbys=["us"], durable=False) as smaller:
        slots = smaller.execute("primary", "select slot_name from pg_replication_slots")
    cluster.start()
    assert slots == "isoline_us"
