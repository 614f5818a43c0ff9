"""``compare`` with regions that lie, lag and break: real servers cannot be made to."""

from dataclasses import dataclass, field
from hashlib import sha256

import pytest

from isoline_client import errors
from isoline_client.cli.failures import Exit
from isoline_client.cli.proof import Proof, compare
from isoline_client.events import Event
from isoline_client.values import Page
from isoline_client.verify import START, Position, chain

RECORDS = tuple(b"record %d" % n for n in range(10))


@dataclass
class Region:
    """A region that holds ``records``; a client and a run at once."""

    records: tuple[bytes, ...] = RECORDS
    head: int | None = None
    source: str = "local"
    info_fails: Exception | None = None
    read_fails: Exception | None = None
    asked: list[object] = field(default_factory=list)

    def run(self, run_id):
        return self

    async def info(self, *, freshness):
        self.asked.append(freshness)
        if self.info_fails:
            raise self.info_fails
        self.position = Position(len(self.records) - 1 if self.head is None else self.head, b"")
        return type("Info", (), {"head": self.position})

    async def read_pages(self, from_seq, until_seq, *, freshness="latest"):
        self.asked.append((from_seq, until_seq, freshness))
        digests = chain(START.digest, self.records[:until_seq])
        for seq in range(0, until_seq, 4):
            if self.read_fails:
                raise self.read_fails
            part = self.records[seq : min(seq + 4, until_seq)]
            last = Position(seq + len(part) - 1, digests[seq + len(part) - 1])
            yield Page(
                first_seq=seq, records=part, digests=digests[seq : seq + 4], before=START, last=last, source=self.source
            )

    async def read(self, from_seq, until_seq):
        async for page in self.read_pages(from_seq, until_seq):
            for event in page:
                yield Event(event.seq, event.record, event.digest)


async def compared(until_seq=None, local_only=False, **regions):
    proofs = [Proof(name, client=region) for name, region in regions.items()]
    steps = []
    found = await compare(proofs, "run", until_seq, local_only=local_only, advance=steps.append)
    return found, {proof.region: proof for proof in proofs}, sum(steps)


def changed_at(seq):
    return (*RECORDS[:seq], b"another", *RECORDS[seq + 1 :])


async def test_equal_prefixes_are_proven_with_the_digest_that_was_computed_here():
    found, by_name, steps = await compared(eu=Region(), us=Region())
    digest = START.digest
    for record in RECORDS:
        digest = sha256(digest + record).digest()
    assert (found.exit_code, found.until_seq, steps) == (Exit.OK, 10, 20)
    assert {proof.last for proof in by_name.values()} == {Position(9, digest)}


@pytest.mark.parametrize("seq", [0, 3, 4, 9])
async def test_the_region_that_differs_from_most_is_named_with_the_first_seq(seq):
    found, by_name, _ = await compared(eu=Region(), us=Region(changed_at(seq)), ap=Region())
    assert found.exit_code is Exit.NEGATIVE
    assert [(name, proof.differs_at) for name, proof in by_name.items()] == [("eu", None), ("us", seq), ("ap", None)]


async def test_of_two_that_differ_the_first_is_compared_with():
    _, by_name, _ = await compared(us=Region(changed_at(5)), eu=Region())
    assert (by_name["us"].differs_at, by_name["eu"].differs_at) == (None, 5)
    assert by_name["eu"].verdict == "differs from seq 5"


async def test_all_are_compared_at_the_smallest_head_so_appends_do_not_disturb():
    ahead, behind = Region(head=9), Region(head=6)
    found, _, _ = await compared(eu=ahead, us=behind)
    assert (found.exit_code, found.until_seq) == (Exit.OK, 7)
    assert (0, 7, "latest") in ahead.asked


async def test_a_seq_that_is_asked_for_is_used():
    found, by_name, _ = await compared(3, eu=Region(), us=Region(changed_at(5)))
    assert (found.exit_code, by_name["us"].last.seq) == (Exit.OK, 2)


async def test_empty_runs_are_equal():
    found, by_name, _ = await compared(eu=Region(()), us=Region(()))
    assert (found.exit_code, found.until_seq, by_name["us"].last) == (Exit.OK, 0, START)


@pytest.mark.parametrize(
    ("error", "code", "broken_at"),
    [
        (errors.VerificationFailed(seq=3, what="w", expected="a", actual="b"), Exit.NEGATIVE, 3),
        (errors.ChainBroken(seq=2, code="DATA_LOSS"), Exit.NEGATIVE, 2),
        (errors.Unavailable(), Exit.UNAVAILABLE, None),
        (errors.RunNotFound(code="NOT_FOUND"), Exit.REFUSED, None),
    ],
)
async def test_a_region_that_cannot_prove_it_says_why_and_fails_the_command(error, code, broken_at):
    found, by_name, _ = await compared(eu=Region(), us=Region(read_fails=error))
    assert (found.exit_code, by_name["us"].broken_at, by_name["eu"].exit_code) == (code, broken_at, Exit.OK)


async def test_a_difference_weighs_more_than_a_region_that_does_not_answer():
    found, _, _ = await compared(eu=Region(), us=Region(info_fails=errors.Unavailable()), ap=Region(changed_at(1)))
    assert found.exit_code is Exit.NEGATIVE


async def test_a_region_without_a_head_does_not_count_for_the_smallest():
    found, _, _ = await compared(eu=Region(), us=Region(info_fails=errors.Unavailable()))
    assert (found.until_seq, found.exit_code) == (10, Exit.UNAVAILABLE)


async def test_the_source_says_where_the_bytes_were_read():
    _, by_name, _ = await compared(eu=Region(), us=Region(source="leader"))
    assert (by_name["eu"].source, by_name["us"].source) == ("local", "leader")


async def test_what_a_region_borrowed_does_not_count_when_only_its_own_replica_may():
    us = Region(source="leader")
    found, by_name, _ = await compared(local_only=True, eu=Region(), us=us)
    assert found.exit_code is Exit.NEGATIVE
    assert by_name["us"].verdict == "cannot prove it: 10 events are not in its own replica"
    assert us.asked == ["local", (0, 10, "local")]
