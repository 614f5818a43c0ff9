"""Proof that what was read is the run's prefix. Pure: no wire types, no I/O; values in, digests or ``VerificationFailed`` out.

Two facts of the protocol are stated here: the digest of the empty prefix, and that a prefix's digest is
``SHA-256(digest before || record)``. Equal ``(seq, digest)`` proves equal prefixes, whichever server and region they were read from.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from isoline_client.errors import VerificationFailed

CHAIN_START: Final = sha256(b"isoline.v1 digest chain").digest()
"""Digest of the empty prefix."""


class Position(NamedTuple):
    """The prefix ``[0, seq]`` and its digest."""

    seq: int
    digest: bytes

    def __str__(self) -> str:
        return f"{self.seq}:{self.digest.hex()}"


START: Final = Position(-1, CHAIN_START)
"""Where every run begins."""


def chain(digest: bytes, records: Sequence[bytes]) -> list[bytes]:
    """The digest of the prefix behind each of ``records``, the first of which stands behind ``digest``."""
    return [digest := sha256(digest + record).digest() for record in records]


def check_state(asked_seq: int | None, at_seq: int, state: bytes, digest: bytes) -> None:
    """Prove that a state is the one that was asked for, and that its digest is its own."""
    if asked_seq is not None:
        _must_equal(at_seq, "the state of another seq", asked_seq, at_seq)
    _must_equal(at_seq, "the digest of the state", sha256(state).digest(), digest)


def check_prefix(until_seq: int | None, last: Position) -> None:
    """Prove that a digest is that of the prefix that was asked for."""
    if until_seq is not None:
        _must_equal(last.seq, "the digest of another prefix", until_seq - 1, last.seq)
    if last.seq == START.seq:
        _must_equal(last.seq, "the digest of the empty prefix", CHAIN_START, last.digest)


class PrefixVerifier:
    """Follows pages of one run and proves each to continue the one before.

    ``position`` is the last place that is proven: a read that breaks off goes on from there with the same verifier, on any server.
    Before the first page it is ``known`` or the start of the run when the read begins right behind it, else None: such a read is
    anchored by the first page's own ``before``. With ``recompute=False`` seqs are still checked but the server's digests are believed.
    """

    __slots__ = ("_known", "_recompute", "_until_seq", "next_seq", "position")

    def __init__(
        self, from_seq: int = 0, until_seq: int | None = None, known: Position | None = None, *, recompute: bool = True
    ) -> None:
        self.next_seq = from_seq
        self.position = START if from_seq == 0 else None
        self._until_seq = until_seq
        self._recompute = recompute
        self._known = known
        if known is not None and known.seq == from_seq - 1:
            if self.position is not None and recompute:
                _must_equal(known.seq, "the known position at the start", self.position.digest, known.digest)
            self.position = known

    @property
    def anchor(self) -> Position | None:
        """The position to ask the server to extend."""
        if self.position is None or self.position == START:
            return self._known
        return self.position

    def accept(self, first_seq: int, records: Sequence[bytes], before: Position, last: Position) -> list[bytes] | None:
        """Prove a page; return the digest behind each record (None when the server is believed)."""
        self._check_seqs(first_seq, len(records), before, last)
        digests = self._check_digests(records, before, last) if self._recompute else None
        self.position = last
        self.next_seq = last.seq + 1
        return digests

    def finish(self) -> None:
        """Prove that the read came to its end rather than stopped."""
        if self._until_seq is not None and self.next_seq != self._until_seq:
            _must_equal(self.next_seq, "the read ended early", self._until_seq, self.next_seq)

    def _check_seqs(self, first_seq: int, count: int, before: Position, last: Position) -> None:
        _must_equal(self.next_seq, "the page begins elsewhere", self.next_seq, first_seq)
        _must_equal(first_seq, "the page extends another seq", first_seq - 1, before.seq)
        _must_equal(first_seq, "the page ends elsewhere", first_seq + count - 1, last.seq)
        if self._until_seq is not None and last.seq >= self._until_seq:
            _must_equal(last.seq, "the page goes beyond the range", self._until_seq - 1, last.seq)

    def _check_digests(self, records: Sequence[bytes], before: Position, last: Position) -> list[bytes]:
        if self.position is not None:
            _must_equal(before.seq, "the page extends another prefix", self.position.digest, before.digest)
        digests = chain(before.digest, records)
        _must_equal(
            last.seq,
            "the records do not have the page's digest",
            digests[-1] if digests else before.digest,
            last.digest,
        )
        known = self._known
        if known is not None and before.seq < known.seq <= last.seq:
            _must_equal(
                known.seq, "the known position is not of this run", known.digest, digests[known.seq - before.seq - 1]
            )
        return digests


def _must_equal(seq: int, what: str, expected: int | bytes, actual: int | bytes) -> None:
    if expected != actual:
        raise VerificationFailed(seq=seq, what=what, expected=_text(expected), actual=_text(actual))


def _text(value: int | bytes) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
