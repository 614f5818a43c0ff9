"""``isoline up`` and ``isoline down``: one supervisor and what it keeps alive. One region, where more would show nothing more."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import grpc
import pytest

from demo.processes import ISOLINE, left_of, ready, run, start, wait_until
from isoline.v1 import host_service_pb2, host_service_pb2_grpc

pytestmark = pytest.mark.e2e


def up(place: Path, *options: str, **how: Any) -> "subprocess.Popen[str]":
    command = [ISOLINE, "up", "--json", "--data-dir", str(place / "data"), "--regions", "eu", *options]
    with (place / "stderr").open("w") as stderr:
        return start(command, place, stderr=stderr, **how)


def recorded(place: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((place / "data/cluster.json").read_text())
    return record


def reaches_its_database(address: str) -> bool:
    with grpc.insecure_channel(address) as channel:
        stub = host_service_pb2_grpc.HostServiceStub(channel)
        answer = stub.GetRegionStatus(host_service_pb2.GetRegionStatusRequest(), timeout=20, wait_for_ready=True)
        return bool(answer.leader_reachable and answer.local_is_leader)


def postmaster(place: Path) -> int:
    (line,) = [line for line in left_of(place) if line.endswith(f"postgres -D {place}/data/nodes/primary")]
    return int(line.split()[0])


def test_one_folder_one_supervisor_and_what_is_killed_is_started_again(place: Path) -> None:
    supervisor = up(place)
    said = ready(supervisor)
    assert said == recorded(place)
    address, pid = said["regions"]["eu"]["address"], said["regions"]["eu"]["pid"]
    assert reaches_its_database(address)

    second = run([ISOLINE, "up", "--data-dir", str(place / "data")], place)
    assert second.returncode == 1
    assert f"in use by another supervisor (pid {supervisor.pid})" in second.stderr

    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: recorded(place)["regions"]["eu"]["pid"] != pid)
    assert reaches_its_database(address)
    assert f"server {pid} was killed by SIGKILL; starting it again" in (place / "stderr").read_text()

    os.kill(postmaster(place), signal.SIGKILL)
    wait_until(lambda: "primary: PostgreSQL is back" in (place / "stderr").read_text())
    wait_until(lambda: reaches_its_database(address))

    supervisor.terminate()
    supervisor.communicate()
    assert (supervisor.returncode, (place / "data/cluster.json").exists()) == (0, False)


def test_a_killed_supervisor_takes_all_with_it_and_its_folder_starts_again_where_it_was(place: Path) -> None:
    supervisor = up(place)
    said = ready(supervisor)
    supervisor.kill()
    supervisor.communicate()
    wait_until(lambda: not left_of(place))

    down = run([ISOLINE, "down", "--data-dir", str(place / "data")], place)
    assert (down.returncode, "no cluster runs" in down.stderr) == (1, True)
    assert not (place / "data/cluster.json").exists()

    again = up(place, "--exit-with-parent", stdin=subprocess.PIPE)
    assert ready(again)["regions"]["eu"]["address"] == said["regions"]["eu"]["address"]
    again.communicate()  # closes the pipe, as the end of the parent would
    assert again.returncode == 0
