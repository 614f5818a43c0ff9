"""``isoline seams``: by which ways an effect can leave a node, what guards each, and what no guard inside the process sees."""

import asyncio
from typing import Final

import typer
from rich.table import Table

from isoline_client.cli.options import add_command
from isoline_client.cli.output import add_row, facts, table
from isoline_client.cli.session import Session
from isoline_client.guard.isolation import IsolationReport, probe
from isoline_client.guard.manifest import guarded_by, manifest, this_build
from isoline_client.guard.seams import REGISTRY

HOST: Final = "isoline"


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, seams)


async def seams(session: Session) -> None:
    r"""Show every way by which an effect can leave a node, and what guards it on this machine.

    A replay worker is started, to see whether this machine isolates one. With --json the effect-seam manifest of OpenWOP: {"manifestVersion",
    "host": {"name", "build": {"kind", "id"}}, "seams": [{"seam", "kind", "guarded", "guardedBy", "branchReFires", "note"}]}.

    \b
    isoline seams
    isoline seams --json | jq -r .seams[].seam
    """
    isolation = await asyncio.to_thread(probe)
    if session.out.json:
        session.out.document(manifest(host=HOST, build=await asyncio.to_thread(this_build), isolation=isolation))
    else:
        session.out.show(_seams(isolation), _layers(isolation))


def _seams(isolation: IsolationReport) -> Table:
    made = table("seam", "kind", "guarded by", "not seen inside the process")
    for seam in REGISTRY:
        layers = guarded_by(seam, isolation).replace("isoline_client.guard.", "")
        add_row(made, seam.name, seam.kind, layers, seam.unseen)
    return made


def _layers(isolation: IsolationReport) -> Table:
    held = "holds here: whatever the others do not see is stopped"
    open_ = f"does NOT hold here: {'; '.join(isolation.reasons)}"
    return facts(
        [
            ("(a) seams", "see every call of the libraries they wrap, also over connections opened before"),
            ("(b) audit hook", "sees what CPython announces; never a socket made in C, nor sending on an open one"),
            ("(c) replay worker", held if isolation.complete else open_),
        ]
    )
