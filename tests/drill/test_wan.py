"""The emulated WAN, both kinds: what programs in its regions see of delay, silence, refusal and loss, and that it leaves nothing behind."""

import contextlib
import functools
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from isoline_drill.wan import Wan, WanError, namespaces_work, open_wan
from isoline_drill.wan.base import Kind
from isoline_drill.wan.enter import EXIT_PARENT_GONE, command, join
from isoline_drill.wan.links import Links
from support.waiting import wait_until

REGIONS = ("r1", "r2", "r3")
SILENCE_S = 0.3  # how long nothing may come where nothing should; without a cut it takes a millisecond
DEADLINE_S = 30.0
MIB = 1024 * 1024

ECHO = """
import socketserver, sys
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
with Server((sys.argv[1], 0), Echo) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
"""

# Owns a WAN and an echo server in r1, says what there is, and waits to be killed. It has a child that holds all its files, until input ends.
OWNER = """
import os, subprocess, sys
from isoline_drill.wan import open_wan
from isoline_drill.wan.enter import command
with open_wan(("r1", "r2"), sys.argv[1]) as wan:
    echo = subprocess.Popen(
        command(wan.namespace("r1"), [sys.executable, "-I", "-S", "-c", sys.argv[2], wan.host("r1")]), stdout=subprocess.PIPE, text=True
    )
    port = int(echo.stdout.readline())
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
    print(wan.namespace("r1") or "-", echo.pid, wan.address("r2", "r1", port)[1], flush=True)
    sys.stdin.read()
"""

# A proxy whose target is closed, on a machine that has no other port to give to its connection.
ONE_FREE_PORT = """
import pathlib, socket
from isoline_drill.wan import open_wan
with open_wan(("r1", "r2"), "proxies") as wan, socket.socket() as near:
    address = wan.address("r1", "r2", 40000)
    near.bind(("127.0.0.1", 50000))
    pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("40000 40000")
    near.connect(address)
    near.sendall(b"a")
    try:
        print("from itself:", near.recv(1))
    except ConnectionResetError:
        print("refused")
"""


@functools.cache
def why_no_namespaces() -> str | None:
    return namespaces_work()


@pytest.fixture(params=["namespaces", "proxies"])
def kind(request: pytest.FixtureRequest) -> Kind:
    if request.param == "namespaces" and (reason := why_no_namespaces()):
        pytest.skip(f"no network namespaces here: {reason}")
    return request.param


@pytest.fixture
def wan(kind: Kind) -> Iterator[Wan]:
    with open_wan(REGIONS, kind) as made:
        yield made


@pytest.fixture
def packets() -> Iterator[Wan]:
    """A WAN that knows packets."""
    if reason := why_no_namespaces():
        pytest.skip(f"no network namespaces here: {reason}")
    with open_wan(REGIONS, "namespaces") as made:
        yield made


@pytest.fixture
def open_files() -> Iterator[contextlib.ExitStack]:
    """Closes the sockets of a test, before the WAN ends."""
    with contextlib.ExitStack() as stack:
        yield stack


class Net:
    """Sockets inside the regions of a WAN. Both ends are in this process: a socket stays in the namespace in which it was made."""

    def __init__(self, wan: Wan, open_files: contextlib.ExitStack) -> None:
        self._wan = wan
        self._open_files = open_files

    def make_socket(self, region: str, type_: int = socket.SOCK_STREAM) -> socket.socket:
        def make() -> socket.socket:
            if namespace := self._wan.namespace(region):
                join(namespace)
            return socket.socket(socket.AF_INET, type_)

        with ThreadPoolExecutor(1) as thread:  # a namespace is joined by a thread, which ends here
            made = self._open_files.enter_context(thread.submit(make).result())
        made.settimeout(DEADLINE_S)
        return made

    def listen(self, region: str) -> socket.socket:
        made = self.make_socket(region)
        made.bind((self._wan.host(region), 0))
        made.listen()
        return made

    def dial(self, viewer: str, owner: str, port: int) -> socket.socket:
        made = self.make_socket(viewer)
        made.connect(self._wan.address(viewer, owner, port))
        return made

    def pair(self, viewer: str, owner: str) -> tuple[socket.socket, socket.socket]:
        """A connection that stands: the viewer's end, and the owner's, which has accepted it."""
        listening = self.listen(owner)
        near = self.dial(viewer, owner, listening.getsockname()[1])
        far = self._open_files.enter_context(listening.accept()[0])
        far.settimeout(DEADLINE_S)
        for end in (
            near,
            far,
        ):  # else a byte waits for the acknowledgement of the one before, which a cut may have caught
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert passes(near, far)
        assert passes(far, near)
        return near, far

    def datagrams(self, sender: str, receiver: str) -> tuple[Callable[[bytes], object], socket.socket]:
        """A way to send datagrams from one region to another, and where they arrive."""
        arrivals, source = self.make_socket(receiver, socket.SOCK_DGRAM), self.make_socket(sender, socket.SOCK_DGRAM)
        arrivals.bind((self._wan.host(receiver), 0))
        target = self._wan.address(sender, receiver, arrivals.getsockname()[1])
        return lambda data: source.sendto(data, target), arrivals


@pytest.fixture
def net(wan: Wan, open_files: contextlib.ExitStack) -> Net:
    return Net(wan, open_files)


@pytest.fixture
def packet_net(packets: Wan, open_files: contextlib.ExitStack) -> Net:
    return Net(packets, open_files)


def passes(sender: socket.socket, receiver: socket.socket) -> bool:
    """Whether a byte gets there; fails after the deadline."""
    sender.sendall(b"x")
    return receiver.recv(1) == b"x"


def is_silent(receiver: socket.socket) -> bool:
    readable, _, _ = select.select([receiver], [], [], SILENCE_S)
    return not readable


def receive(source: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size and (data := source.recv(min(65536, size - len(received)))):
        received += data
    return bytes(received)


@contextlib.contextmanager
def program_in(wan: Wan, region: str, source: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-I", "-S", "-c", source, *arguments]
    with subprocess.Popen(command(wan.namespace(region), argv), stdout=subprocess.PIPE, text=True) as program:
        try:
            yield program
        finally:
            program.kill()


def first_line(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is no corpse."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def routers_of(lab: str) -> list[int]:
    def is_one(process: Path) -> bool:
        with contextlib.suppress(OSError):
            return lab.encode() in (process / "cmdline").read_bytes().split(b"\0")
        return False

    return [int(process.name) for process in Path("/proc").iterdir() if process.name.isdigit() and is_one(process)]


def lab_of(namespace: str) -> str:
    return Path(namespace).name.removesuffix("-r1")


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


# --- delay


def test_a_program_in_a_region_answers_after_the_round_trip(wan: Wan, net: Net) -> None:
    wan.delay("r1", "r2", 80)
    with program_in(wan, "r2", ECHO, wan.host("r2")) as echo:
        port = int(first_line(echo))
        started = time.monotonic()
        near = net.dial("r1", "r2", port)
        assert passes(near, near)
        assert time.monotonic() - started >= 0.160  # the handshake, and the byte

        def round_trip_s() -> float:
            begun = time.monotonic()
            assert passes(near, near)
            return time.monotonic() - begun

        times = [round_trip_s() for _ in range(5)]
        assert min(times) >= 0.080
        assert min(times) < 0.240


def test_each_way_takes_half_of_the_round_trip(wan: Wan, net: Net) -> None:
    near, far = net.pair("r1", "r3")
    wan.delay("r1", "r3", 200)
    for sender, receiver in ((near, far), (far, near)):
        started = time.monotonic()
        assert passes(sender, receiver)
        assert 0.100 <= time.monotonic() - started < 10


def test_a_server_that_speaks_first_is_heard_after_two_round_trips(wan: Wan, net: Net) -> None:
    wan.delay("r1", "r2", 100)
    listening = net.listen("r2")

    def greet() -> None:
        accepted, _ = listening.accept()
        with accepted:
            accepted.sendall(b"hello")

    with ThreadPoolExecutor(1) as thread:
        greeting = thread.submit(greet)
        started = time.monotonic()
        near = net.dial("r1", "r2", listening.getsockname()[1])
        assert near.recv(5) == b"hello"
        assert time.monotonic() - started >= 0.200
        greeting.result()


def test_delays_are_those_of_their_pair(wan: Wan, net: Net) -> None:
    wan.delay("r1", "r2", 600_000)
    near, far = net.pair("r1", "r3")
    assert passes(near, far)
    near, far = net.pair("r2", "r2")
    assert passes(near, far)


def test_a_new_delay_is_in_force_at_once(wan: Wan, net: Net) -> None:
    near, far = net.pair("r1", "r2")
    wan.delay("r2", "r1", 600_000)
    near.sendall(b"a")
    assert is_silent(far)
    wan.delay("r1", "r2", 0)
    assert receive(far, 1) == b"a"


# --- cuts


def test_a_cut_is_silent_and_heals(wan: Wan, net: Net) -> None:
    near, far = net.pair("r1", "r2")
    wan.cut("r1", "r2")
    near.sendall(b"a")
    far.sendall(b"b")
    assert is_silent(far)
    assert is_silent(near)
    wan.heal()
    assert receive(far, 1) == b"a"
    assert receive(near, 1) == b"b"


def test_a_cut_is_one_of_its_pair_only(wan: Wan, net: Net) -> None:
    other, same = net.pair("r1", "r3"), net.pair("r1", "r1")
    wan.cut("r1", "r2")
    for near, far in (other, same):
        assert passes(near, far)
        assert passes(far, near)


def test_new_connections_hang_in_a_cut(wan: Wan, net: Net) -> None:
    listening = net.listen("r2")
    wan.cut("r2", "r1")
    near = net.make_socket("r1")
    near.setblocking(False)
    near.connect_ex(wan.address("r1", "r2", listening.getsockname()[1]))
    assert is_silent(listening)
    assert is_silent(near)
    wan.heal()
    accepted, _ = listening.accept()
    with accepted:
        near.settimeout(DEADLINE_S)
        select.select([], [near], [], DEADLINE_S)
        assert passes(near, accepted)
        assert passes(accepted, near)


def test_a_cut_of_one_way_leaves_the_other(wan: Wan, net: Net) -> None:
    near, far = net.pair("r1", "r2")
    wan.cut_one_way("r1", "r2")
    near.sendall(b"a")
    assert is_silent(far)
    assert passes(far, near)
    wan.heal()
    assert receive(far, 1) == b"a"


def test_nobody_connects_while_answers_are_cut(wan: Wan, net: Net) -> None:
    listening = net.listen("r2")
    wan.cut_one_way("r2", "r1")
    near = net.make_socket("r1")
    near.setblocking(False)
    near.connect_ex(wan.address("r1", "r2", listening.getsockname()[1]))
    with contextlib.suppress(OSError):  # where connect does not return in a cut, there is nothing to send on yet
        near.send(b"a")
    assert is_silent(near)
    wan.heal()
    accepted, _ = listening.accept()
    with accepted:
        select.select([], [near], [], DEADLINE_S)
        near.settimeout(DEADLINE_S)
        near.sendall(b"b")
        assert receive(accepted, 1) in (b"a", b"b")


def test_an_isolated_region_talks_to_nobody_and_the_others_go_on(wan: Wan, net: Net) -> None:
    to_r2, from_r3, others, own = net.pair("r1", "r2"), net.pair("r3", "r1"), net.pair("r2", "r3"), net.pair("r1", "r1")
    wan.isolate("r1")
    for near, far in (to_r2, from_r3):
        near.sendall(b"a")
        far.sendall(b"b")
        assert is_silent(far)
        assert is_silent(near)
    for near, far in (others, own):
        assert passes(near, far)
        assert passes(far, near)
    wan.heal()
    for near, far in (to_r2, from_r3):
        assert receive(far, 1) == b"a"
        assert receive(near, 1) == b"b"


def test_a_delay_outlives_healing(wan: Wan, net: Net) -> None:
    near, far = net.pair("r1", "r2")
    wan.delay("r1", "r2", 100)
    wan.cut("r1", "r2")
    wan.heal()
    started = time.monotonic()
    assert passes(near, far)
    assert time.monotonic() - started >= 0.050


def test_what_a_cut_held_crosses_again_after_healing(wan: Wan, net: Net) -> None:
    near, far = net.pair("r1", "r2")
    wan.delay("r1", "r2", 200)
    wan.cut("r1", "r2")
    near.sendall(b"a")
    assert is_silent(far)
    started = time.monotonic()
    wan.heal()
    assert receive(far, 1) == b"a"
    assert time.monotonic() - started >= 0.100


def test_faults_come_from_any_thread(wan: Wan, net: Net) -> None:
    near, far = net.pair("r1", "r2")

    def is_answered_as_it_was_asked(number: int) -> bool:
        try:
            wan.cut("r2", "r3" if number % 2 else "mars")
        except ValueError:
            return number % 2 == 0
        return number % 2 == 1

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(is_answered_as_it_was_asked, range(400)))
    assert passes(near, far)


# --- streams


def test_a_large_transfer_arrives_as_it_was_sent(wan: Wan, net: Net) -> None:
    near, far = net.pair("r1", "r2")
    wan.delay("r1", "r2", 20)
    data = random.Random(4).randbytes(6 * MIB)
    with ThreadPoolExecutor(2) as threads:
        threads.submit(near.sendall, data)
        threads.submit(far.sendall, data[::-1])
        assert receive(far, len(data)) == data
        assert receive(near, len(data)) == data[::-1]


def test_a_reader_that_waits_stops_the_writer(wan: Wan, net: Net) -> None:
    near, _ = net.pair("r1", "r2")
    near.settimeout(1.0)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 64 * MIB:
            sent += near.send(bytes(65536))
    assert sent < 64 * MIB


def test_the_end_of_one_way_leaves_the_other(wan: Wan, net: Net) -> None:
    near, far = net.pair("r1", "r2")
    near.sendall(b"a")
    near.shutdown(socket.SHUT_WR)
    assert receive(far, 2) == b"a"
    assert passes(far, near)
    far.close()
    assert near.recv(1) == b""


def test_a_reset_is_a_reset_at_the_other_end(wan: Wan, net: Net) -> None:
    for reset_end in (0, 1):
        ends = net.pair("r1", "r2")
        ends[reset_end].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ends[reset_end].close()
        with pytest.raises(ConnectionResetError):
            ends[1 - reset_end].recv(1)


def test_writing_to_an_end_that_was_closed_is_reset(wan: Wan, net: Net) -> None:
    near, far = net.pair("r1", "r2")
    far.close()
    assert near.recv(1) == b""

    def is_refused() -> bool:
        try:
            near.send(b"a")
        except (ConnectionResetError, BrokenPipeError):
            return True
        return False

    wait_until(is_refused, what="an error on writing to a closed end")


def test_a_refusal_is_a_refusal(wan: Wan, net: Net) -> None:
    listening = net.listen("r2")
    port = listening.getsockname()[1]
    listening.close()
    wan.delay("r1", "r2", 100)
    started = time.monotonic()
    with pytest.raises((ConnectionRefusedError, ConnectionResetError)):
        net.dial("r1", "r2", port).recv(1)
    assert time.monotonic() - started >= 0.100


def test_a_refusal_does_not_come_through_a_cut(wan: Wan, net: Net) -> None:
    listening = net.listen("r2")
    address = wan.address("r1", "r2", listening.getsockname()[1])
    listening.close()
    wan.cut_one_way("r2", "r1")
    near = net.make_socket("r1")
    near.setblocking(False)
    near.connect_ex(address)
    assert is_silent(near)


def test_a_proxy_does_not_take_itself_for_its_target(packets: Wan) -> None:
    argv = command(
        packets.namespace("r1"), [sys.executable, "-c", ONE_FREE_PORT]
    )  # in a region: the setting is its own
    ended = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert ended.stdout == "refused\n"


def test_an_address_stays_the_same(wan: Wan) -> None:
    assert wan.address("r1", "r2", 7100) == wan.address("r1", "r2", 7100)


# --- loss, and other things of packets


def test_all_is_lost_or_nothing(packets: Wan, packet_net: Net) -> None:
    near, far = packet_net.pair("r1", "r2")
    packets.loss("r1", "r2", 1)
    near.sendall(b"a")
    far.sendall(b"b")
    assert is_silent(far)
    assert is_silent(near)
    packets.loss("r1", "r2", 0)
    assert receive(far, 1) == b"a"
    assert receive(near, 1) == b"b"


def test_a_share_is_lost(packets: Wan, packet_net: Net) -> None:
    send, arrivals = packet_net.datagrams("r1", "r2")
    arrived = 0
    for _ in range(100):  # few at a time, so that no queue overflows
        packets.loss("r1", "r2", 0.5)
        for _ in range(10):
            send(b"a")
        packets.heal()
        send(b"end")
        while arrivals.recv(16) != b"end":
            arrived += 1
    assert 350 < arrived < 650


def test_a_transfer_survives_loss(packets: Wan, packet_net: Net) -> None:
    near, far = packet_net.pair("r1", "r2")
    packets.loss("r1", "r2", 0.02)
    data = random.Random(4).randbytes(MIB)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(near.sendall, data)
        assert receive(far, len(data)) == data


def test_streams_have_no_packets_to_lose() -> None:
    with open_wan(REGIONS, "proxies") as wan, pytest.raises(NotImplementedError, match="namespaces"):
        wan.loss("r1", "r2", 0.1)


def test_packets_under_way_at_a_cut_are_lost(packets: Wan, packet_net: Net) -> None:
    send, arrivals = packet_net.datagrams("r1", "r2")
    packets.delay("r1", "r2", 600_000)
    send(b"before")
    packets.cut("r1", "r2")
    send(b"during")
    packets.heal()
    packets.delay("r1", "r2", 0)
    send(b"after")
    assert arrivals.recv(16) == b"after"


def test_packets_stay_in_order(packets: Wan, packet_net: Net) -> None:
    send, arrivals = packet_net.datagrams("r1", "r2")
    packets.delay("r1", "r2", 20)
    for number in range(200):
        send(bytes([number]))
    assert [arrivals.recv(1)[0] for _ in range(200)] == list(range(200))


def test_a_region_is_closed_to_the_machine(packets: Wan, packet_net: Net) -> None:
    listening = packet_net.listen("r1")
    with socket.socket() as outside:
        outside.settimeout(SILENCE_S)
        with pytest.raises(OSError):
            outside.connect(listening.getsockname())


# --- bad input


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda wan: wan.cut("r1", "mars"), "'mars'"),
        (lambda wan: wan.cut_one_way("r2", "r2"), "'r2'"),
        (lambda wan: wan.isolate("mars"), "'mars'"),
        (lambda wan: wan.delay("r1", "r2", -1), "round_trip_ms"),
        (lambda wan: wan.delay("r1", "r2", float("nan")), "round_trip_ms"),
        (lambda wan: wan.host("mars"), "'mars'"),
        (lambda wan: wan.namespace("mars"), "'mars'"),
        (lambda wan: wan.address("mars", "r1", 1), "'mars'"),
        (lambda wan: wan.address("r1", "mars", 1), "'mars'"),
    ],
)
def test_what_makes_no_sense_is_refused_and_the_network_goes_on(
    wan: Wan, net: Net, fault: Callable[[Wan], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        fault(wan)
    near, far = net.pair("r1", "r2")
    assert passes(near, far)


def test_a_share_beyond_all_is_refused(packets: Wan) -> None:
    with pytest.raises(ValueError, match="share"):
        packets.loss("r1", "r2", 1.5)


@pytest.mark.parametrize("regions", [(), ("r1", "r1"), ("../r1",), ("",), tuple(f"r{n}" for n in range(300))])
@pytest.mark.parametrize("kind_of_any_machine", ["namespaces", "proxies"])
def test_regions_that_cannot_be_are_refused(regions: tuple[str, ...], kind_of_any_machine: Kind) -> None:
    with pytest.raises(ValueError, match="region"):
        open_wan(regions, kind_of_any_machine)


def test_the_kind_is_namespaces_where_they_work() -> None:
    assert open_wan(REGIONS).kind == ("proxies" if why_no_namespaces() else "namespaces")


def test_namespaces_that_cannot_be_made_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    reason = namespaces_work()
    assert reason is not None
    assert open_wan(REGIONS).kind == "proxies"
    with pytest.raises(WanError) as refused, open_wan(REGIONS, "namespaces"):
        pass
    assert str(refused.value) == reason


def test_faults_of_links_do_not_reach_further_than_they_say() -> None:
    class Way:
        delay_s = 0.0
        loss_share = 0.0
        is_cut = False

        def cut(self) -> None:
            self.is_cut = True

        def mend(self) -> None:
            self.is_cut = False

    links = Links(REGIONS, lambda _sender, _receiver: Way())
    links.isolate("r2")
    assert {(a, b) for a in REGIONS for b in REGIONS if a != b and links.get(a, b).is_cut} == {
        ("r1", "r2"), ("r2", "r1"), ("r2", "r3"), ("r3", "r2"),
    }  # fmt: skip
    links.delay("r1", "r3", 30)
    links.loss("r1", "r3", 0.1)
    links.heal()
    assert not any(link.is_cut or link.loss_share for link in links)
    assert links.get("r1", "r3").delay_s == links.get("r3", "r1").delay_s == 0.015


# --- what is left


def test_nothing_is_left_after_the_end(kind: Kind) -> None:
    threads = set(threading.enumerate())
    with open_wan(("r1", "r2"), kind) as wan:
        namespace, proxy = wan.namespace("r1"), wan.address("r2", "r1", 9)[1]
        if namespace is not None:
            assert routers_of(lab_of(namespace))
        else:
            assert is_open(proxy)
    assert set(threading.enumerate()) == threads
    if namespace is not None:
        assert not list(Path("/run/netns").glob(f"{lab_of(namespace)}*"))
        assert not routers_of(lab_of(namespace))
    else:
        assert not is_open(proxy)


def test_it_ends_while_connections_hang(kind: Kind) -> None:
    with contextlib.ExitStack() as open_files, open_wan(("r1", "r2"), kind) as wan:
        near, far = Net(wan, open_files).pair("r1", "r2")
        wan.cut("r1", "r2")
        near.sendall(b"a")
        far.sendall(b"b")


def test_the_network_lives_as_long_as_its_process_not_its_thread(kind: Kind) -> None:
    with ThreadPoolExecutor(1) as thread:
        wan = thread.submit(open_wan(("r1", "r2"), kind).__enter__).result()
    try:
        with contextlib.ExitStack() as open_files:
            net = Net(wan, open_files)
            for _ in range(3):
                near, far = net.pair("r1", "r2")
                assert passes(near, far)
    finally:
        wan.__exit__(None, None, None)


@contextlib.contextmanager
def an_owner(kind: Kind) -> Iterator[tuple[subprocess.Popen[str], str, int, int]]:
    """A process that owns a WAN: the process, its namespace of r1 or a dash, an echo server that it started, and the port of a proxy."""
    argv = [sys.executable, "-c", OWNER, kind, ECHO]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        try:
            namespace, echo, proxy = first_line(owner).split()
            yield owner, namespace, int(echo), int(proxy)
        finally:
            owner.kill()


def test_nothing_is_left_when_its_process_is_killed(kind: Kind) -> None:
    with an_owner(kind) as (owner, namespace, echo, proxy):
        assert is_running(echo)
        owner.kill()
        wait_until(lambda: not is_running(echo), what="the end of the program in the region")
        if kind == "namespaces":
            lab = lab_of(namespace)
            wait_until(lambda: not list(Path("/run/netns").glob(f"{lab}*")), what="the end of the namespaces")
            wait_until(lambda: not routers_of(lab), what="the end of the router")
    wait_until(lambda: not is_open(proxy), what="the end of the proxy")


def test_what_a_killed_router_left_is_swept_by_the_next_and_nothing_else(packets: Wan) -> None:
    with an_owner("namespaces") as (owner, namespace, echo, _):
        lab = lab_of(namespace)
        for router in routers_of(lab):
            os.kill(router, signal.SIGKILL)
        with open_wan(("r1",), "namespaces"):  # its owner lives
            assert Path(namespace).exists()
        owner.kill()
        wait_until(lambda: not is_running(echo), what="the end of the program in the region")
    assert Path(namespace).exists()
    with open_wan(("r1",), "namespaces"):
        assert not list(Path("/run/netns").glob(f"{lab}*"))
        assert all(Path(str(packets.namespace(region))).exists() for region in REGIONS)


def test_a_router_that_was_killed_is_told_and_cleaned_up() -> None:
    if reason := why_no_namespaces():
        pytest.skip(f"no network namespaces here: {reason}")
    with open_wan(REGIONS, "namespaces") as wan:
        lab = lab_of(str(wan.namespace("r1")))
        for router in routers_of(lab):
            os.kill(router, signal.SIGKILL)
        with pytest.raises(WanError, match="router"):
            wan.cut("r1", "r2")
    assert not list(Path("/run/netns").glob(f"{lab}*"))


def test_a_router_that_is_asked_to_end_removes_its_namespaces(packets: Wan) -> None:
    lab = lab_of(str(packets.namespace("r1")))
    (router,) = routers_of(lab)
    os.kill(router, signal.SIGTERM)
    wait_until(lambda: not list(Path("/run/netns").glob(f"{lab}*")), what="the end of the namespaces")


def test_two_networks_live_side_by_side(kind: Kind) -> None:
    with contextlib.ExitStack() as open_files, open_wan(REGIONS, kind) as one, open_wan(REGIONS, kind) as other:
        near_one, far_one = Net(one, open_files).pair("r1", "r2")
        near_other, far_other = Net(other, open_files).pair("r1", "r2")
        one.cut("r1", "r2")
        near_one.sendall(b"a")
        assert passes(near_other, far_other)
        assert is_silent(far_one)


def test_a_program_whose_parent_is_gone_does_not_start() -> None:
    argv = command(None, [sys.executable, "-c", "print('started')"])
    argv[argv.index(str(os.getpid()))] = "1"
    ended = subprocess.run(argv, check=False, capture_output=True)
    assert (ended.returncode, ended.stdout) == (EXIT_PARENT_GONE, b"")
