"""Who leads, by what the nodes say; and the proof that it still does. The nodes here are answers; real ones are in tests/guarantees."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from isoline_server.operations.ports import StoreRetryable
from isoline_server.store import leadership
from isoline_server.store.leadership import Leadership, Place, QuorumProof
from support.waiting import eventually

SILENT = "silent"


class Nodes:
    """Each node follows (None), leads on a timeline (a number), does not connect (an error), or is silent."""

    def __init__(self, **says):
        self.says = says
        self.changes = []
        self.leadership = Leadership({name: self._probe(name) for name in says})
        self.leadership.on_change(self.changes.append)

    def _probe(self, name):
        async def probe():
            said = self.says[name]
            if said is SILENT:
                await asyncio.Event().wait()
            if isinstance(said, Exception):
                raise said
            return said is None, said or 0

        return probe


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(leadership, "WATCH_EVERY_S", 0.01)
    monkeypatch.setattr(leadership, "SEARCH_EVERY_S", 0.005)
    monkeypatch.setattr(leadership, "PROBE_S", 0.1)


@asynccontextmanager
async def watched(nodes):
    watching = asyncio.create_task(nodes.leadership.run())
    try:
        yield nodes.leadership
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def soon(condition):
    async def answer():
        return condition()

    await eventually(answer, timeout_s=5, every_s=0.005)


REFUSED = StoreRetryable("cannot connect", ambiguous=False)


async def test_the_node_that_does_not_follow_leads():
    async with watched(Nodes(a=None, b=1, c=None)) as found:
        assert await found.place() == Place("b", 1)


async def test_of_two_that_lead_the_higher_timeline_counts_even_if_it_answers_last():
    nodes = Nodes(a=1, b=SILENT)
    async with watched(nodes) as found:
        nodes.says["b"] = 2
        assert await found.place() == Place("b", 2)
        assert nodes.changes == [Place("b", 2)]


async def test_a_promoted_node_takes_over_while_the_former_leader_is_silent():
    nodes = Nodes(a=1, b=None)
    async with watched(nodes) as found:
        assert await found.place() == Place("a", 1)
        nodes.says.update(a=SILENT, b=2)
        await soon(lambda: found.current == Place("b", 2))


async def test_a_promoted_node_takes_over_while_the_former_leader_still_leads():
    nodes = Nodes(a=1, b=None)
    async with watched(nodes) as found:
        await found.place()
        nodes.says["b"] = 2
        await soon(lambda: found.current == Place("b", 2))


async def test_a_timeline_that_was_left_is_never_gone_back_on():
    nodes = Nodes(a=1, b=2)
    async with watched(nodes) as found:
        assert await found.place() == Place("b", 2)
        nodes.says["b"] = REFUSED
        await soon(lambda: found.current is None)
        with pytest.raises(StoreRetryable, match="no node leads"):
            await found.place()  # although a says that it leads
        nodes.says["b"] = 2
        await soon(lambda: found.current == Place("b", 2))


async def test_one_unanswered_probe_is_no_loss():
    nodes = Nodes(a=1, b=None)
    async with watched(nodes) as found:
        await found.place()
        answers = iter([REFUSED])
        once = nodes._probe("a")

        async def flaky():
            for error in answers:
                raise error
            return await once()

        nodes.leadership._probes["a"] = flaky
        await soon(lambda: next(answers, None) is None)
        assert nodes.changes == [Place("a", 1)]


async def test_a_doubt_is_looked_into_at_once(monkeypatch):
    monkeypatch.setattr(leadership, "WATCH_EVERY_S", 60)
    nodes = Nodes(a=1, b=None)
    async with watched(nodes) as found:
        place = await found.place()
        nodes.says.update(a=REFUSED, b=2)
        found.doubt(place)
        await soon(lambda: found.current == Place("b", 2))


# -- proof ---------------------------------------------------------------------------------------------------------------------------


class Quorum:
    """A barrier that acknowledges, hangs, or fails, and counts."""

    def __init__(self):
        self.asked = 0
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self):
        self.asked += 1
        await self.open.wait()


async def test_a_proof_is_asked_for_once_while_it_holds():
    quorum = Quorum()
    proof = QuorumProof(quorum, holds_s=60)
    for _ in range(3):
        await proof.need(float("-inf"))
    assert quorum.asked == 1


async def test_readers_that_ask_at_once_share_a_commit():
    quorum = Quorum()
    proof = QuorumProof(quorum, holds_s=60)
    await asyncio.gather(*(proof.need(float("-inf")) for _ in range(5)))
    assert quorum.asked == 1


async def test_an_acknowledged_append_is_a_proof_from_its_begin():
    quorum = Quorum()
    proof = QuorumProof(quorum, holds_s=60)
    proof.acknowledged(time.monotonic())
    await proof.need(float("-inf"))
    assert quorum.asked == 0
    proof = QuorumProof(quorum, holds_s=60)
    proof.acknowledged(time.monotonic() - 61)
    await proof.need(float("-inf"))
    assert quorum.asked == 1


async def test_a_proof_from_before_a_connection_says_nothing_of_what_it_shows():
    quorum = Quorum()
    proof = QuorumProof(quorum, holds_s=60)
    await proof.need(float("-inf"))
    await proof.need(time.monotonic())
    assert quorum.asked == 2


async def test_a_leader_that_no_quorum_answers_proves_nothing(monkeypatch):
    monkeypatch.setattr(leadership, "PROOF_WAIT_S", 0.05)
    quorum = Quorum()
    quorum.open.clear()
    proof = QuorumProof(quorum)
    with pytest.raises(StoreRetryable, match="does not prove"):
        await proof.need(float("-inf"))
    quorum.open.set()
    await proof.need(float("-inf"))


async def test_what_a_former_leader_proved_says_nothing_of_the_next():
    quorum = Quorum()
    proof = QuorumProof(quorum, holds_s=60)
    quorum.open.clear()
    late = asyncio.create_task(proof.need(float("-inf")))
    await soon(lambda: quorum.asked == 1)
    proof.forget(Place("b", 2))
    quorum.open.set()  # the former leader's answer comes now
    await late
    assert quorum.asked == 2
    with pytest.raises(StoreRetryable, match="has been left"):
        proof.check_timeline(1)
    proof.check_timeline(2)
