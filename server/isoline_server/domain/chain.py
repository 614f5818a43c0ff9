"""The digest chain (guarantee G2): ``digest_n = SHA-256(digest_(n-1) || bytes_n)``, with a fixed domain tag before the first record.

Only stored bytes are ever hashed; nothing here knows what they mean. Run ids, regions and readers' clocks are not in it, so equal
``(seq, digest)`` proves equal prefixes whichever run, region or engine they were read from.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

DIGEST_BYTES: Final = 32
CHAIN_START: Final = sha256(b"isoline.v1 digest chain").digest()
"""``digest_(-1)``: the digest of the empty prefix."""


def extend(digest: bytes, record: bytes) -> bytes:
    """The digest of a prefix that grows by one record."""
    return sha256(digest + record).digest()


def extend_all(digest: bytes, records: Iterable[bytes]) -> bytes:
    """The digest of a prefix that grows by ``records``, in order."""
    for record in records:
        digest = sha256(digest + record).digest()
    return digest


def first_break(digest: bytes, first_seq: int, rows: Iterable[tuple[bytes, bytes]]) -> int | None:
    """The seq of the first ``(record, stored digest)`` that does not extend the digest before it, or None when all do."""
    for seq, (record, stored) in enumerate(rows, start=first_seq):
        digest = sha256(digest + record).digest()
        if digest != stored:
            return seq
    return None
