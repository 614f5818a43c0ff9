"""The compose files: linted, and every part of them that can be asked here is asked: configurations loaded, command lines parsed, the load
balancer's check put to a real server. No container was ever started here."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
import yaml
from grpc_health.v1 import health_pb2
from sqlalchemy import make_url

from isoline_client import Client
from isoline_client.workflow import load_workflows
from isoline_server.config import ConfigError, load_settings
from support.commandline import refusal
from support.servers import free_port
from support.sqlfiles import statements
from support.waiting import eventually

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = DEPLOY / "compose" / "compose.yaml"
TEXT = COMPOSE.read_text(encoding="utf-8")
PARTS = yaml.safe_load(TEXT)
SERVICES = PARTS["services"]
BALANCER = (DEPLOY / "compose" / "haproxy.cfg").read_text(encoding="utf-8")
REGIONS = ("eu", "us", "ap")


def linted(name, *arguments):
    found = Path(sys.executable).with_name(name)
    if not found.exists():
        pytest.skip(f"{name} is not installed")
    return subprocess.run([found, *arguments], capture_output=True, text=True, check=False)


# --- linters ---


def test_every_yaml_file_is_clean():
    done = linted("yamllint", "--strict", "-c", DEPLOY / ".yamllint.yaml", DEPLOY)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_compose_file_fits_its_specification(tmp_path):
    check = ("--builtin-schema", "vendor.compose-spec")
    done = linted("check-jsonschema", *check, COMPOSE)
    assert done.returncode == 0, done.stdout
    (tmp_path / "broken.yaml").write_text(TEXT.replace("    interval: 5s", "    intervall: 5s", 1))
    assert linted("check-jsonschema", *check, tmp_path / "broken.yaml").returncode == 1


@pytest.mark.parametrize("name", ["certs.sh", "init.sh"])
def test_a_script_is_one_that_a_shell_reads(name):
    assert subprocess.run(["sh", "-n", DEPLOY / "compose" / name], check=False).returncode == 0


# --- what every service must have ---


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_and_shut_in(name):
    service = SERVICES[name]
    image, _, tag = service["image"].partition(":")
    assert re.search(r"\d+\.\d+\.\d+", tag), f"{image} is not pinned by version"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"] in {"unless-stopped", "on-failure:5"}
    assert "healthcheck" in service
    if name == "certs":  # hands files to the users that run, without a network
        assert (service["user"], service["network_mode"]) == ("0:0", "none")
    else:
        assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", service["user"])
        assert "cap_add" not in service


def test_three_regions_of_two_nodes_with_a_server_and_an_executor_each():
    localities = sorted(
        option.removeprefix("--locality=")
        for service in SERVICES.values()
        for option in service.get("command", [])
        if option.startswith("--locality=")
    )
    assert localities == sorted(f"region={region},zone={zone}" for region in REGIONS for zone in "ab")
    for region in REGIONS:
        assert {f"{part}-{region}" for part in ("lb", "server", "executor")} <= set(SERVICES)
    (made,) = [text for text in statements("cluster.sql") if text.startswith("CREATE DATABASE")]
    assert re.findall(r'"(\w+)"', made.partition("REGIONS")[2]) == list(REGIONS)


def test_nodes_agree_on_what_they_must_agree_on():
    nodes = [service["command"] for service in SERVICES.values() if service.get("command", [""])[0] == "start"]
    for option in ("--max-offset", "--join"):
        assert len({next(found for found in node if found.startswith(option)) for node in nodes}) == 1
    assert not any("insecure" in option for node in nodes for option in node)


def test_what_is_mounted_and_waited_for_is_there():
    for config in (*PARTS["configs"].values(),):
        assert (COMPOSE.parent / config["file"]).is_file()
    for name, service in SERVICES.items():
        for other in service.get("depends_on", {}):
            assert other in SERVICES, f"{name} waits for {other}"
        for config in service.get("configs", []):
            assert config["source"] in PARTS["configs"]
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert source in PARTS["volumes"] or (COMPOSE.parent / source).is_dir()
    assert PARTS["secrets"]["api_key"]["file"].startswith("./secrets/")
    assert "secrets/" in (COMPOSE.parent / ".gitignore").read_text().split()


def test_certificates_name_what_is_connected_to():
    script = (DEPLOY / "compose" / "certs.sh").read_text(encoding="utf-8")
    assert '"$node.$region" "$node.wan" "lb-$region.$region" "lb-$region.wan" db localhost 127.0.0.1' in script
    nodes = re.search(r"for node in (.+); do", script)[1].split()
    assert nodes == [name for name, service in SERVICES.items() if service.get("command", [""])[0] == "start"]
    for name in nodes:
        command = " ".join(SERVICES[name]["command"])
        assert f"--advertise-addr={name}.wan" in command
        assert f"@{name}.{name[:-1]}" in command


# --- configurations and command lines ---


@pytest.fixture
def key_of_an_operator(monkeypatch):
    monkeypatch.setenv(
        "ISOLINE_API_KEYS",
        SERVICES["server-eu"]["environment"]["ISOLINE_API_KEYS"].replace(
            "${ISOLINE_API_KEY_SHA256:?see the head of compose.yaml}", "0" * 64
        ),
    )


def test_the_servers_configuration_is_one_that_they_take(key_of_an_operator):
    settings = load_settings(COMPOSE.parent / "isoline.toml")
    assert (settings.topology, settings.homes) == ("cockroach", ("ap", "eu", "us"))
    assert [key.tenant for key in settings.api_keys] == ["example"]
    collector = yaml.safe_load((DEPLOY / "otel" / "collector.yaml").read_text())
    assert settings.otlp_endpoint == "http://collector:4317"
    assert collector["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"].endswith(":4317")


def test_without_a_key_it_is_refused(monkeypatch):
    monkeypatch.delenv("ISOLINE_API_KEYS", raising=False)
    with pytest.raises(ConfigError, match="without api_keys a server listens on loopback only"):
        load_settings(COMPOSE.parent / "isoline.toml")


def test_each_role_logs_in_with_its_own_certificate(key_of_an_operator, monkeypatch):
    certs = (DEPLOY / "compose" / "certs.sh").read_text(encoding="utf-8")
    urls = {"isoline_server": load_settings(COMPOSE.parent / "isoline.toml").leader_url}
    monkeypatch.setenv("ISOLINE_LEADER_URL", SERVICES["migrate"]["environment"]["ISOLINE_LEADER_URL"])
    urls["isoline_owner"] = load_settings(COMPOSE.parent / "isoline.toml").leader_url
    for role, text in urls.items():
        url = make_url(text)
        assert (url.username, url.drivername, url.query["sslmode"]) == (role, "cockroachdb+psycopg", "verify-full")
        assert url.query["sslcert"] == f"/certs/client.{role}.crt"
        assert url.query["sslkey"] == f"/certs/client.{role}.key"
        assert re.search(rf"for user in .*\b{role}\b", certs)


def command_lines():
    return {name: service["command"] for name, service in SERVICES.items() if service["image"].startswith("isoline:")}


@pytest.mark.parametrize(("name", "arguments"), command_lines().items())
def test_a_command_line_is_one_of_the_program(name, arguments):
    assert refusal(arguments) is None


def test_a_command_line_that_is_not_the_programs_would_be_noticed():
    assert refusal(["serve", "--regoin", "eu"]).startswith("No such option: --regoin")
    assert refusal(["serve"]).startswith("Missing option '--region'")
    assert refusal(["served"]) == "there is no command served"


def test_the_example_workflow_is_one_that_an_executor_takes(monkeypatch):
    monkeypatch.syspath_prepend(COMPOSE.parent / "workflows")
    (module,) = {
        option.partition("=")[2] for option in command_lines()["executor-eu"] if option.startswith("--workflows=")
    }
    assert list(load_workflows(module)) == ["example.greeting"]


def test_the_collectors_pipelines_are_made_of_what_it_has():
    config = yaml.safe_load((DEPLOY / "otel" / "collector.yaml").read_text())
    for pipeline in config["service"]["pipelines"].values():
        for kind, names in pipeline.items():
            assert set(names) <= set(config[kind])
    assert set(config["service"]["extensions"]) <= set(config["extensions"])


# --- the load balancer ---


def frames():
    return bytes.fromhex(re.search(r"send-binary ([0-9a-f]+)", BALANCER)[1])


async def answers_as_expected(address):
    """What the load balancer does: send the frames, wait for the bytes of SERVING."""
    expected = bytes.fromhex(re.search(r"expect binary ([0-9a-f]+)", BALANCER)[1])
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    seen = b""
    try:
        writer.write(frames())
        async with asyncio.timeout(2):
            while expected not in seen and (more := await reader.read(4096)):
                seen += more
    except TimeoutError:
        pass
    finally:
        writer.close()
    return expected in seen


async def test_its_grpc_check_tells_a_server_that_serves_from_one_that_drains(server):
    assert await answers_as_expected(server.address)
    await server._grpc._say(health_pb2.HealthCheckResponse.NOT_SERVING)
    assert not await answers_as_expected(server.address)


def haproxy():
    found = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.skip("haproxy is not installed")
    return found


@pytest.fixture
def authority(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=ca", "-days", "2"]
    subprocess.run(
        [*command, "-keyout", tmp_path / "ca.key", "-out", tmp_path / "ca.crt"], check=True, capture_output=True
    )
    return tmp_path


def test_haproxy_takes_its_configuration(authority):
    environment = {**os.environ, **SERVICES["lb-eu"]["environment"], "CERTS": str(authority)}
    done = subprocess.run(
        [haproxy(), "-c", "-f", DEPLOY / "compose" / "haproxy.cfg"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.e2e
async def test_haproxy_sends_calls_to_a_server_and_none_to_one_that_drains(server, authority):
    port, health = free_port(), free_port()
    text = BALANCER.replace("bind :26257", f"bind 127.0.0.1:{free_port()}").replace(
        "bind :8404", f"bind 127.0.0.1:{health}"
    )
    text = text.replace("bind :7100", f"bind 127.0.0.1:{port}").replace("inter 2s", "inter 100ms")
    text = text.replace('"server-${HERE}.${HERE}:7100"', server.address)
    (authority / "haproxy.cfg").write_text(text)
    environment = {**os.environ, **SERVICES["lb-eu"]["environment"], "CERTS": str(authority)}
    balancer = await asyncio.create_subprocess_exec(
        haproxy(),
        "-f",
        authority / "haproxy.cfg",
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        await eventually(lambda: has_passed(health), what="a check that was passed")
        assert await serves(port)
        async with Client(f"127.0.0.1:{port}") as client:
            assert await client.create_run("checkout")
        await server._grpc._say(health_pb2.HealthCheckResponse.NOT_SERVING)

        async def is_out():
            return not await serves(port)

        await eventually(is_out, what="the draining server being taken out")
    finally:
        balancer.terminate()
        await balancer.wait()


async def has_passed(port):
    """Whether the last check of the region's server ended well: before the first one HAProxy takes every server for one that is up."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.write(b"GET /stats;csv HTTP/1.0\r\n\r\n")
    rows = [line.split(",") for line in (await reader.read()).decode().splitlines()]
    writer.close()
    names = next(row for row in rows if row[0].endswith("pxname"))
    here = next(row for row in rows if row[:2] == ["isoline", "here"])
    return here[names.index("check_status")] == "L7OK"


async def serves(port):
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            await channel.unary_unary("/isoline.v1.HostService/GetCapabilities")(b"", timeout=1)
        except grpc.aio.AioRpcError as error:
            return error.code() not in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
        return True


def test_a_draining_node_waits_until_the_load_balancer_has_noticed():
    interval_s, checks = (int(found) for found in re.search(r"inter (\d+)s fall (\d+)", BALANCER).groups())
    wait_s = next(
        int(found[1]) for text in statements("settings.sql") if (found := re.search(r"initial_wait = '(\d+)s'", text))
    )
    assert wait_s > interval_s * checks


def test_the_keys_of_an_operator_are_json():
    text = SERVICES["server-us"]["environment"]["ISOLINE_API_KEYS"]
    assert json.loads(re.sub(r"\$\{[^}]+\}", "0" * 64, text)) == [{"tenant": "example", "sha256": "0" * 64}]
