"""A wide-area network between regions on one machine: delay, loss, one-way cuts, isolation. Two ways, one interface (``base``).

``namespaces`` gives every region a network namespace and routes between them: real packets, real silence. It needs root and a TUN device.
``proxies`` puts a delaying TCP proxy before every cross-region connection: needs nothing, and knows nothing below TCP.
"""

from collections.abc import Sequence

from isoline_drill.wan.base import Kind, Wan
from isoline_drill.wan.namespaces import NamespaceWan, WanError, namespaces_work
from isoline_drill.wan.proxies import ProxyWan

__all__ = ["Kind", "Wan", "WanError", "namespaces_work", "open_wan"]


def open_wan(regions: Sequence[str], kind: Kind | None = None) -> Wan:
    """A WAN between these regions, to be entered; without a kind: of namespaces where they work, else of proxies.

    Raises ``ValueError`` for names that cannot be those of regions. Entering one of namespaces raises ``WanError`` where they do not work.
    """
    if kind is None:
        kind = "proxies" if namespaces_work() else "namespaces"
    return NamespaceWan(regions) if kind == "namespaces" else ProxyWan(regions)
