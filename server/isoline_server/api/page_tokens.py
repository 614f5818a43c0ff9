"""Opaque page tokens (AIP-158): where a list goes on, good for one tenant and the arguments it began with, and for nothing else."""

import base64
import json
from hashlib import sha256
from typing import Any, Final

from isoline_server.api.credentials import Caller
from isoline_server.domain.errors import PageTokenInvalid

_SEAL_BYTES: Final = 16


def write_token(caller: Caller, arguments: str, place: list[Any]) -> str:
    """The token of a place: JSON values."""
    body = json.dumps(place, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_seal(caller, arguments, body) + body).decode().rstrip("=")


def read_token(token: str, caller: Caller, arguments: str) -> list[Any]:
    """The place of a token. Raises ``PageTokenInvalid`` for a token of another tenant, other arguments or no token at all."""
    try:
        data = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        seal, body = data[:_SEAL_BYTES], data[_SEAL_BYTES:]
        place = json.loads(body) if seal == _seal(caller, arguments, body) else None
    except ValueError:
        place = None
    if not isinstance(place, list):
        raise PageTokenInvalid
    return place


def _seal(caller: Caller, arguments: str, body: bytes) -> bytes:
    """Ties a token to its tenant and arguments: against mistakes, for a forged one could only move within the tenant's own list."""
    parts = (b"isoline.v1 list token", caller.tenant.encode(), arguments.encode(), body)
    return sha256(b"\0".join(parts)).digest()[:_SEAL_BYTES]
