"""The account must be able to say no: every way in which a log can betray its writers is seen."""

import dataclasses
from collections import Counter

import pytest

from isoline.v1 import common_pb2 as pb
from isoline_client import Event, NewEvent
from isoline_client.cli.demo.ledger import Account, Told, account, key_of

A, B, C = (key_of(NewEvent("example.told", {"n": n})) for n in range(3))
TOLD = [Told("run", 0, A), Told("run", 1, B), Told("run", 2, A)]
SENT = Counter({("run", A): 2, ("run", B): 1})
NOTHING_WRONG = Account(acknowledged=3, lost=0, duplicates=0, misplaced=0, unknown=0, gaps=0)


def of_log(*keys: bytes) -> Account:
    return account(TOLD, SENT, {"run": list(enumerate(keys))})


def test_a_log_that_holds_what_was_told_balances() -> None:
    assert of_log(A, B, A) == NOTHING_WRONG
    assert NOTHING_WRONG.balanced


@pytest.mark.parametrize(
    ("log", "wrong"),
    [
        ((A, B), {"lost": 1}),
        ((), {"lost": 3}),
        ((A, B, A, B), {"duplicates": 1}),
        ((A, B, A, A, A), {"duplicates": 2}),
        ((B, A, A), {"misplaced": 2}),
        ((A, B, B), {"lost": 1, "duplicates": 1}),
        ((A, B, A, C), {"unknown": 1}),
    ],
)
def test_what_is_wrong_is_counted(log: tuple[bytes, ...], wrong: dict[str, int]) -> None:
    found = of_log(*log)
    assert found == dataclasses.replace(NOTHING_WRONG, **wrong)
    assert not found.balanced


def test_a_gap_is_seen() -> None:
    assert account(TOLD[:2], SENT, {"run": [(0, A), (2, B)]}).gaps == 1


def test_a_log_that_was_not_read_is_lost() -> None:
    assert account(TOLD, SENT, {}).lost == 3


def test_two_acknowledgements_of_one_place_are_one_too_many() -> None:
    assert account([Told("run", 0, A)] * 2, Counter({("run", A): 2}), {"run": [(0, A)]}).lost == 1


def test_what_landed_without_an_acknowledgement_is_nobodys_loss() -> None:
    assert account(TOLD[:2], SENT, {"run": [(0, A), (1, B), (2, A)]}).balanced


def test_an_event_is_known_by_what_it_says_wherever_it_was_read() -> None:
    content = pb.EventContent(type="example.told", payload=b'{"n":0}', schema_version=1)
    stored = Event(7, pb.Event(content=content, stamp=pb.EventStamp(region="us")).SerializeToString())
    assert key_of(stored) == A
    assert key_of(NewEvent("example.told", {"n": 0}, node_id="n")) != A
