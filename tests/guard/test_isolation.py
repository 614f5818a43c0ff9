"""Shutting a process in: each fence by itself, as root and as an ordinary user, and on a host that does not allow it."""

import json
import os
import platform
import shutil
import subprocess
import sys

import pytest

from guard.processes import ORDINARY_USER, as_user, environment, interpreter, without_user_namespaces
from isoline_client.guard import kernel
from isoline_client.guard.isolation import IsolationReport, probe

SHUT_IN = """
import json, socket, sys, tempfile
from pathlib import Path
from isoline_client.guard.isolation import shut_in
from isoline_client.guard.switches import Fences
listener = socket.create_server(("127.0.0.1", 0))
with tempfile.TemporaryDirectory() as folder:
    scratch = Path(folder) / "scratch"
    scratch.mkdir()
    port = listener.getsockname()[1]
    print(json.dumps(shut_in(scratch, listening_port=port, fences=Fences(**json.loads(sys.argv[1]))).document()), flush=True)
    if len(sys.argv) > 2:
        exec(sys.argv[2])
    import os; os._exit(0)  # the folder cannot be removed from in here
"""


def shut_in(then: str = "", *, before=(), python=sys.executable, **fences) -> tuple[IsolationReport, str]:
    """A process that shuts itself in and then does something; what it reports and prints."""
    command = [*before, python, "-P", "-c", SHUT_IN, json.dumps(fences), *([then] if then else [])]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    first, _, rest = done.stdout.partition("\n")
    return IsolationReport.from_document(json.loads(first)), rest.strip()


requires_isolation = pytest.mark.skipif(not probe().complete, reason=f"no isolation on this host: {probe().reasons}")
requires_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
requires_unshare = pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare (util-linux) is not installed")


@requires_unshare
def test_a_host_that_gives_a_namespace_is_not_called_one_that_gives_none():
    """What other tests ask of ``probe`` before they run, found out by another program."""
    allowed = subprocess.run(["unshare", "-Urn", "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0

    assert probe().netns == allowed


def test_a_kernel_with_landlock_is_not_called_one_without():
    try:
        known = kernel.landlock_abi() > 0
    except OSError:
        known = False

    assert probe().landlock == known


def test_a_machine_with_a_filter_is_not_called_one_without():
    assert probe().call_filter == (sys.platform == "linux" and platform.machine() in {"x86_64", "aarch64"})


@requires_isolation
def test_everything_holds_here():
    report, _ = shut_in()

    assert report == IsolationReport(netns=True, landlock=True, call_filter=True)


@requires_isolation
@requires_root
def test_it_holds_for_an_ordinary_user():
    python = interpreter(for_user=ORDINARY_USER)
    if python is None:
        pytest.skip("no Python that an ordinary user may run")

    report, ids = shut_in("import os; print(os.getuid(), os.getgid())", before=as_user(ORDINARY_USER), python=python)

    assert report.complete
    assert ids == f"{ORDINARY_USER} {ORDINARY_USER}"


@requires_isolation
def test_the_ids_stay_what_they_were():
    _, ids = shut_in("import os; print(os.getuid(), os.getgid())")

    assert ids == f"{os.getuid()} {os.getgid()}"


@requires_isolation
@pytest.mark.parametrize(
    ("fence", "held"), [("namespaces", "netns"), ("landlock", "landlock"), ("call_filter", "call_filter")]
)
def test_a_fence_that_is_off_is_found_out(fence, held):
    report, _ = shut_in(**{fence: False})

    assert getattr(report, held) is False
    assert not report.complete
    assert len(report.reasons) == 1


@requires_isolation
@requires_unshare
def test_a_host_without_user_namespaces_is_found_out_and_said():
    report, _ = shut_in(before=without_user_namespaces())

    assert not report.netns
    assert report.landlock
    assert any("network namespace" in reason for reason in report.reasons)


REACH = "s = socket.socket(); print(s.connect_ex(('127.0.0.1', port)))"
UDP = "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); print(s.connect_ex(('127.0.0.1', 9)))"
UNIX = "socket.socket(socket.AF_UNIX)"
PAIR = "a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))"
DATAGRAM_PAIR = "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)"
VSOCK = "socket.socket(40, socket.SOCK_STREAM)"
WRITE = "Path(folder).joinpath('x').write_text('x')"
SCRATCH = "print(scratch.joinpath('x').write_text('x'))"
NULL = "print(Path('/dev/null').write_text('x'))"
RING = "import ctypes; print(ctypes.CDLL(None, use_errno=True).syscall(425, 1, ctypes.create_string_buffer(120)), ctypes.get_errno())"
MODE = "Path(folder).chmod(0o777)"
OWNER = "import os; os.chown(folder, 1, 1)"
TIMES = "import os; os.utime(folder)"
ATTRIBUTE = "import os; os.setxattr(folder, 'user.a', b'')"
SIGNAL = "import os, signal; os.kill(os.getppid(), 0)"


def outcome(code: str) -> str:
    """Code whose ``OSError`` is its outcome, by name."""
    return f"import errno\ntry:\n    {code}\nexcept OSError as error:\n    print(errno.errorcode[error.errno])"


@requires_isolation
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(REACH, "101", id="tcp-has-no-network"),
        pytest.param(UDP, "101", id="udp-has-no-network"),
        pytest.param(UNIX, "EACCES", id="unix-socket"),
        pytest.param(DATAGRAM_PAIR, "EACCES", id="datagram-pair"),
        pytest.param(VSOCK, "EACCES", id="vsock"),
        pytest.param(RING, "-1 13", id="io-uring"),
        pytest.param(WRITE, "EACCES", id="write-outside"),
        pytest.param(MODE, "EACCES", id="mode"),
        pytest.param(OWNER, "EACCES", id="owner"),
        pytest.param(TIMES, "EACCES", id="times"),
        pytest.param(ATTRIBUTE, "EACCES", id="attribute"),
        pytest.param(SIGNAL, "EPERM", id="signal-to-the-executor"),
        pytest.param(PAIR, "b'x'", id="socket-pair-works"),
        pytest.param(SCRATCH, "1", id="scratch-works"),
        pytest.param(NULL, "1", id="null-device-works"),
    ],
)
def test_what_a_process_that_is_shut_in_can_do(code, expected):
    _, said = shut_in(outcome(code))

    assert said == expected


@requires_isolation
def test_without_a_namespace_the_filter_refuses_every_socket():
    _, said = shut_in(outcome("socket.socket()"), namespaces=False)

    assert said == "EACCES"


@requires_isolation
def test_what_it_starts_is_shut_in_as_well():
    code = "import subprocess; subprocess.run(['/bin/sh', '-c', f'touch {folder}/x || echo refused'], stderr=subprocess.DEVNULL)"

    assert shut_in(code)[1] == "refused"
