"""A WAN of network namespaces, from the side of the process that uses it: starts the router, commands it, ends it. Carries no packet itself."""

import contextlib
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from isoline_drill.wan import netns
from isoline_drill.wan.base import Kind
from isoline_drill.wan.links import check_regions

ANSWER_DEADLINE_S: Final = 30.0  # far above what a busy machine needs
_MESSAGE_BYTES_MAX: Final = 65536
_counter = itertools.count(1)


class WanError(Exception):
    """The emulated network could not be made, or its router has ended."""


class NamespaceWan:
    """One network namespace a region, one router process between them. See ``base.Wan``.

    A region's programs run in ``namespace(region)`` and listen on ``host(region)`` or on every address. The router's life does not depend on
    the thread that entered the context; it ends with the process, however that ends, and takes the namespaces along.
    """

    kind: Kind = "namespaces"

    def __init__(self, regions: Sequence[str]) -> None:
        """Raises ``ValueError`` for names that cannot be those of regions."""
        check_regions(regions)
        self.regions: Sequence[str] = tuple(regions)
        self._lock = threading.Lock()
        self._lab = ""
        self._control: socket.socket | None = None
        self._router: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Raises ``WanError`` with the reason when the network cannot be made."""
        if missing := _missing():
            raise WanError(missing)
        self._lab = netns.lab_name(os.getpid(), next(_counter))
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(ANSWER_DEADLINE_S)
        with theirs:
            self._router = _start_router(self._lab, theirs, self.regions)
        try:
            problem = self._answer()
            if problem is not None:
                raise WanError(problem)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def host(self, region: str) -> str:
        return netns.address_of(self._number(region))

    def address(self, viewer: str, owner: str, port: int) -> tuple[str, int]:
        self._number(viewer)
        return self.host(owner), port

    def namespace(self, region: str) -> str | None:
        self._number(region)
        return netns.path_of(netns.namespace_name(self._lab, region))

    def delay(self, a: str, b: str, round_trip_ms: float) -> None:
        self._command("delay", a, b, round_trip_ms)

    def loss(self, a: str, b: str, share: float) -> None:
        self._command("loss", a, b, share)

    def cut(self, a: str, b: str) -> None:
        """What is under way between the two is lost."""
        self._command("cut", a, b)

    def cut_one_way(self, sender: str, receiver: str) -> None:
        self._command("cut_one_way", sender, receiver)

    def isolate(self, region: str) -> None:
        self._command("isolate", region)

    def heal(self) -> None:
        self._command("heal")

    def _number(self, region: str) -> int:
        if region not in self.regions:
            raise ValueError(f"region {region!r} is none of {', '.join(self.regions)}")
        return self.regions.index(region) + 1

    def _command(self, verb: str, *arguments: str | float) -> None:
        """Return when the command is in force. Raises ``ValueError`` for one that makes no sense, ``WanError`` when nobody obeys."""
        if self._control is None:
            raise WanError("the network does not stand: commands are given inside its context")
        with self._lock:
            try:
                self._control.send(json.dumps([verb, *arguments]).encode())
            except OSError as error:
                raise WanError(f"the router has ended: {error}") from error
            problem = self._answer()
        if problem is not None:
            raise ValueError(problem)

    def _answer(self) -> str | None:
        assert self._control is not None
        try:
            message = self._control.recv(_MESSAGE_BYTES_MAX)
        except OSError as error:
            self._control.close()  # an answer that comes late must not pass for the next one's
            raise WanError(f"no answer from the router: {error}") from error
        if not message:
            raise WanError("the router has ended")
        answer: str | None = json.loads(message)
        return answer

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()  # which ends the router
            self._control = None
        if self._router is not None:
            _wait_for_end(self._router)
            self._router = None
        for name in netns.names_of(self._lab):  # none, unless the router was killed
            netns.remove(name)


def namespaces_work() -> str | None:
    """None when a WAN of namespaces can be made here and now (one is made), else what is missing."""
    try:
        with NamespaceWan(("probe",)):
            return None
    except WanError as error:
        return str(error)


def _missing() -> str | None:
    """What is plainly missing. None does not yet mean that it works."""
    if sys.platform != "linux":
        return f"network namespaces are Linux's, and this is {sys.platform}"
    if os.geteuid() != 0:
        return "not root"
    if shutil.which("ip") is None:
        return "no program named ip (iproute2)"
    if not netns.TUN.exists():
        return f"no {netns.TUN}"
    return None


def _start_router(lab: str, control: socket.socket, regions: Sequence[str]) -> subprocess.Popen[bytes]:
    handle = control.fileno()
    arguments = [str(os.getpid()), lab, str(handle), *regions]
    return subprocess.Popen(
        [sys.executable, "-m", "isoline_drill.wan.router", *arguments],
        pass_fds=[handle],
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # an interrupt at the terminal ends the drill, and the drill the router
    )


def _wait_for_end(router: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        router.wait(ANSWER_DEADLINE_S)
        return
    router.kill()
    router.wait()
