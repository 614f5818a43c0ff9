"""The work of ``isoline verify``: the same prefix from every region, each recomputed here, then compared.

Every region is asked for its bytes by itself, and its chain is recomputed from them: no server's digest is believed. Where prefixes differ,
the two are read once more, side by side, to say from which seq on. Nothing is printed here.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from isoline_client.cli.failures import CommandError, Exit, describe, in_short
from isoline_client.client import Client
from isoline_client.errors import ChainBroken, IsolineError, VerificationFailed
from isoline_client.run import Run
from isoline_client.values import Freshness, Source
from isoline_client.verify import START, Position

Advance = Callable[[int], None]


@dataclass(slots=True)
class Proof:
    """What one region could prove. ``last`` is the position that was computed from its bytes."""

    region: str
    address: str = ""
    client: Client | None = None
    head_seq: int | None = None
    last: Position | None = None
    sources: Counter[Source] = field(default_factory=Counter)
    ms: float = 0.0
    error: IsolineError | CommandError | None = None
    differs_at: int | None = None
    """First seq whose digest is another than in the region that is compared with."""

    @property
    def source(self) -> str:
        """Where the bytes were read, the most first."""
        return "+".join(source or "?" for source, _ in self.sources.most_common())

    @property
    def broken_at(self) -> int | None:
        """The seq at which the region's own chain breaks."""
        return self.error.seq if isinstance(self.error, ChainBroken | VerificationFailed) else None

    @property
    def exit_code(self) -> Exit:
        if self.differs_at is not None:
            return Exit.NEGATIVE
        return Exit.OK if self.error is None else describe(self.error).exit_code

    @property
    def verdict(self) -> str:
        if self.differs_at is not None:
            return f"differs from seq {self.differs_at}"
        if self.broken_at is not None:
            return f"broken at seq {self.broken_at}: {self.error}"
        return "proven" if self.error is None else f"cannot prove it: {in_short(self.error)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of it: ``[0, until_seq)`` was compared, with the digest that most regions have."""

    until_seq: int
    proofs: tuple[Proof, ...]
    reference: Proof | None

    @property
    def exit_code(self) -> Exit:
        """The worst that was found: a difference, then a refusal, then no answer."""
        found = {proof.exit_code for proof in self.proofs}
        worst_first = (Exit.NEGATIVE, Exit.USAGE, Exit.REFUSED, Exit.UNAVAILABLE)
        return next((code for code in worst_first if code in found), Exit.OK)


async def compare(
    proofs: Sequence[Proof], run_id: str, until_seq: int | None, *, local_only: bool, advance: Advance
) -> Comparison:
    """Let every region that has a client prove ``[0, until_seq)``; without one, up to the smallest head that a region tells."""
    freshness: Freshness = "local" if local_only else "latest"
    await asyncio.gather(*(_ask_head(proof, run_id, freshness) for proof in _able(proofs)))
    heads = [proof.head_seq for proof in _able(proofs) if proof.head_seq is not None]
    end = until_seq if until_seq is not None else min(heads, default=-1) + 1
    await asyncio.gather(*(_prove(proof, run_id, end, freshness, advance) for proof in _able(proofs)))
    if local_only:
        _refuse_borrowed(proofs)
    reference = _reference(proofs)
    for proof in proofs:
        if reference is not None and proof.last is not None and proof.last != reference.last:
            proof.differs_at = await _first_difference(reference, proof, run_id, end)
    return Comparison(end, tuple(proofs), reference)


def _able(proofs: Sequence[Proof]) -> list[Proof]:
    return [proof for proof in proofs if proof.client is not None and proof.error is None]


async def _ask_head(proof: Proof, run_id: str, freshness: Freshness) -> None:
    try:
        proof.head_seq = (await _run(proof, run_id).info(freshness=freshness)).head.seq
    except IsolineError as error:
        proof.error = error


async def _prove(proof: Proof, run_id: str, until_seq: int, freshness: Freshness, advance: Advance) -> None:
    """Read the region's bytes and recompute their chain; the client refuses what does not extend it."""
    began, last = time.perf_counter(), START
    try:
        async with aclosing(_run(proof, run_id).read_pages(0, until_seq, freshness=freshness)) as pages:
            async for page in pages:
                last = page.last
                proof.sources[page.source] += len(page)
                advance(len(page))
        proof.last = last
    except IsolineError as error:
        proof.error = error
    proof.ms = (time.perf_counter() - began) * 1000


def _refuse_borrowed(proofs: Sequence[Proof]) -> None:
    """Only a region's own replica counts: what it had from elsewhere proves nothing about it."""
    for proof in proofs:
        borrowed = proof.sources.total() - proof.sources["local"]
        if proof.error is None and borrowed:
            proof.error = CommandError(f"{borrowed:,} events are not in its own replica", Exit.NEGATIVE)


def _reference(proofs: Sequence[Proof]) -> Proof | None:
    """A region with the digest that most have; of equally many, the first."""
    counted = Counter(proof.last for proof in proofs if proof.last is not None)
    if not counted:
        return None
    most, _ = counted.most_common(1)[0]
    return next(proof for proof in proofs if proof.last == most)


async def _first_difference(reference: Proof, other: Proof, run_id: str, until_seq: int) -> int:
    """The first seq at which two regions' prefixes differ; the end when a second reading finds none."""
    async with (
        aclosing(_digests(reference, run_id, until_seq)) as left,
        aclosing(_digests(other, run_id, until_seq)) as right,
    ):
        for seq in range(until_seq):
            if await anext(left, None) != await anext(right, None):
                return seq
    return until_seq


async def _digests(proof: Proof, run_id: str, until_seq: int) -> AsyncGenerator[bytes | None, None]:
    try:
        async with aclosing(_run(proof, run_id).read(0, until_seq)) as events:
            async for event in events:
                yield event.digest
    except IsolineError:
        return  # the region answered a moment ago and does not now: what it cannot show counts as different


def _run(proof: Proof, run_id: str) -> Run:
    assert proof.client is not None
    return proof.client.run(run_id)
