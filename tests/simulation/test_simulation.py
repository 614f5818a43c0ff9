"""Thousands of worlds, each from a seed. What breaks a guarantee in any of them prints the seed, how to live it again, and how it ended.

``SIMULATION_SEEDS`` asks for more worlds than CI lives; ``SIMULATION_FIRST`` says where to begin; ``SIMULATION_SEED`` lives one and prints it.
"""

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from simulation.world import Course, simulate

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "2000"))
FIRST = int(os.environ.get("SIMULATION_FIRST", "0"))
ONE = os.environ.get("SIMULATION_SEED")
BATCHES = 8
TRACE_LINES = 60
KEPT = Path(__file__).with_name("seeds.txt")


def kept_seeds() -> list[tuple[int, str]]:
    """Seeds that found something, and what."""
    lines = (line.partition("#")[0].strip() and line for line in KEPT.read_text().splitlines())
    return [(int(line.split(maxsplit=1)[0]), line.split(maxsplit=1)[1]) for line in lines if line]


def must_hold(course: Course) -> None:
    if course.findings:
        pytest.fail(_told(course), pytrace=False)


def _told(course: Course) -> str:
    return "\n".join(
        [
            f"seed {course.seed}: {len(course.findings)} findings",
            *course.findings[:10],
            f"again: SIMULATION_SEED={course.seed} python -m pytest -s tests/simulation/test_simulation.py -k one_seed",
            *course.trace()[-TRACE_LINES:],
        ]
    )


@pytest.mark.skipif(ONE is None, reason="SIMULATION_SEED names no seed")
def test_one_seed_is_lived_again_and_printed() -> None:
    course = simulate(int(ONE or 0))
    print("\n".join(course.trace()))
    must_hold(course)


@pytest.mark.parametrize(("seed", "found"), kept_seeds())
def test_a_seed_that_found_a_bug_finds_none_any_more(seed: int, found: str) -> None:
    must_hold(simulate(seed))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_guarantee_holds_in_every_world(batch: int) -> None:
    acknowledged = 0
    for seed in range(FIRST + batch, FIRST + SEEDS, BATCHES):
        course = simulate(seed)
        must_hold(course)
        acknowledged += course.acknowledged
    assert acknowledged > 0, "no world did anything"


SECOND_PROCESS = """
import sys
from hashlib import sha256
from simulation.world import simulate
for seed in map(int, sys.argv[1:]):
    print(sha256("\\n".join(simulate(seed).trace()).encode()).hexdigest())
"""


def test_one_seed_is_one_trace_in_this_process_and_in_another_and_another_seed_is_another() -> None:
    seeds = range(12)
    traces = ["\n".join(simulate(seed).trace()) for seed in seeds]
    assert traces == ["\n".join(simulate(seed).trace()) for seed in seeds]
    assert len(set(traces)) == len(seeds)
    ours = [sha256(trace.encode()).hexdigest() for trace in traces]
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", SECOND_PROCESS, *map(str, seeds)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).parents[1])},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == ours
