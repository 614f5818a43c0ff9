"""The seams: one module a way out, each adding itself to the registry. Importing this package makes the registry complete."""

from isoline_client.guard.seams import (
    databases,
    filesystem,
    grpc_channel,
    http,
    processes,
    provider,
    queue,
    smtp,
    sockets,
    storage,
    webhook,
)
from isoline_client.guard.seams.provider import guarded_provider
from isoline_client.guard.seams.queue import GuardedQueue, Queue
from isoline_client.guard.seams.seam import REGISTRY, Kind, Point, Registry, Seam
from isoline_client.guard.seams.storage import GuardedStorage, LocalStorage, Storage
from isoline_client.guard.seams.webhook import guarded_webhook

__all__ = [
    "REGISTRY",
    "GuardedQueue",
    "GuardedStorage",
    "Kind",
    "LocalStorage",
    "Point",
    "Queue",
    "Registry",
    "Seam",
    "Storage",
    "databases",
    "filesystem",
    "grpc_channel",
    "guarded_provider",
    "guarded_webhook",
    "http",
    "processes",
    "provider",
    "queue",
    "smtp",
    "sockets",
    "storage",
    "webhook",
]
