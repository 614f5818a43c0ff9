"""The command line. ``main`` is the console script ``isoline``; everything else is imported when it runs.

``program`` puts the commands together, ``servers`` finds the addresses, ``session`` runs a command and says how it ended, ``output`` and
``documents`` show results. The other modules are the commands, one file a group, and what is too long to stand in one: ``lines`` and
``feed`` read events for ``append``, ``appending`` carries them over, ``engine`` makes that resumable, ``proof`` is the work of ``verify``.
"""

import io
import os
import sys
from pathlib import Path


def main() -> None:
    """Run ``isoline`` with the process's arguments."""
    # A shell's >&- leaves no stdout at all; and a terminal that cannot show a character is no reason to fail.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        from isoline_client.cli.program import make_app

        make_app()()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in {"isoline", "isoline_client", "isoline_server"}:
            raise
        sys.stderr.write(f"isoline: the command line needs {error.name}: pip install 'isoline[cli]'\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
