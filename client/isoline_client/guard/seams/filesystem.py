"""Files that are written, renamed or removed. Reading is not an effect."""

import os
from typing import Any, Final

from isoline_client.guard.seams.seam import REGISTRY, Point, Seam, always

_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES: Final = (
    "rename",
    "remove",
    "mkdir",
    "rmdir",
    "link",
    "symlink",
    "truncate",
    "chmod",
    "chown",
    "chflags",
    "utime",
    "setxattr",
    "removexattr",
)


def opens_for_writing(arguments: tuple[Any, ...]) -> bool:
    """Whether ``open`` may change a file: the flags tell, for ``os.open`` leaves the mode out. A descriptor is open already."""
    path, _mode, flags = arguments
    return bool(flags & _WRITING) and not isinstance(path, int) and path != os.devnull


FILESYSTEM: Final = REGISTRY.add(
    Seam(
        name="filesystem.write",
        kind="other",
        module=__name__,
        note="files and folders of this machine",
        unseen="files opened for writing before the node, and libraries that write in C",
        points=(Point(module="os", path="mkfifo"), Point(module="os", path="mknod")),
        events={"open": opens_for_writing, **{f"os.{each}": always for each in _CHANGES}},
    )
)
