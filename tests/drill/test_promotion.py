"""The rules of a promotion: how many standbys must be detached, and which one may lead. No database."""

import pytest

from isoline_drill.promotion import PromotionRefused, check_excluded, choose, detachments_needed, wal_bytes


@pytest.mark.parametrize(("standbys", "needed"), [(1, 1), (2, 2), (3, 3)])
def test_so_many_standbys_are_detached_that_no_quorum_is_left(standbys: int, needed: int) -> None:
    assert detachments_needed(standbys) == needed


def test_with_all_standbys_excluded_no_force_is_needed() -> None:
    assert check_excluded("eu", ["us", "ap"], excluded={"us", "ap"}, force=False) is False
    assert check_excluded("eu", ["us", "ap"], excluded={"us", "ap"}, force=True) is False


def test_a_lost_standby_forbids_a_promotion_without_force() -> None:
    with pytest.raises(
        PromotionRefused, match=r"2 of the 2 standbys of eu .* only 1 can be; out of reach: ap\..*force=True"
    ):
        check_excluded("eu", ["us", "ap"], excluded={"us"}, force=False)
    assert check_excluded("eu", ["us", "ap"], excluded={"us"}, force=True) is True


def test_positions_are_compared_as_numbers() -> None:
    assert wal_bytes("1/0") == 1 << 32
    assert choose({"us": "9/FFFFFFFF", "ap": "10/0"}, None) == "ap"
    assert choose({"us": "0/9", "ap": "0/10"}, None) == "ap"


def test_the_first_of_equals_is_chosen_and_any_of_them_may_be_named() -> None:
    assert choose({"us": "0/10", "ap": "0/10"}, None) == "us"
    assert choose({"us": "0/10", "ap": "0/10"}, "ap") == "ap"


def test_one_that_is_behind_is_refused_with_both_positions() -> None:
    with pytest.raises(PromotionRefused, match=r"us has received WAL up to 0/9 and ap up to 0/10: .* promote ap"):
        choose({"us": "0/9", "ap": "0/10"}, "us")


def test_one_that_cannot_be_reached_is_refused() -> None:
    with pytest.raises(PromotionRefused, match=r"us cannot be reached.*promotable: ap"):
        choose({"ap": "0/10"}, "us")
    with pytest.raises(PromotionRefused, match="no standby can be reached"):
        choose({}, None)
