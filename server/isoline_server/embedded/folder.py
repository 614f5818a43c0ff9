"""The data folder: its layout, the lock that makes it ours alone, temporary folders and the removal of abandoned ones.

::

    isoline.lock    held while a supervisor works here
    password        libpq's password file, 0600
    nodes/<name>    one PostgreSQL data folder each; <name>.new is one that is not complete yet
    logs/<name>.log of the latest start (.log.1: of the start before)
    binaries/       only where PostgreSQL runs under an account that cannot reach the installed programs

Nothing here knows what PostgreSQL keeps in its folders.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Final

from isoline_server.embedded.errors import EmbeddedPostgresError
from isoline_server.embedded.identity import Identity
from isoline_server.embedded.leftovers import clear_leftovers, release_memory
from isoline_server.embedded.settings import SUPERUSER

TEMPORARY_PREFIX: Final = "isoline-postgres-"

_LOCK: Final = "isoline.lock"
_TEMPORARY_TRIES: Final = 10


class DataFolder:
    """A locked data folder. ``close`` gives up the lock and removes the folder if it was temporary."""

    def __init__(self, path: Path, lock: int, *, temporary: bool, made_here: bool) -> None:
        self.path = path
        self._lock = lock
        self._temporary = temporary
        self._made_here = made_here

    @classmethod
    def open(cls, data_dir: Path) -> "DataFolder":
        """A folder that is kept; made if it does not exist."""
        path = data_dir.expanduser().resolve()
        try:
            made_here = not path.exists()
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not (path / _LOCK).exists() and any(path.iterdir()):
                raise EmbeddedPostgresError(
                    f"{path} is not empty and is not a data folder of Isoline; choose another one"
                )
            lock = _try_lock(path, create=True)
        except OSError as error:
            raise EmbeddedPostgresError(f"the data folder cannot be used: {error}") from error
        if lock is None:
            raise EmbeddedPostgresError(f"{path} is in use by another supervisor (pid {_holder(path)}); stop it first")
        return cls(path, lock, temporary=False, made_here=made_here)

    @classmethod
    def open_temporary(cls, parent: Path | None) -> "DataFolder":
        """A new folder that ``close`` removes. Those of supervisors that were killed before they could are removed now."""
        parent = Path(tempfile.gettempdir()) if parent is None else parent.expanduser()
        _sweep(parent.resolve())
        for _ in range(_TEMPORARY_TRIES):
            path = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=parent)).resolve()
            lock = _try_lock(path, create=True)
            if lock is not None:  # else somebody's sweep was faster
                return cls(path, lock, temporary=True, made_here=True)
        raise EmbeddedPostgresError(f"no temporary folder could be locked in {parent}")

    @property
    def passfile(self) -> Path:
        return self.path / "password"

    @property
    def binaries(self) -> Path:
        return self.path / "binaries"

    def node(self, name: str) -> Path:
        return self.path / "nodes" / name

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def open_to(self, identity: Identity) -> None:
        """Make the places inside. Another account may pass through a folder that we made; a user's own folder keeps its mode."""
        nodes = self.path / "nodes"
        (self.path / "logs").mkdir(mode=0o700, exist_ok=True)
        nodes.mkdir(mode=0o700, exist_ok=True)
        if identity.way == "account":
            nodes.chmod(0o711)
            if self._made_here:
                self.path.chmod(0o711)

    def password(self, identity: Identity) -> str:
        """The password of the cluster, made up at the first call."""
        if not self.passfile.exists():
            line = f"*:*:*:{SUPERUSER}:{secrets.token_urlsafe(32)}\n"
            write_private(self.passfile, line, identity)
        return self.passfile.read_text(encoding="ascii").strip().rpartition(":")[2]

    def close(self) -> None:
        if self._temporary:
            _remove(self.path)
        os.close(self._lock)


def write_private(path: Path, text: str, identity: Identity) -> None:
    """Write a file whole or not at all, readable for PostgreSQL only."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    identity.give(draft)
    draft.replace(path)


def replace_folder(new: Path, old: Path) -> None:
    """Put a finished folder in the place of another, durably."""
    release_memory(old)
    shutil.rmtree(old, ignore_errors=True)
    new.rename(old)
    parent = os.open(old.parent, os.O_RDONLY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def _try_lock(path: Path, *, create: bool) -> int | None:
    """The descriptor that holds the lock, or nothing if it is held, or if the folder was removed under our hands."""
    try:
        lock = os.open(path / _LOCK, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
    except FileNotFoundError:
        return None
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_nlink > 0:
            os.truncate(lock, 0)
            os.write(lock, f"{os.getpid()}\n".encode("ascii"))
            return lock
    os.close(lock)
    return None


def _holder(path: Path) -> str:
    with contextlib.suppress(OSError):
        return (path / _LOCK).read_text(encoding="ascii").strip() or "unknown"
    return "unknown"


def _sweep(parent: Path) -> None:
    for left in parent.glob(f"{TEMPORARY_PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody else sweeps too
            if left.is_symlink() or left.stat().st_uid != os.geteuid():
                continue
            lock = _try_lock(left, create=False)
            if lock is None:
                continue
            for node in (left / "nodes").glob("*"):
                clear_leftovers(node)
            _remove(left)
            os.close(lock)


def _remove(path: Path) -> None:
    for node in (path / "nodes").glob("*"):
        release_memory(node)
    shutil.rmtree(path, ignore_errors=True)
