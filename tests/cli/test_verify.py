"""``verify`` against three regions with replicas of their own."""

import threading

import pytest

from cli.conftest import numbered

pytestmark = [pytest.mark.topology, pytest.mark.e2e]


@pytest.fixture
def isoline(cli, environ, regions):
    environ["ISOLINE_SERVERS"] = regions.listed
    return cli


@pytest.fixture
def run(isoline, regions):
    """A run of ten events that every replica shows."""
    run_id = isoline("run", "create", "verified").out.strip()
    isoline("append", run_id, stdin=numbered(10))
    for standby in ("us", "ap"):
        regions.cluster.wait_caught_up(standby)
    return run_id


def by_region(ended):
    return {row["region"]: row for row in ended.json["regions"]}


def test_every_region_proves_the_same_prefix_from_its_own_replica(isoline, run):
    ended = isoline("verify", run, "--local", "--json")
    assert (ended.code, ended.json["equal"], ended.json["untilSeq"]) == (0, True, 10)
    rows = by_region(ended)
    assert set(rows) == {"eu", "us", "ap"}
    assert {row["source"] for row in rows.values()} == {"local"}
    assert {row["digest"] for row in rows.values()} == {ended.json["digest"]}
    assert isoline("run", "show", run, "--json").json["head"]["digest"] == ended.json["digest"]


def test_people_get_a_table(isoline, run):
    ended = isoline("verify", run)
    assert ended.code == 0
    assert ended.out.count("proven") == 3
    assert "[0, 10): equal in 3 regions" in ended.out


def test_a_fork_is_verified_through_its_lineage(isoline, run, regions):
    fork = isoline("fork", run, "--from", "5", "--region", "us").out.strip()
    isoline("append", fork, stdin=numbered(2, 50))
    assert isoline("verify", fork, "--json").json["untilSeq"] == 7


def test_appends_that_go_on_do_not_disturb(isoline, run, process):
    stop = threading.Event()
    append = process("append", run, "-")

    def feed():
        for n in range(100_000):
            if stop.is_set():
                break
            append.stdin.write(numbered(1, n))
            append.stdin.flush()
        append.stdin.close()

    feeding = threading.Thread(target=feed)
    feeding.start()
    codes = [isoline("verify", run).code for _ in range(5)]
    stop.set()
    feeding.join()
    assert codes == [0] * 5


def test_a_replica_that_is_behind_is_helped_by_the_leader_and_does_not_count_as_local(isoline, run, regions):
    regions.cluster.pause_replay("ap")
    try:
        isoline("append", run, stdin=numbered(5, 10))
        ended = isoline("verify", run, "--json")
        assert (ended.code, by_region(ended)["ap"]["source"]) == (0, "local+leader")
        local = isoline("verify", run, "--until", "15", "--local", "--json")
        assert (local.code, by_region(local)["ap"]["ok"]) == (1, False)
        assert "5 events are not in its own replica" in by_region(local)["ap"]["verdict"]
    finally:
        regions.cluster.resume_replay("ap")


def test_a_region_without_a_server_cannot_prove_it(isoline, run, regions):
    regions.servers["us"].kill()
    try:
        ended = isoline("verify", run, "--json", "--timeout", "2")
        assert (ended.code, ended.json["equal"]) == (4, False)
        assert by_region(ended)["us"]["verdict"] == "cannot prove it: does not answer"
        assert by_region(ended)["eu"]["ok"]
        assert isoline("verify", run, "--regions", "eu,ap").code == 0
    finally:
        regions.servers["us"].start()


def test_a_region_whose_address_is_not_known_cannot_prove_it(cli, run, regions):
    ended = cli("verify", run, "-s", f"eu={regions.servers['eu'].address}", "--json")
    assert ended.code == 4
    assert "give --server us=HOST:PORT" in by_region(ended)["us"]["verdict"]


def test_one_server_under_two_names_is_found_out(cli, run, regions):
    address = regions.servers["eu"].address
    ended = cli("verify", run, "-s", f"eu={address}", "-s", f"us={address}", "--regions", "eu,us", "--json")
    assert ended.code == 2
    assert by_region(ended)["us"]["verdict"] == f"cannot prove it: the server at {address} is that of eu"


def test_a_server_without_a_name_says_its_region_itself(cli, run, regions):
    servers = [option for server in regions.servers.values() for option in ("-s", server.address)]
    assert set(by_region(cli("verify", run, *servers, "--json"))) == {"eu", "us", "ap"}


def test_a_seq_beyond_the_head_is_refused(isoline, run):
    assert isoline("verify", run, "--until", "11").code == 3


def test_damage_is_found_with_its_seq(isoline, run, regions):
    sql = f"update events set record = record || '\\x00'::bytea where run_id = '{run}' and seq = 6"
    regions.cluster.execute("primary", sql, regions.database)
    for standby in ("us", "ap"):
        regions.cluster.wait_caught_up(standby)
    ended = isoline("verify", run, "--json")
    assert ended.code == 1
    assert {row["brokenAtSeq"] for row in by_region(ended).values()} == {6}
    assert isoline("verify", run, "--until", "6").code == 0
    assert isoline("read", run).code == 1


def test_status_shows_every_region(isoline, regions):
    ended = isoline("status", "--json")
    assert ended.code == 0
    assert {line["region"]: line["localIsLeader"] for line in ended.lines} == {"eu": True, "us": False, "ap": False}
