"""Python processes with the project in them, as other users and on other hosts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ORDINARY_USER = 65534


def interpreter(*, for_user: int | None = None) -> str | None:
    """A Python of this version that the user may run: ours may lie in root's own folder."""
    candidates = [
        sys.executable,
        shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin:/usr/local/bin") or "",
    ]
    for each in filter(None, candidates):
        command = [*as_user(for_user), each, "-c", "import asyncio, _ctypes, json"]
        if subprocess.run(command, capture_output=True, check=False, cwd="/").returncode == 0 and _readable(
            each, for_user
        ):
            return each
    return None


def _readable(program: str, user: int | None) -> bool:
    """Whether the user may also start it anew: an interpreter starts replay workers by its own path."""
    if user is None:
        return True
    return subprocess.run([*as_user(user), "test", "-x", program], check=False).returncode == 0


def as_user(user: int | None) -> list[str]:
    return [] if user is None else ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]


def without_user_namespaces() -> list[str]:
    """A host that forbids them: a namespace in which their number is limited to none."""
    return ["unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "-"]


def environment() -> dict[str, str]:
    """Imports what this process imports, tests included, and writes nothing beside the sources."""
    path = [each for each in sys.path if "site-packages" in each or Path(each).joinpath("isoline_client").is_dir()]
    proto = [each for each in sys.path if Path(each).joinpath("isoline").is_dir()]
    tests = str(Path(__file__).parent.parent)
    joined = os.pathsep.join(dict.fromkeys([*path, *proto, tests]))
    return {**os.environ, "PYTHONPATH": joined, "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/"}
