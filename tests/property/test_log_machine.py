"""The log as a state machine: hypothesis draws histories, and after every step the model says whether each guarantee still holds.

A history appends (with and without an expected seq, by engines that count, several at once through several regions), repeats, forks, reads,
tails, asks for states, pauses replicas, and restarts or kills servers, standbys and the primary under way. All of it runs on a real
PostgreSQL primary with two hot standbys and three region servers, one of them a process. ``model`` lists what is proved.

``HYPOTHESIS_PROFILE`` chooses how long:

* default: sixteen histories, always the same ones, without shrinking;
* ``long``: four hundred longer ones, new ones each time, with more outages, shrunk when one fails (half an hour or so); and ``test_sabotage``::

      HYPOTHESIS_PROFILE=long python -m pytest tests/property

A failure tells its steps, and mostly a ``@reproduce_failure(…)`` line: put it above ``machine`` in ``check_histories`` to run the history
again. As threads and processes race, it may take more than one run to fail again.
"""

import inspect
import os
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from hypothesis import Phase, event, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from isoline_server.embedded import EmbeddedCluster
from property.history import CHANGES, Disturbance, History
from property.traffic import FEW, FRESHNESS, NUMBER, ONE_OR_TWO, READERS, REGION, WRITERS, Burst, Deed
from property.world import STANDBYS, World

pytestmark = [pytest.mark.property, pytest.mark.topology]


@dataclass(frozen=True)
class Profile:
    """How many histories, and how many outages each may have: an outage takes a second or so, any other step some milliseconds.

    Hypothesis draws freely for its first ten examples, and varies what it drew after that. Here variety is worth more than variation, so
    no seed draws more than ten.
    """

    settings: settings
    seeds: Callable[[], Iterable[int]]
    outages_max: int
    timeout_s: int


def _settings(**fields: Any) -> settings:
    return settings(deadline=None, database=None, print_blob=True, report_multiple_bugs=False, **fields)


def _random_seeds() -> Iterator[int]:
    return (random.getrandbits(32) for _ in range(40))


PROFILES = {
    "default": Profile(
        _settings(max_examples=8, stateful_step_count=40, phases=[Phase.generate]),
        lambda: (1, 2, 3),
        outages_max=1,
        timeout_s=180,
    ),
    "long": Profile(_settings(max_examples=10, stateful_step_count=60), _random_seeds, outages_max=6, timeout_s=7200),
}
PROFILE = PROFILES.get(os.environ.get("HYPOTHESIS_PROFILE", "default"), PROFILES["default"])

RUNS_MAX = 8
ENGINE = st.sampled_from(["engine0", "engine1", "engine2"])
OFFSET = st.sampled_from([None, 0, 0, -1, 1, 7])
HOME = st.sampled_from(["", "eu", "us", "ap"])
MODE = st.sampled_from(["branch", "replay"])
OUTAGES = ("drain server", "kill server", "kill standby", "kill primary", "restart primary")
STANDBY = st.sampled_from(STANDBYS)


class LogMachine(RuleBasedStateMachine):
    """Rules carry out one step each; the one invariant judges it. Which rules may run never depends on how a race ended."""

    def __init__(self, world: World, profile: Profile, tally: Counter[str], failures: list[BaseException]) -> None:
        super().__init__()
        world.heal()
        self.history = History(world)
        self._world = world
        self._tally = tally
        self._outages_left = profile.outages_max
        self._many_left = 1
        self._makings_left = RUNS_MAX
        self._failed = False
        self._failures = failures
        self._steps: list[str] = []

    def _do(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tally[name] += 1
        given = {key: value for key, value in inspect.getcoroutinelocals(work).items() if key != "self"}
        self._steps.append(f"{name}: {', '.join(f'{key}={value!r}' for key, value in given.items())}"[:1000])
        self._run(work)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            self._world.run(work)
        except BaseException as error:
            self._failed = True
            error.add_note("\n".join(["this history was:", *self._steps]))
            self._failures.append(error)
            raise

    # -- making runs -------------------------------------------------------------------------------------------------------------------

    @initialize(region=REGION, home=HOME, kinds=FEW)
    def begin(self, region: str, home: str, kinds: list[str]) -> None:
        self._do("begin", self.history.create(region, home))
        self._do("append", self.history.write(self.history.logs[0], region, kinds, 0))

    @precondition(lambda self: self._makings_left)
    @rule(region=REGION, home=HOME)
    def create(self, region: str, home: str) -> None:
        self._makings_left -= 1
        self._do("create", self.history.create(region, home))

    @precondition(lambda self: self._makings_left)
    @rule(run=NUMBER, at=NUMBER, region=REGION, mode=MODE, home=HOME, pinned=st.booleans())
    def fork(self, run: int, at: int, region: str, mode: str, home: str, pinned: bool) -> None:
        self._makings_left -= 1
        self._do("fork", self.history.fork(self.history.log(run), at, region, mode, home, pinned))

    @precondition(lambda self: self._makings_left)
    @rule(
        run=NUMBER, region=REGION, how=st.sampled_from(["beyond", "unsaid", "negative", "pin", "ended"]), number=NUMBER
    )
    def fork_nowhere(self, run: int, region: str, how: str, number: int) -> None:
        self._makings_left -= 1
        self._do("fork nowhere", self.history.fork_nowhere(self.history.log(run), region, how, number))

    @rule(run=NUMBER, region=REGION)
    def repeat_making(self, run: int, region: str) -> None:
        self._do("repeat making", self.history.repeat_making(run, region))

    @rule(run=NUMBER, region=REGION)
    def repeat_making_changed(self, run: int, region: str) -> None:
        self._do("repeat making changed", self.history.repeat_making_changed(run, region))

    # -- appending ---------------------------------------------------------------------------------------------------------------------

    @rule(run=NUMBER, region=REGION, kinds=FEW, offset=OFFSET)
    def append(self, run: int, region: str, kinds: list[str], offset: int | None) -> None:
        self._do("append", self.history.write(self.history.log(run), region, kinds, offset))

    @rule(run=NUMBER, region=REGION, engine=ENGINE, kinds=ONE_OR_TWO, skipped=st.sampled_from([0, 0, 0, 1, 5]))
    def append_as_engine(self, run: int, region: str, engine: str, kinds: list[str], skipped: int) -> None:
        self._do(
            "append as engine", self.history.write_as_engine(self.history.log(run), region, engine, kinds, skipped)
        )

    @precondition(lambda self: self._many_left)
    @rule(run=NUMBER, region=REGION, many=st.sampled_from([1000, 999, 600]))
    def append_many(self, run: int, region: str, many: int) -> None:
        """Over a distance between snapshots."""
        self._many_left -= 1
        log = self.history.log(run)
        for _ in range(2):
            self._do("append many", self.history.write(log, region, ["note", "put"] * (many // 2), None))

    @rule(run=NUMBER, region=REGION, word=st.sampled_from(["completed", "failed", "cancelled"]))
    def end(self, run: int, region: str, word: str) -> None:
        self._do("end", self.history.end(self.history.log(run), region, word))

    @rule(writers=WRITERS, readers=READERS)
    def append_and_read_at_once(self, writers: list[Deed], readers: list[Deed]) -> None:
        self._do("race", self.history.race([*writers, *readers]))

    @rule(number=NUMBER, region=REGION, by_counter=st.booleans())
    def repeat(self, number: int, region: str, by_counter: bool) -> None:
        self._do("repeat", self.history.repeat(number, region, by_counter))

    @rule(number=NUMBER, region=REGION, how=st.sampled_from(CHANGES), other=NUMBER)
    def repeat_changed(self, number: int, region: str, how: str, other: int) -> None:
        self._do("repeat changed", self.history.repeat_changed(number, region, how, other))

    # -- reading -----------------------------------------------------------------------------------------------------------------------

    @rule(
        run=NUMBER,
        region=REGION,
        bounds=st.tuples(NUMBER, NUMBER, st.booleans()),
        freshness=FRESHNESS,
        known=st.none() | NUMBER,
    )
    def read(self, run: int, region: str, bounds: tuple[int, int, bool], freshness: str, known: int | None) -> None:
        self._do("read", self.history.read_some(self.history.log(run), region, bounds, freshness, known))

    @rule(
        run=NUMBER, region=REGION, how=st.sampled_from(["from", "until", "known", "tail", "tail known"]), number=NUMBER
    )
    def read_wrongly(self, run: int, region: str, how: str, number: int) -> None:
        self._do("read wrongly", self.history.read_wrongly(self.history.log(run), region, how, number))

    @rule(run=NUMBER, region=REGION, from_seq=NUMBER)
    def tail(self, run: int, region: str, from_seq: int) -> None:
        log = self.history.log(run)
        self._do("tail", self.history.follow(log, region, from_seq % (log.next_seq + 1), log.next_seq))

    @rule(run=NUMBER, region=REGION, writer=REGION, many=st.integers(1, 3))
    def tail_live(self, run: int, region: str, writer: str, many: int) -> None:
        self._do("tail live", self.history.tail_live(self.history.log(run), region, writer, many))

    @rule(run=NUMBER, region=REGION, at=st.none() | NUMBER, freshness=FRESHNESS)
    def state(self, run: int, region: str, at: int | None, freshness: str) -> None:
        log = self.history.log(run)
        at_seq = None if at is None else at % (log.next_seq + 1)
        self._do("state", self.history.state(log, region, at_seq, freshness))

    @rule()
    def heads(self) -> None:
        """Every run's head, as the next region sees it."""
        self._do("heads", self.history.heads())

    # -- disturbing --------------------------------------------------------------------------------------------------------------------

    @rule(name=STANDBY)
    def pause_or_resume_replay(self, name: str) -> None:
        if name in self._world.lagging:
            self._do("resume", self._world.resume_replay(name))
        else:
            self._do("pause", self._world.pause_replay(name))

    def _outage(self, name: str, region: str, deeds: list[Deed], disturb: Disturbance, spare: str = "") -> None:
        """Besides those drawn, two clients of ``region`` write on: one that waits for an answer, and one that does not."""
        self._outages_left -= 1
        deeds = [*deeds, Burst(0, region, 5, hasty=True), Burst(1, region, 5, hasty=False)]
        self._do(name, self.history.race_through(deeds, disturb, spare=spare))

    @precondition(lambda self: self._outages_left)
    @rule(kill=st.booleans(), region=REGION, writers=WRITERS, readers=READERS)
    def server_goes_down(self, kill: bool, region: str, writers: list[Deed], readers: list[Deed]) -> None:
        """Only the server that is a process can be killed."""
        if kill:
            self._outage("kill server", "ap", [*writers, *readers], self._world.kill_server, "ap")
        else:
            drain = partial(self._world.restart_server, region)
            self._outage("drain server", region, [*writers, *readers], drain, region)

    @precondition(lambda self: self._outages_left)
    @rule(name=STANDBY, writers=WRITERS, readers=READERS)
    def standby_goes_down(self, name: str, writers: list[Deed], readers: list[Deed]) -> None:
        kill = partial(self._world.restart_database, name, True)
        self._outage("kill standby", name, [*writers, *readers], kill)

    @precondition(lambda self: self._outages_left)
    @rule(kill=st.booleans(), region=REGION, writers=WRITERS, readers=READERS)
    def primary_goes_down(self, kill: bool, region: str, writers: list[Deed], readers: list[Deed]) -> None:
        name = "kill primary" if kill else "restart primary"
        self._outage(name, region, [*writers, *readers], partial(self._world.restart_database, "primary", kill))

    # -- judging -----------------------------------------------------------------------------------------------------------------------

    @invariant()
    def every_guarantee_holds(self) -> None:
        self._run(self.history.settle())

    def teardown(self) -> None:
        if self._failed or not self.history.logs:
            return
        self._run(self.history.audit())
        for what in self.history.counts:
            event(what)
        self._tally += self.history.counts


@pytest.fixture(scope="module")
def world(topology: EmbeddedCluster) -> Iterator[World]:
    """One for all histories."""
    with World(topology, "histories") as made:
        yield made


def check_histories(world: World, profile: Profile) -> Counter[str]:
    """Let hypothesis draw histories; tell what they were about. Raise what failed first, also when it does not fail alike again."""
    tally: Counter[str] = Counter()
    failures: list[BaseException] = []

    def machine() -> LogMachine:
        return LogMachine(world, profile, tally, failures)

    for number in profile.seeds():
        try:
            run_state_machine_as_test(seed(number)(machine), settings=profile.settings)
        except Flaky as error:
            raise failures[0] from error
    return tally


@pytest.mark.timeout(PROFILE.timeout_s)
def test_every_history_keeps_every_guarantee(world: World) -> None:
    tally = check_histories(world, PROFILE)
    wanted = (
        *("appended", "repeated", "made", "made again", "states", "in doubt", *OUTAGES),
        *(
            "RequestIdReused",
            "SeqConflict",
            "RunTerminal",
            "EngineGap",
            "ForkPointInvalid",
            "SeqOutOfRange",
            "PrefixMismatch",
        ),
        *("read local in us", "read local in ap", "read leader in us", "read leader in ap"),
    )
    missing = [each for each in wanted if not tally[each]]
    assert not missing, f"the histories were about too little: {missing}"
