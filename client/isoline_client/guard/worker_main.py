"""The replay worker's process: shut in first, everything else behind it.

``python -m isoline_client.guard.worker_main FD`` is given one connected socket. The first message says how; no module of a workflow is
imported before the answer is sent. ``probe FOLDER PORT`` shuts itself in, prints what holds, and ends.
"""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path

from isoline_client.guard import installing
from isoline_client.guard.frames import Message, encode, receive_blocking
from isoline_client.guard.isolation import IsolationReport, shut_in
from isoline_client.guard.switches import SWITCHES, Fences


def main(arguments: list[str]) -> None:
    """Be a replay worker, or probe for one."""
    match arguments:
        case ["probe", scratch, port]:
            sys.stdout.write(json.dumps(shut_in(Path(scratch), listening_port=int(port)).document()))
        case [descriptor]:
            _work(socket.socket(fileno=int(descriptor)))
        case _:
            sys.exit(f"usage: {sys.orig_argv[0]} -m {__spec__.name} FD")


def _work(channel: socket.socket) -> None:
    start = receive_blocking(channel)
    if os.getppid() != start["parent"]:
        return  # whoever started us is gone, and so is the signal that would have said so
    report = _prepare(start)
    channel.sendall(encode({"op": "started", "pid": os.getpid(), "isolation": report.document()}))

    from isoline_client.guard.dispatcher import serve

    asyncio.run(serve(channel))


def _prepare(start: Message) -> IsolationReport:
    """Shut in, take over the executor's switches, and put the in-process layers on top."""
    scratch = Path(start["scratch"])
    report = shut_in(scratch, listening_port=start["port"], fences=Fences(**start["fences"]))
    os.environ["TMPDIR"] = str(scratch)
    SWITCHES.seams, SWITCHES.hooks, SWITCHES.carrying = start["switches"]
    installing.install()
    return report


if __name__ == "__main__":
    main(sys.argv[1:])
