"""Every way out that a node could try, one function each. The table says which in-process layer sees it by itself.

A way gets where the outside is and what was opened before; it may raise whatever it likes. ``outside.reached`` alone tells whether it got out.
"""

# ruff: noqa: PTH101, PTH102, PTH104, PTH107, PTH123, PTH207, PTH211

import _thread
import asyncio
import concurrent.futures
import contextlib
import ctypes
import ftplib
import glob
import http.client
import multiprocessing
import os
import shutil
import smtplib
import socket
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx
import psycopg
import requests
import uvloop
from grpc._cython import cygrpc

SHORT_S = 2


@dataclass
class World:
    """What a node can see of the outside."""

    port: int
    udp_port: int
    unix: str
    files: str
    opened: dict[str, Any] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def folder(self) -> Path:
        return Path(self.files)


Attempt = Callable[[World], None]


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way out. ``seams`` and ``hooks``: whether that layer stops it alone. ``opens`` is done before the node, outside of it."""

    name: str
    seams: bool
    hooks: bool
    attempt: Attempt
    opens: Callable[[World], Any] | None = None
    needs: str = ""

    @property
    def here(self) -> bool:
        return not self.needs or find_spec(self.needs) is not None


WAYS: dict[str, Way] = {}


def way(
    *, seams: bool, hooks: bool, opens: Callable[[World], Any] | None = None, needs: str = ""
) -> Callable[[Attempt], Attempt]:
    def add(attempt: Attempt) -> Attempt:
        name = attempt.__name__.strip("_")
        WAYS[name] = Way(name=name, seams=seams, hooks=hooks, attempt=attempt, opens=opens, needs=needs)
        return attempt

    return add


# Libraries that were loaded, and functions that were looked up, before any node.

_libc = ctypes.CDLL(None, use_errno=True)
_c_socket, _c_connect, _c_open, _c_system = _libc.socket, _libc.connect, _libc.open, _libc.system
_libpq_path = [
    *glob.glob(f"{Path(psycopg.__file__).parent.parent}/psycopg_binary.libs/libpq-*"),
    *glob.glob("/usr/lib/*/libpq.so.5"),
]
_pq_connect = ctypes.CDLL(_libpq_path[0]).PQconnectdb if _libpq_path else None


def _c_address(port: int) -> bytes:
    return (
        socket.AF_INET.to_bytes(2, sys.byteorder) + port.to_bytes(2, "big") + socket.inet_aton("127.0.0.1") + bytes(8)
    )


# HTTP clients written in Python


@way(seams=True, hooks=True)
def urllib_request(world: World) -> None:
    urllib.request.urlopen(world.url, timeout=SHORT_S).read()


@way(seams=True, hooks=True)
def http_client(world: World) -> None:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", world.port, timeout=SHORT_S)) as connection:
        connection.request("GET", "/")
        connection.getresponse().read()


@way(seams=True, hooks=True)
def requests_get(world: World) -> None:
    requests.get(world.url, timeout=SHORT_S)


@way(seams=True, hooks=True)
def httpx_sync(world: World) -> None:
    httpx.get(world.url, timeout=SHORT_S)


@way(seams=True, hooks=True)
def httpx_async(world: World) -> None:
    asyncio.run(_httpx_get(world))


@way(seams=True, hooks=True, needs="aiohttp")
def aiohttp_get(world: World) -> None:
    import aiohttp

    async def get() -> None:
        async with aiohttp.ClientSession() as session, session.get(world.url) as answer:
            await answer.read()

    asyncio.run(get())


@way(seams=False, hooks=True)
def asyncio_streams(world: World) -> None:
    asyncio.run(_streams(world))


async def _httpx_get(world: World) -> None:
    async with httpx.AsyncClient(timeout=SHORT_S) as client:
        await client.get(world.url)


async def _streams(world: World) -> None:
    _reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    await writer.drain()
    writer.close()


# Threads


@way(seams=True, hooks=True)
def to_thread(world: World) -> None:
    asyncio.run(asyncio.to_thread(requests_get, world))


@way(seams=True, hooks=True)
def thread_requests(world: World) -> None:
    _in_thread(lambda: requests_get(world))


@way(seams=False, hooks=True)
def thread_subclass_socket(world: World) -> None:
    class Leaving(threading.Thread):
        def run(self) -> None:
            with contextlib.suppress(BaseException):
                tcp(world)

    leaving = Leaving()
    leaving.start()
    leaving.join()


@way(seams=True, hooks=True)
def thread_in_thread(world: World) -> None:
    _in_thread(lambda: _in_thread(lambda: requests_get(world)))


@way(seams=False, hooks=True)
def bare_thread(world: World) -> None:
    done = threading.Event()

    def leave() -> None:
        with contextlib.suppress(BaseException):
            tcp(world)
        done.set()

    _thread.start_new_thread(leave, ())
    done.wait(SHORT_S)


@way(seams=True, hooks=True)
def thread_pool(world: World) -> None:
    with concurrent.futures.ThreadPoolExecutor() as pool:
        pool.submit(requests_get, world).result()


@way(seams=True, hooks=True, opens=lambda _world: _warm_pool())
def thread_pool_from_before(world: World) -> None:
    world.opened["thread_pool_from_before"].submit(requests_get, world).result()


@way(seams=False, hooks=True)
def thread_pool_initializer(world: World) -> None:
    with concurrent.futures.ThreadPoolExecutor(initializer=tcp, initargs=(world,)) as pool:
        pool.submit(int).result()


@way(seams=True, hooks=True)
def run_in_executor(world: World) -> None:
    async def run() -> None:
        await asyncio.get_running_loop().run_in_executor(None, requests_get, world)

    asyncio.run(run())


@way(seams=True, hooks=True)
def uvloop_run_in_executor(world: World) -> None:
    async def run() -> None:
        await asyncio.get_running_loop().run_in_executor(None, requests_get, world)

    uvloop.run(run())


def _in_thread(work: Callable[[], None]) -> None:
    def leave() -> None:
        with contextlib.suppress(BaseException):
            work()

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()


def _warm_pool() -> concurrent.futures.ThreadPoolExecutor:
    pool = concurrent.futures.ThreadPoolExecutor(max_workers=1)
    pool.submit(int).result()
    return pool


# Sockets made in C


@way(seams=True, hooks=False)
def uvloop_httpx(world: World) -> None:
    uvloop.run(_httpx_get(world))


@way(seams=False, hooks=False)
def uvloop_streams(world: World) -> None:
    uvloop.run(_streams(world))


@way(seams=False, hooks=False, needs="pycurl")
def pycurl_perform(world: World) -> None:
    import pycurl

    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, world.url)
    curl.setopt(pycurl.TIMEOUT, SHORT_S)
    curl.setopt(pycurl.WRITEFUNCTION, lambda _data: None)
    curl.perform()


@way(seams=False, hooks=False)
def c_socket(world: World) -> None:
    connected = _c_socket(int(socket.AF_INET), int(socket.SOCK_STREAM), 0)
    address = _c_address(world.port)
    _c_connect(connected, address, len(address))
    os.close(connected)


@way(seams=False, hooks=False)
def libpq(world: World) -> None:
    if _pq_connect is not None:
        _pq_connect(f"host=127.0.0.1 port={world.port} connect_timeout={SHORT_S} sslmode=disable".encode())


@way(seams=False, hooks=False)
def c_unix_socket(world: World) -> None:
    connected = _c_socket(int(socket.AF_UNIX), int(socket.SOCK_STREAM), 0)
    address = socket.AF_UNIX.to_bytes(2, sys.byteorder) + world.unix.encode() + b"\0"
    _c_connect(connected, address, len(address))
    with contextlib.suppress(OSError):
        os.close(connected)


@way(seams=True, hooks=False)
def psycopg_connect(world: World) -> None:
    psycopg.connect(f"host=127.0.0.1 port={world.port} connect_timeout={SHORT_S} sslmode=disable user=x dbname=x")


@way(seams=True, hooks=False)
def psycopg_async(world: World) -> None:
    at = f"host=127.0.0.1 port={world.port} connect_timeout={SHORT_S} sslmode=disable user=x dbname=x"
    asyncio.run(psycopg.AsyncConnection.connect(at))


@way(seams=True, hooks=False)
def grpc_sync(world: World) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{world.port}") as channel:
        channel.unary_unary("/a/b")(b"", timeout=SHORT_S)


@way(seams=True, hooks=False)
def grpc_aio(world: World) -> None:
    async def call() -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{world.port}") as channel:
            await channel.unary_unary("/a/b")(b"", timeout=SHORT_S)

    asyncio.run(call())


@way(seams=False, hooks=False)
def grpc_core(world: World) -> None:
    channel = cygrpc.Channel(f"127.0.0.1:{world.port}".encode(), (), None)
    channel.check_connectivity_state(True)
    import time

    channel.watch_connectivity_state(cygrpc.ConnectivityState.connecting, time.time() + SHORT_S / 4)
    channel.close(cygrpc.StatusCode.cancelled, "done")


# Opened before


@way(seams=False, hooks=False, opens=lambda world: socket.create_connection(("127.0.0.1", world.port)))
def socket_from_before(world: World) -> None:
    world.opened["socket_from_before"].sendall(b"GET / HTTP/1.1\r\n\r\n")


@way(seams=True, hooks=True, opens=lambda world: _warm_session(world))  # noqa: PLW0108 - defined below
def requests_session_from_before(world: World) -> None:
    world.opened["requests_session_from_before"].get(world.url, timeout=SHORT_S)


@way(seams=True, hooks=False, opens=lambda world: _warm_client(world))  # noqa: PLW0108 - defined below
def httpx_client_from_before(world: World) -> None:
    world.opened["httpx_client_from_before"].get(world.url)


@way(seams=True, hooks=False, opens=lambda world: grpc.insecure_channel(f"127.0.0.1:{world.port}"))
def grpc_channel_from_before(world: World) -> None:
    world.opened["grpc_channel_from_before"].unary_unary("/a/b")(b"", timeout=SHORT_S)


@way(seams=False, hooks=False, opens=lambda world: (world.folder / "kept").open("w"))
def file_from_before(world: World) -> None:
    world.opened["file_from_before"].write("changed")
    world.opened["file_from_before"].flush()


def _warm_session(world: World) -> requests.Session:
    session = requests.Session()
    session.get(world.url, timeout=SHORT_S)
    return session


def _warm_client(world: World) -> httpx.Client:
    client = httpx.Client(timeout=SHORT_S)
    client.get(world.url)
    return client


# Other sockets and protocols of Python


@way(seams=False, hooks=True)
def tcp(world: World) -> None:
    socket.create_connection(("127.0.0.1", world.port), SHORT_S).close()


@way(seams=False, hooks=True)
def tcp_without_names(world: World) -> None:
    with socket.socket() as connected:
        connected.connect_ex(("127.0.0.1", world.port))


@way(seams=False, hooks=True)
def udp_sendto(world: World) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.sendto(b"x", ("127.0.0.1", world.udp_port))


@way(seams=False, hooks=True)
def udp_sendmsg(world: World) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.sendmsg([b"x"], [], 0, ("127.0.0.1", world.udp_port))


@way(seams=False, hooks=True)
def unix_socket(world: World) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
        connected.connect(world.unix)


@way(seams=True, hooks=True)
def smtp(world: World) -> None:
    smtplib.SMTP("127.0.0.1", world.port, timeout=SHORT_S / 4).close()


@way(seams=False, hooks=True)
def ftp(world: World) -> None:
    with contextlib.closing(ftplib.FTP(timeout=SHORT_S / 4)) as session:
        session.connect("127.0.0.1", world.port)


# Other processes. Each tries to write a file.


@way(seams=True, hooks=True)
def subprocess_run(world: World) -> None:
    subprocess.run(_leave_a_file(world), check=True)


@way(seams=False, hooks=True)
def os_system(world: World) -> None:
    os.system(f"touch {world.files}/made")


@way(seams=False, hooks=False)
def c_system(world: World) -> None:
    _c_system(f"touch {world.files}/made".encode())


@way(seams=False, hooks=True)
def posix_spawn(world: World) -> None:
    os.waitpid(os.posix_spawn("/bin/sh", _leave_a_file(world), os.environ), 0)


@way(seams=False, hooks=True)
def fork(world: World) -> None:
    child = os.fork()
    if child == 0:
        _c_open(f"{world.files}/made".encode(), os.O_WRONLY | os.O_CREAT, 0o600)
        os._exit(0)
    os.waitpid(child, 0)


@way(seams=True, hooks=True)
def multiprocessing_fork(world: World) -> None:
    _run_process(multiprocessing.get_context("fork"), world)


@way(seams=True, hooks=False)
def multiprocessing_spawn(world: World) -> None:
    _run_process(multiprocessing.get_context("spawn"), world)


@way(seams=True, hooks=False)
def process_pool(world: World) -> None:
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        pool.submit(os.mkdir, f"{world.files}/made").result()


def _run_process(context: Any, world: World) -> None:
    process = context.Process(target=os.mkdir, args=(f"{world.files}/made",))
    process.start()
    process.join()


def _leave_a_file(world: World) -> list[str]:
    return ["/bin/sh", "-c", f"touch {world.files}/made"]


# Files


@way(seams=False, hooks=True)
def open_w(world: World) -> None:
    open(world.folder / "made", "w").close()


@way(seams=False, hooks=True)
def open_r_plus(world: World) -> None:
    with open(world.folder / "kept", "r+") as changed:
        changed.write("changed")


@way(seams=False, hooks=True)
def os_open(world: World) -> None:
    written = os.open(world.folder / "kept", os.O_WRONLY)
    os.write(written, b"changed")
    os.close(written)


@way(seams=False, hooks=True)
def os_rename(world: World) -> None:
    os.rename(world.folder / "moved", world.folder / "made")


@way(seams=False, hooks=True)
def os_remove(world: World) -> None:
    os.remove(world.folder / "removed")


@way(seams=False, hooks=True)
def os_mkdir(world: World) -> None:
    os.mkdir(world.folder / "made")


@way(seams=False, hooks=True)
def os_truncate(world: World) -> None:
    os.truncate(world.folder / "short", 1)


@way(seams=False, hooks=True)
def os_chmod(world: World) -> None:
    os.chmod(world.folder / "kept", 0o777)


@way(seams=False, hooks=True)
def os_symlink(world: World) -> None:
    os.symlink("kept", world.folder / "made")


@way(seams=False, hooks=True)
def os_link(world: World) -> None:
    os.link(world.folder / "kept", world.folder / "made")


@way(seams=True, hooks=False)
def os_mkfifo(world: World) -> None:
    os.mkfifo(world.folder / "made")


@way(seams=False, hooks=True)
def shutil_copy(world: World) -> None:
    shutil.copy(world.folder / "kept", world.folder / "made")


@way(seams=False, hooks=True)
def sqlite_file(world: World) -> None:
    sqlite3.connect(world.folder / "made").execute("CREATE TABLE a (b)")


@way(seams=False, hooks=False)
def c_open(world: World) -> None:
    os.close(_c_open(f"{world.files}/made".encode(), os.O_WRONLY | os.O_CREAT, 0o600))


# Native code


@way(seams=False, hooks=True)
def ctypes_dlopen(world: World) -> None:
    library = ctypes.CDLL("libc.so.6")
    library.open(f"{world.files}/made".encode(), os.O_WRONLY | os.O_CREAT, 0o600)


# Contexts that forget


@way(seams=False, hooks=False)
def empty_context(world: World) -> None:
    import contextvars

    contextvars.Context().run(open_w, world)
