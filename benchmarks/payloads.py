"""What is appended: JSON objects of an exact size that compress badly, the same for both sides."""

import base64
import random

EVENT_BYTES = 256
EVENT_TYPE = "node.completed"

_HEAD = b'{"node":"step-%04d","output":"'
_TAIL = b'"}'


def payloads(count: int, size: int = EVENT_BYTES, seed: int = 1) -> list[bytes]:
    """``count`` payloads of ``size`` bytes each."""
    dice = random.Random(seed)
    return [_payload(dice, place, size) for place in range(count)]


def _payload(dice: random.Random, place: int, size: int) -> bytes:
    head = _HEAD % (place % 10_000)
    room = size - len(head) - len(_TAIL)
    noise = base64.b64encode(dice.randbytes(room))[:room]
    return head + noise + _TAIL
