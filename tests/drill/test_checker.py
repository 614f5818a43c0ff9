"""The checker is content with every history of a service that keeps its promises, and finds each fault that is planted into one, and only it."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drill.simulated import DEEDS, REGIONS, AnyDeed, Make, See, Service, Split, Write, changed, write
from isoline_drill.checker import Verdict, check
from isoline_drill.checker_findings import Fault, FinalLogs
from isoline_drill.history import (
    Append,
    Entry,
    Fork,
    Header,
    HistoryError,
    HistoryReader,
    Operation,
    Prefix,
    Read,
    State,
    header_line,
    operation_line,
    read_history,
)

MANY = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SOME = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
RUN = "run-0"
START = (Make(), Write(many=2), Write(many=3))


def lived(*parts: Sequence[AnyDeed]) -> Service:
    """A service that has lived through these, each part over before the next begins."""
    service = Service()
    for part in parts:
        service.live(part)
    return service


@MANY
@given(DEEDS)
def test_a_correct_history_has_no_findings(deeds: list[AnyDeed]) -> None:
    service = lived(START, deeds)
    verdict = check(service.operations, service.final, effects=["a", "b"])
    assert verdict.ok, list(map(str, verdict.findings))
    assert verdict.operations == len(service.operations)


@MANY
@given(DEEDS)
def test_every_acknowledged_append_is_missed_when_it_is_gone(deeds: list[AnyDeed]) -> None:
    service = lived(START, deeds)
    for append in service.operations:
        if isinstance(append, Append) and append.outcome == "ok":
            kept = {
                run: tuple(each for each in log if run != append.run or each.marker not in append.markers)
                for run, log in service.final.leader.items()
            }
            verdict = check(service.operations, FinalLogs(leader=kept))
            assert verdict.lost == len(append.markers)


def test_the_counts_are_those_of_the_history() -> None:
    service = lived(START, [Write(fate="landed"), Write(fate="lost"), Write(fate="refused"), See(), Split(part=2)])
    verdict = check(service.operations, service.final)
    assert verdict == Verdict(
        findings=(), operations=8, runs=2, forks=1, acknowledged=2, acknowledged_events=5, unknown=2, unknown_landed=1,
        failed=1, reads=1,
    )  # fmt: skip


# -- planted faults ------------------------------------------------------------------------------------------------------------------------


@dataclass
class Evidence:
    """A good history, its logs and its effects, to be spoilt."""

    operations: list[Any]
    logs: dict[str, list[Entry]]
    effects: list[str] = field(default_factory=lambda: ["e1", "e2"])
    copies: dict[str, tuple[Entry, ...]] = field(default_factory=dict)
    """By region: its final log of run 0, where it is not the leader's."""

    @property
    def final(self) -> FinalLogs:
        leader = {run: tuple(log) for run, log in self.logs.items()}
        regions = {region: dict(leader) for region in REGIONS}
        for region, copy in self.copies.items():
            regions[region][RUN] = copy
        return FinalLogs(leader=leader, regions=regions)

    def last(self, kind: type[Operation], **values: Any) -> Any:
        """The last operation of a kind that has these values."""
        return next(
            each
            for each in reversed(self.operations)
            if isinstance(each, kind) and all(getattr(each, name) == value for name, value in values.items())
        )

    def tell(self, operation: Operation, **values: Any) -> None:
        """Have an operation been told otherwise."""
        place = next(i for i, each in enumerate(self.operations) if each is operation)
        self.operations[place] = changed(operation, **values)

    @property
    def log(self) -> list[Entry]:
        return self.logs[RUN]


def lose_the_last(evidence: Evidence) -> None:
    del evidence.log[evidence.last(Append).first_seq :]


def lose_a_run(evidence: Evidence) -> None:
    del evidence.logs[evidence.last(Fork).run]


def write_again(evidence: Evidence) -> None:
    write(evidence.log, evidence.last(Append).markers[0])


def say_another_place(evidence: Evidence) -> None:
    append = evidence.last(Append)
    evidence.tell(append, first_seq=append.first_seq - 1, last_seq=append.last_seq - 1)


def say_another_end(evidence: Evidence) -> None:
    append = evidence.last(Append)
    evidence.tell(append, last_seq=append.last_seq - 1)


def expect_another_place(evidence: Evidence) -> None:
    evidence.tell(evidence.last(Append), expected_seq=0)


def swap_times(evidence: Evidence) -> None:
    later, earlier = (each for each in reversed(evidence.operations[-2:]))
    evidence.tell(later, invoked_us=earlier.invoked_us - 2, completed_us=earlier.invoked_us - 1)


def lose_half(evidence: Evidence) -> None:
    evidence.log.pop()


def put_between(evidence: Evidence) -> None:
    """Another append stands within one whose outcome is unknown."""
    first, second, inside = evidence.log[-3:]
    evidence.log[-3:] = []
    for entry in (first, inside, second):
        write(evidence.log, entry.marker)


def write_out_of_nothing(evidence: Evidence) -> None:
    write(evidence.log, "of nobody")


def write_of_another_run(evidence: Evidence) -> None:
    write(evidence.log, evidence.last(Append).markers[0])


def write_the_refused(evidence: Evidence) -> None:
    write(evidence.log, evidence.last(Append, outcome="failed").markers[0])


def leave_a_gap(evidence: Evidence) -> None:
    evidence.log[-1] = evidence.log[-1]._replace(seq=len(evidence.log))


def leave_out_of_the_read(evidence: Evidence) -> None:
    read = evidence.last(Read)
    evidence.tell(read, events=(*read.events[:1], *read.events[2:]))


def end_the_read_early(evidence: Evidence) -> None:
    read = evidence.last(Read)
    evidence.tell(read, until_seq=len(read.events) + 1)


def skip_in_the_tail(evidence: Evidence) -> None:
    page = evidence.operations[-1]
    evidence.tell(page, from_seq=page.from_seq + 1, events=page.events[1:])


def take_back_what_was_read(evidence: Evidence) -> None:
    evidence.log.pop()


def read_another_history(evidence: Evidence) -> None:
    read = evidence.last(Read)
    evidence.tell(read, events=(*read.events[:-1], read.events[-1]._replace(marker="another")))


def read_another_digest(evidence: Evidence) -> None:
    read = evidence.last(Read)
    evidence.tell(read, events=(*read.events[:-1], read.events[-1]._replace(digest="another")))


def acknowledge_another_digest(evidence: Evidence) -> None:
    evidence.tell(evidence.last(Append), digest="another")


def give_another_token(evidence: Evidence) -> None:
    evidence.tell(evidence.last(Prefix), digest="another")


def give_another_state(evidence: Evidence) -> None:
    evidence.tell(evidence.last(State), state_digest="another")


def deny_the_last(evidence: Evidence) -> None:
    evidence.tell(evidence.last(Read), absent="seq", absent_from=evidence.last(Append).last_seq, events=())


def deny_the_run(evidence: Evidence) -> None:
    evidence.tell(evidence.last(Read), absent="run", absent_from=0, events=())


def read_short(evidence: Evidence) -> None:
    read = evidence.last(Read)
    evidence.tell(read, events=read.events[:-1])


def go_back(evidence: Evidence) -> None:
    before = evidence.log[-2]
    evidence.tell(evidence.operations[-1], seq=before.seq, digest=before.digest)


def go_back_behind_an_append(evidence: Evidence) -> None:
    """Told once, though the append that is not shown was acknowledged too."""
    go_back(evidence)


def change_the_fork(evidence: Evidence) -> None:
    log = evidence.logs[evidence.last(Fork).run]
    log[0] = log[0]._replace(digest="another")


def pin_another_digest(evidence: Evidence) -> None:
    evidence.tell(evidence.last(Fork), prefix_digest="another")


def leave_a_region_behind(evidence: Evidence) -> None:
    evidence.copies["us"] = tuple(evidence.log[:-2])


def keep_another_history(evidence: Evidence) -> None:
    evidence.copies["us"] = (*evidence.log[:-1], evidence.log[-1]._replace(marker="another"))


def give_damaged_bytes(evidence: Evidence) -> None:
    read = evidence.last(Read)
    evidence.tell(read, outcome="failed", events=(), error="VerificationFailed: seq 3: the page begins elsewhere")


def refuse_a_run(evidence: Evidence) -> None:
    evidence.tell(evidence.last(Append), error="RunNotFound: no such run")


def fire_twice(evidence: Evidence) -> None:
    evidence.effects.append("e1")


LANDED = Write(fate="landed")
TOKEN = See(how="prefix")
PLANTS: list[tuple[Fault, Callable[[Evidence], None], list[AnyDeed]]] = [
    (Fault.LOST, lose_the_last, [Write(many=2)]),
    (Fault.LOST, lose_a_run, [Split(part=1)]),
    (Fault.DUPLICATE, write_again, [Write()]),
    (Fault.DUPLICATE, write_again, [LANDED]),
    (Fault.WRONG_PLACE, say_another_place, [Write()]),
    (Fault.WRONG_PLACE, say_another_end, [Write(many=2)]),
    (Fault.WRONG_PLACE, expect_another_place, [Write()]),
    (Fault.WRONG_PLACE, expect_another_place, [LANDED]),
    (Fault.REORDER, swap_times, [Write(), Write()]),
    (Fault.REORDER, swap_times, [LANDED, Write()]),
    (Fault.TORN, lose_half, [Write(fate="landed", many=2)]),
    (Fault.TORN, put_between, [Write(fate="landed", many=2), LANDED]),
    (Fault.PHANTOM, write_out_of_nothing, [Write()]),
    (Fault.PHANTOM, write_of_another_run, [Make(), Write(run=-1)]),
    (Fault.PHANTOM, write_the_refused, [Write(fate="refused")]),
    (Fault.GAP, leave_a_gap, [LANDED]),
    (Fault.GAP, leave_out_of_the_read, [See(how="read", source="local")]),
    (Fault.GAP, end_the_read_early, [See(how="read", source="local")]),
    (Fault.GAP, skip_in_the_tail, [See(how="tail"), Write(many=3, effect_after=1), See(how="tail", effect_after=5)]),
    (Fault.FORKED_SUFFIX, take_back_what_was_read, [LANDED, See(source="local", effect_after=5)]),
    (Fault.FORKED_SUFFIX, take_back_what_was_read, [LANDED, See(how="prefix", source="local", effect_after=5)]),
    (Fault.FORKED_SUFFIX, read_another_history, [See(source="stale", lag=1)]),
    (Fault.DIGEST_MISMATCH, read_another_digest, [See(source="local")]),
    (Fault.DIGEST_MISMATCH, acknowledge_another_digest, [Write()]),
    (Fault.DIGEST_MISMATCH, give_another_token, [TOKEN]),
    (Fault.DIGEST_MISMATCH, give_another_state, [See(how="state"), See(how="state", client=1)]),
    (Fault.STALE_ABSENCE, deny_the_last, [Write(), See()]),
    (Fault.STALE_ABSENCE, deny_the_run, [See()]),
    (Fault.STALE_ABSENCE, refuse_a_run, [Write(fate="refused")]),
    (Fault.DAMAGE, give_damaged_bytes, [See()]),
    (Fault.STALE_READ, read_short, [Write(), See()]),
    (Fault.BACKWARDS, go_back, [LANDED, TOKEN, TOKEN]),
    (Fault.BACKWARDS, go_back_behind_an_append, [Write(), TOKEN, TOKEN]),
    (Fault.FORK_PREFIX, change_the_fork, [Split(part=1)]),
    (Fault.FORK_PREFIX, pin_another_digest, [Split(part=1)]),
    (Fault.REGION_BEHIND, leave_a_region_behind, []),
    (Fault.FORKED_SUFFIX, keep_another_history, []),
    (Fault.EFFECT_TWICE, fire_twice, []),
]


@pytest.mark.parametrize(
    ("fault", "plant", "deeds"), PLANTS, ids=[f"{fault.name}-{plant.__name__}" for fault, plant, _ in PLANTS]
)
def test_a_planted_fault_is_found_and_nothing_else(
    fault: Fault, plant: Callable[[Evidence], None], deeds: list[AnyDeed]
) -> None:
    @SOME
    @given(DEEDS)
    def holds(before: list[AnyDeed]) -> None:
        service = lived(START, before, *([deed] for deed in deeds))
        evidence = Evidence(list(service.operations), service.logs)
        assert check(evidence.operations, evidence.final, evidence.effects).ok
        plant(evidence)
        verdict = check(evidence.operations, evidence.final, evidence.effects)
        assert {finding.fault for finding in verdict.findings} == {fault}, list(map(str, verdict.findings))
        assert len(verdict.findings) == 1 or fault in _ALSO_IN_REGIONS

    holds()


_ALSO_IN_REGIONS = {Fault.GAP}
"""A gap in the leader's log is one in every copy."""


def test_every_fault_is_planted() -> None:
    assert {fault for fault, _, _ in PLANTS} == set(Fault)


def test_a_finding_names_the_operations_that_show_it() -> None:
    service = lived(START, [Write()], [See(client=1)])
    evidence = Evidence(list(service.operations), service.logs)
    read_short(evidence)
    (finding,) = check(evidence.operations, evidence.final).findings
    assert finding.operations == (evidence.operations[-2], evidence.operations[-1])
    assert "c0#" in str(finding)
    assert "stale read: run-0 at seq 4" in str(finding)


def test_a_long_history_is_judged_in_little_more_than_linear_time() -> None:
    """Counted in looks at events, not in seconds: a quadratic check of 20,000 operations would look 100 times as often as allowed here."""
    looked = [_looks(_long(operations)) for operations in (2_000, 20_000)]
    assert looked[1] < 20 * looked[0]


def _long(operations: int) -> Service:
    deeds: list[AnyDeed] = [
        Write(client=n % 3, fate="landed" if n % 7 == 0 else "ok")
        if n % 2
        else See(client=n % 3, how="prefix", source="leader")
        for n in range(operations)
    ]
    return lived(START, deeds)


def _looks(service: Service) -> int:
    import cProfile

    profile = cProfile.Profile()
    verdict = profile.runcall(check, service.operations, service.final)
    assert verdict.ok
    return sum(entry.callcount for entry in profile.getstats())


# -- lines ---------------------------------------------------------------------------------------------------------------------------------

HEADER = Header(client="c0", region="eu", wall_offset_us=1_700_000_000_000_000)


@SOME
@given(DEEDS)
def test_what_is_written_is_read(deeds: list[AnyDeed]) -> None:
    service = lived(START, deeds)
    header, operations = read_history([header_line(HEADER), *map(operation_line, service.operations)])
    assert header == HEADER
    assert operations == sorted(service.operations, key=lambda operation: operation.invoked_us)


def test_the_later_line_of_an_operation_counts() -> None:
    done = lived(START).operations[-1]
    began = replace(done, outcome="unknown", completed_us=None, first_seq=None, last_seq=None, digest="")
    _, operations = read_history([header_line(HEADER), operation_line(began), operation_line(done)])
    assert operations == [done]


@SOME
@given(DEEDS, st.integers(1, 200))
def test_a_file_that_grows_is_read_as_it_does(deeds: list[AnyDeed], step: int) -> None:
    service = lived(START, deeds)
    text = "".join([header_line(HEADER), *map(operation_line, service.operations)])
    reader = HistoryReader()
    told = [each for place in range(0, len(text), step) for each in reader.feed(text[place : place + step])]
    assert told == service.operations
    assert (reader.header, reader.operations) == read_history(text.splitlines(keepends=True))


def test_a_line_that_was_not_finished_is_left_out() -> None:
    done = lived(START).operations[-1]
    began = replace(done, outcome="unknown", completed_us=None)
    _, operations = read_history([header_line(HEADER), operation_line(began), operation_line(done)[:-9]])
    assert operations == [began]


def _wrong_lines() -> Iterator[tuple[str, str]]:
    line = operation_line(lived(START).operations[-1])
    yield "kind: 'appends'", line.replace('"kind":"append"', '"kind":"appends"')
    yield "kind: None", line.replace('"kind":"append",', "")
    yield "shard: no such field", line.replace('"kind":"append"', '"kind":"append","shard":1')
    yield "run: is missing", line.replace('"run":"run-0",', "")
    yield "op: a whole number is wanted, not True", re.sub('"op":[0-9]+', '"op":true', line)
    yield "first_seq: a whole number", line.replace('"first_seq":2', '"first_seq":"2"')
    yield "repeated: true or false", line.replace('"repeated":false', '"repeated":0')
    yield "outcome: one of 'ok', 'failed', 'unknown'", line.replace('"outcome":"ok"', '"outcome":"fine"')
    yield "markers: a list of texts", line.replace('"markers":["m3"', '"markers":[3')
    yield "not JSON", line.replace('"kind"', "kind")
    yield "not a JSON object", "[]\n"
    yield "events: a list of [seq, marker, digest]", operation_line(
        Read(client="c0", op=1, region="eu", invoked_us=0, completed_us=1, outcome="ok", run=RUN, freshness="local",
             from_seq=0, until_seq=None)
    ).replace('"events":[]', '"events":[["0","m","d"]]')  # fmt: skip


@pytest.mark.parametrize(("what", "line"), list(_wrong_lines()), ids=[what for what, _ in _wrong_lines()])
def test_a_wrong_line_is_named(what: str, line: str) -> None:
    with pytest.raises(HistoryError) as raised:
        read_history([header_line(HEADER), line])
    assert str(raised.value).startswith(f"line 2: {what}")


def test_another_version_is_refused() -> None:
    with pytest.raises(HistoryError, match="line 1: history: version 1 is understood, not 2"):
        read_history([header_line(HEADER).replace('"history":1', '"history":2')])


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(HistoryError, match="line 1: no header"):
        read_history([])
