"""What the layers inside the interpreter stop, each alone and both together, and what neither of them can see."""

import pytest

from guard.ways import WAYS, Way
from isoline_client.guard.policy import Policy

EVERY_WAY = [pytest.param(each, id=each.name) for each in WAYS.values()]
STOPPED = [pytest.param(each, id=each.name) for each in WAYS.values() if each.seams or each.hooks]
UNSEEN = [pytest.param(each, id=each.name) for each in WAYS.values() if not (each.seams or each.hooks)]


@pytest.mark.parametrize("way", EVERY_WAY)
def test_every_way_is_one_when_nothing_guards(way: Way, leave, outside):
    leave(way, Policy.OPEN)

    assert outside.reached > 0


@pytest.mark.parametrize("policy", [Policy.PURE, Policy.REPLAY])
@pytest.mark.parametrize("way", STOPPED)
def test_both_layers_stop_it(way: Way, policy, leave, outside):
    scope = leave(way, policy)

    assert outside.reached == 0
    assert scope.denied


@pytest.mark.parametrize("way", UNSEEN)
def test_the_layers_in_the_process_cannot_see_it(way: Way, leave, outside):
    """Should one of these be stopped one day, docs/guard.md says too little: correct both."""
    leave(way, Policy.REPLAY)

    assert outside.reached > 0


@pytest.mark.parametrize("way", EVERY_WAY)
def test_the_hooks_alone(way: Way, leave, outside, switches):
    switches.seams = False

    leave(way, Policy.REPLAY)

    assert (outside.reached == 0) == way.hooks


@pytest.mark.parametrize("way", EVERY_WAY)
def test_the_seams_alone(way: Way, leave, outside, switches):
    switches.hooks = False

    leave(way, Policy.REPLAY)

    assert (outside.reached == 0) == way.seams


def test_a_live_node_with_effects_may_leave(leave, outside):
    scope = leave(WAYS["requests_get"], Policy.EFFECTS)

    assert outside.reached > 0
    assert not scope.denied
