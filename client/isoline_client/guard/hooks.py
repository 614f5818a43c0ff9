"""Layer (b): an audit hook that denies every event of the registry while the policy denies. It cannot be taken off again.

It sees what CPython announces, in every thread, and nothing that happens in C. Outside of nodes it costs one look at the context.
"""

import sys
from typing import Any

from isoline_client.guard.policy import current, refused
from isoline_client.guard.seams import REGISTRY
from isoline_client.guard.switches import SWITCHES


def install() -> None:
    """Add the hook. Once a process."""
    # Python writes a byte-code cache when a node imports something late; that would be a file written by the node.
    sys.dont_write_bytecode = True
    sys.addaudithook(_deny)


def _deny(event: str, arguments: tuple[Any, ...]) -> None:
    scope = current()
    if not scope.denies:
        return
    found = REGISTRY.events.get(event)
    if found is None or not SWITCHES.hooks:
        return
    seam, is_effect = found
    if is_effect(arguments):
        raise refused(scope, seam, event)
