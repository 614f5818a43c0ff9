"""Thousands of worlds, each from a seed. What breaks a guarantee in any of them prints the seed, how to live it again, and how it ended.

``SIMULATION_SEEDS`` asks for more worlds than CI lives; ``SIMULATION_FIRST`` says where to begin; ``SIMULATION_SEED`` lives one and prints it.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from simulation.world import Course, simulate

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "2000"))
FIRST = int(os.environ.get("SIMULATION_FIRST", "0"))
ONE = os.environ.get("SIMULATION_SEED")
BATCHES = 8
TRACE_LINES = 60
KEPT = Path(__file__).with_name("seeds.txt")


OPEN: tuple[str, ...] = ()
"""Findings that stand in ``seeds.txt`` as open: told there, and let pass everywhere else, so that they hide no other one."""


def kept_seeds() -> Iterator[Any]:
    """Seeds that found something, and what. An open one must go on finding it: when it does not, it is open no more."""
    for line in KEPT.read_text().splitlines():
        if line and not line.startswith("#"):
            seed, state, found = line.split(maxsplit=2)
            marks = [pytest.mark.xfail(reason=found, strict=True)] if state == "open" else []
            yield pytest.param(int(seed), marks=marks, id=f"{seed}: {found}")


def must_hold(course: Course, let_pass: Sequence[str] = ()) -> None:
    if any(not any(re.match(pattern, finding) for pattern in let_pass) for finding in course.findings):
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


@pytest.mark.parametrize("seed", list(kept_seeds()))
def test_a_seed_that_found_a_bug_finds_none_any_more(seed: int) -> None:
    must_hold(simulate(seed))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_guarantee_holds_in_every_world(batch: int) -> None:
    acknowledged = 0
    for seed in range(FIRST + batch, FIRST + SEEDS, BATCHES):
        course = simulate(seed)
        must_hold(course, OPEN)
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
