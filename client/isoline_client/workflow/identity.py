"""Ids that are computed, not drawn: of effects, of interrupts. The same on every try, whoever runs the node.

``effect_id`` is OpenWOP's activity recipe (v1 idempotency.md); that the ordinal is written in decimal is our reading of it.
"""

import base64
import hashlib
from typing import Final

from isoline_client.workflow.errors import TooManyEffects

EFFECTS_MAX: Final = 1_000
"""Effects of one visit. Their ordinals share one number with the visit, so there has to be a bound."""

_ACTIVITY: Final = b"openwop:activity:v2"
_INTERRUPT: Final = b"isoline:interrupt:v1"
_BASE32: Final = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"0123456789ABCDEFGHJKMNPQRSTVWXYZ")


def tenant_of(run_id: str) -> str:
    """The tenant that a run id is bound to."""
    return run_id.partition("/")[0]


def ordinal_number(visit: int, ordinal: int) -> int:
    """Number of the ``ordinal``-th effect (from 0) of a visit among all effects of a node. Raise ``TooManyEffects``."""
    if ordinal >= EFFECTS_MAX:
        raise TooManyEffects(EFFECTS_MAX)
    return (visit - 1) * EFFECTS_MAX + ordinal


def effect_id(tenant: str, run_id: str, node_id: str, number: int, provider_key: str) -> str:
    """Identity of a logical effect: of the try and of the executor it knows nothing."""
    parts = (tenant, run_id, node_id, str(number), provider_key)
    digest = hashlib.sha256(b"\0".join((_ACTIVITY, *(part.encode() for part in parts)))).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def interrupt_id(run_id: str, node_id: str, visit: int, key: str) -> str:
    """Identity of a question: bound to the tenant, and the same whenever the visit asks it."""
    parts = (run_id, node_id, str(visit), key)
    digest = hashlib.sha256(b"\0".join((_INTERRUPT, *(part.encode() for part in parts)))).digest()
    name = base64.b32encode(digest)[:26].translate(_BASE32).decode()
    return f"{tenant_of(run_id)}/{name}"
