"""The effect-seam manifest, made from the registry: what is not registered is not in it, and there is no other list."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import isoline_client
from isoline_client.guard.isolation import IsolationReport
from isoline_client.guard.seams import REGISTRY, Registry, Seam

VERSION: Final = "1"

BuildKind = Literal["image-digest", "commit", "artifact-sha256"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What exactly the host runs."""

    kind: BuildKind
    id: str


def this_build() -> Build:
    """The installed client itself: the digest of its sources, which are what guards."""
    root = Path(isoline_client.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode() + content)
    return Build(kind="artifact-sha256", id=digest.hexdigest())


def manifest(*, host: str, build: Build, isolation: IsolationReport, registry: Registry = REGISTRY) -> dict[str, Any]:
    """The manifest as OpenWOP spells it. ``isolation`` is what this host gives its replay workers; the notes say what follows."""
    return {
        "manifestVersion": VERSION,
        "host": {"name": host, "build": {"kind": build.kind, "id": build.id}},
        "seams": [_row(seam, isolation) for seam in registry],
    }


def _row(seam: Seam, isolation: IsolationReport) -> dict[str, Any]:
    row: dict[str, Any] = {
        "seam": seam.name,
        "kind": seam.kind,
        "guarded": True,
        "guardedBy": guarded_by(seam, isolation),
        "branchReFires": seam.branch_refires,
    }
    note = "; ".join(each for each in (seam.note, _unseen(seam, isolation)) if each)
    return row | ({"note": note} if note else {})


def guarded_by(seam: Seam, isolation: IsolationReport) -> str:
    """The layers that know this seam."""
    layers = [
        seam.module if seam.points or not seam.events else "",
        "audit hook" if seam.events else "",
        "isolated replay worker" if isolation.complete else "",
    ]
    return ", ".join(each for each in layers if each)


def _unseen(seam: Seam, isolation: IsolationReport) -> str:
    if not seam.unseen:
        return ""
    held = (
        "stopped by the replay worker alone"
        if isolation.complete
        else "NOT STOPPED on this host, which gives no isolation"
    )
    return f"not seen in the process: {seam.unseen} ({held})"
