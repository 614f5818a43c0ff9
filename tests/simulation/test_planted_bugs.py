"""The simulation finds a bug of each kind, within the number of seeds that the bug says. One that it does not find is a defect of it."""

import pytest

from simulation.planted import PLANTED, PlantedBug
from simulation.world import simulate


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    assert _found_at(bug) is not None, f"{bug.name}: not found within {bug.seeds} seeds"


def _found_at(bug: PlantedBug) -> int | None:
    with bug.patched():
        for seed in range(bug.seeds):
            findings = simulate(seed, bug.plant).findings
            if any(finding.partition(":")[0] in bug.breaks for finding in findings):
                return seed
    return None
