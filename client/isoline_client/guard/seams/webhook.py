"""Webhooks: a notification posted to an address that somebody registered."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from isoline_client.guard.policy import ask
from isoline_client.guard.seams.seam import REGISTRY, Seam

WEBHOOK: Final = REGISTRY.add(
    Seam(
        name="webhook.post",
        kind="webhook-fanout",
        module=__name__,
        note="a branch posts only its own events; the inherited prefix is no news",
    )
)

Post = Callable[[str, bytes, Mapping[str, str]], Awaitable[int]]
"""Sends a body with headers to an address and tells the status."""


def guarded_webhook(post: Post) -> Post:
    """``post`` that asks first."""

    async def asked(url: str, body: bytes, headers: Mapping[str, str]) -> int:
        ask(WEBHOOK.name, url)
        return await post(url, body, headers)

    return asked
