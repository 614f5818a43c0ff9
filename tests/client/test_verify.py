from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isoline_client import CHAIN_START, START, Position, VerificationFailed
from isoline_client.verify import PrefixVerifier, check_prefix, check_state

RECORDS = [bytes([n]) * (n + 1) for n in range(10)]


def position(seq, records=RECORDS):
    digest = sha256(b"isoline.v1 digest chain").digest()
    for record in records[: seq + 1]:
        digest = sha256(digest + record).digest()
    return Position(seq, digest)


def page(first, end, records=RECORDS):
    return first, records[first:end], position(first - 1, records), position(end - 1, records)


def test_the_chain_begins_at_the_digest_of_its_tag():
    assert CHAIN_START.hex() == "4591abb3df94d8b75b4caeff0d67f06a300b676f1b1b2c18825782aba2ee0c7a"
    assert Position(-1, CHAIN_START) == START


def test_pages_that_connect_are_proven_and_each_record_gets_its_digest():
    verifier = PrefixVerifier(until_seq=10)
    digests = verifier.accept(*page(0, 4)) + verifier.accept(*page(4, 10))
    verifier.finish()
    assert digests == [position(seq).digest for seq in range(10)]
    assert verifier.position == position(9)


def test_an_empty_page_proves_nothing_and_breaks_nothing():
    verifier = PrefixVerifier(4, known=position(3))
    assert verifier.accept(*page(4, 4)) == []
    assert verifier.next_seq == 4


@given(st.data())
def test_any_change_of_the_records_is_found(data):
    changed = list(RECORDS)
    at = data.draw(st.integers(0, 9))
    match data.draw(st.sampled_from(["flip", "drop", "swap", "repeat", "insert"])):
        case "flip":
            changed[at] = bytes([changed[at][0] ^ 1]) + changed[at][1:]
        case "drop":
            del changed[at]
        case "swap":
            changed[at - 1], changed[at] = changed[at], changed[at - 1]
        case "repeat":
            changed.insert(at, changed[at])
        case "insert":
            changed.insert(at, b"new")
    with pytest.raises(VerificationFailed):
        PrefixVerifier().accept(0, changed, START, position(9))
    with pytest.raises(VerificationFailed):
        PrefixVerifier().accept(0, changed, START, Position(len(changed) - 1, position(9).digest))


@pytest.mark.parametrize(
    ("second", "what"),
    [
        (page(5, 10), "begins elsewhere"),
        (page(3, 10), "begins elsewhere"),
        ((4, RECORDS[4:], position(3), Position(10, position(9).digest)), "ends elsewhere"),
        ((4, RECORDS[4:], Position(2, position(3).digest), position(9)), "extends another seq"),
        ((4, RECORDS[4:], Position(3, b"x" * 32), position(9)), "extends another prefix"),
        ((4, RECORDS[4:], position(3), Position(9, b"x" * 32)), "do not have the page's digest"),
    ],
)
def test_a_page_that_does_not_continue_the_last_one_is_refused(second, what):
    verifier = PrefixVerifier()
    verifier.accept(*page(0, 4))
    with pytest.raises(VerificationFailed, match=what):
        verifier.accept(*second)
    assert verifier.position == position(3)


def test_another_history_cannot_be_passed_off_behind_a_known_position():
    other = [b"other", *RECORDS[1:]]
    with pytest.raises(VerificationFailed, match="extends another prefix"):
        PrefixVerifier(4, known=position(3)).accept(*page(4, 10, other))


def test_a_known_position_inside_the_range_is_checked_as_it_is_passed():
    verifier = PrefixVerifier(known=Position(6, b"x" * 32))
    verifier.accept(*page(0, 5))
    with pytest.raises(VerificationFailed, match="seq 6: the known position is not of this run"):
        verifier.accept(*page(5, 10))


def test_a_known_position_inside_the_range_that_holds_changes_nothing():
    verifier = PrefixVerifier(known=position(6))
    assert verifier.anchor == position(6)
    verifier.accept(*page(0, 10))
    assert verifier.anchor == position(9)


def test_a_false_start_is_refused_before_anything_is_read():
    with pytest.raises(VerificationFailed, match="at the start"):
        PrefixVerifier(known=Position(-1, b"x" * 32))


def test_a_read_that_begins_inside_a_run_is_anchored_by_its_first_page():
    verifier = PrefixVerifier(4)
    assert verifier.anchor is None
    verifier.accept(*page(4, 6))
    with pytest.raises(VerificationFailed, match="extends another prefix"):
        verifier.accept(*page(6, 8, [b"other", *RECORDS[1:]]))


def test_a_read_that_stops_early_is_not_taken_for_a_whole_one():
    verifier = PrefixVerifier(until_seq=10)
    verifier.accept(*page(0, 9))
    with pytest.raises(VerificationFailed, match="ended early"):
        verifier.finish()


def test_a_page_beyond_the_range_is_refused():
    with pytest.raises(VerificationFailed, match="beyond the range"):
        PrefixVerifier(until_seq=5).accept(*page(0, 6))


def test_without_recomputation_seqs_are_still_checked_and_digests_believed():
    verifier = PrefixVerifier(recompute=False)
    assert verifier.accept(0, RECORDS[:4], START, Position(3, b"believed")) is None
    assert verifier.anchor == Position(3, b"believed")
    with pytest.raises(VerificationFailed, match="begins elsewhere"):
        verifier.accept(*page(5, 10))


def test_a_state_must_be_the_one_asked_for_and_have_its_own_digest():
    check_state(None, 3, b"{}", sha256(b"{}").digest())
    with pytest.raises(VerificationFailed, match="state of another seq"):
        check_state(4, 3, b"{}", sha256(b"{}").digest())
    with pytest.raises(VerificationFailed, match="digest of the state"):
        check_state(3, 3, b"{ }", sha256(b"{}").digest())


def test_a_prefix_must_be_the_one_asked_for():
    check_prefix(4, position(3))
    with pytest.raises(VerificationFailed, match="another prefix"):
        check_prefix(5, position(3))
    with pytest.raises(VerificationFailed, match="empty prefix"):
        check_prefix(0, Position(-1, b"x" * 32))
