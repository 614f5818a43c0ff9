import json

import pytest

from isoline_client.cli.servers import DEFAULT_ADDRESS, Server, ServersError, cluster_file, parse_server, resolve


@pytest.fixture
def home(tmp_path):
    """An environment whose data folder is empty, and a writer of its cluster file."""

    def write(content):
        (tmp_path / "cluster.json").write_text(content if isinstance(content, str) else json.dumps(content))
        return environ

    environ = {"ISOLINE_DATA_DIR": str(tmp_path)}
    write.environ = environ
    return write


@pytest.mark.parametrize(
    ("text", "region", "address"),
    [
        ("eu=10.0.0.1:7101", "eu", "10.0.0.1:7101"),
        ("host.example:7100", "", "host.example:7100"),
        (" us1=[::1]:7100 ", "us1", "[::1]:7100"),
        ("eu=unix:/run/isoline.sock", "eu", "unix:/run/isoline.sock"),
    ],
)
def test_a_server_is_an_address_with_or_without_its_region(text, region, address):
    assert parse_server(text) == Server(address, region)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "host:",
        "host:0",
        "host:65536",
        "host:x",
        "EU=h:1",
        "1eu=h:1",
        "=h:1",
        "http://h:1",
        "eu=https://h:1",
        "a b:1",
    ],
)
def test_what_is_no_server_is_refused_with_its_text(text):
    with pytest.raises(ServersError, match=r"must be|region code|scheme") as caught:
        parse_server(text)
    assert repr(text) in str(caught.value)


def test_options_come_before_the_environment_which_comes_before_the_local_cluster(home):
    environ = home({"regions": {"ap": {"address": "h:3", "pid": 1}}})
    assert resolve([], environ).listed == (Server("h:3", "ap"),)
    environ["ISOLINE_SERVERS"] = "us=h:2, eu=h:4"
    assert resolve([], environ).listed == (Server("h:2", "us"), Server("h:4", "eu"))
    assert resolve(["h:1"], environ).listed == (Server("h:1"),)


def test_without_anything_it_is_the_default_and_says_so(home):
    found = resolve([], home.environ)
    assert found.addresses == (DEFAULT_ADDRESS,)
    assert found.is_local
    assert str(cluster_file(home.environ)) in found.origin


def test_a_local_cluster_without_servers_counts_as_none(home):
    assert resolve([], home({"regions": {}})).addresses == (DEFAULT_ADDRESS,)


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", {"regions": {"eu": "h:1"}}, {"regions": {"eu": {"address": "h"}}}, {"regions": []}]
)
def test_a_damaged_cluster_file_is_named(home, content):
    with pytest.raises(ServersError, match=r"cluster\.json cannot be used"):
        resolve([], home(content))


def test_the_preferred_region_comes_first_and_the_others_keep_their_order(home):
    given = ["eu=h:1", "us=h:2", "ap=h:3"]
    assert resolve(given, home.environ, "us").addresses == ("h:2", "h:1", "h:3")
    assert resolve(given, {**home.environ, "ISOLINE_REGION": "ap"}).addresses == ("h:3", "h:1", "h:2")


def test_a_preferred_region_without_a_server_is_refused_when_all_regions_are_known(home):
    with pytest.raises(ServersError, match="no server of region ap; --server names eu, us"):
        resolve(["eu=h:1", "us=h:2"], home.environ, "ap")


def test_a_preferred_region_says_nothing_about_servers_whose_region_is_not_known(home):
    assert resolve(["h:1", "us=h:2"], home.environ, "ap").addresses == ("h:1", "h:2")


def test_the_data_folder_is_in_the_home_when_nothing_says_otherwise(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cluster_file({}) == tmp_path / ".local/share/isoline/cluster.json"
