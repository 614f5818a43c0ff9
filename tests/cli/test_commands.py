"""The commands against a real server."""

import hashlib
import json

import pytest

from cli.conftest import jsonl, numbered

DIGEST = "4591abb3df94d8b75b4caeff0d67f06a300b676f1b1b2c18825782aba2ee0c7a"  # of the empty prefix


@pytest.fixture
def filled(isoline, run_id):
    """A run of ten events."""
    assert isoline("append", run_id, stdin=numbered(10)).code == 0
    return run_id


# -- run -----------------------------------------------------------------------------------------------------------------------------


def test_create_prints_the_id_alone(isoline):
    ended = isoline("run", "create", "w", "--tag", "a", "-t", "[red]b")
    assert (ended.code, ended.err) == (0, "")
    shown = isoline("run", "show", ended.out.strip())
    assert "a, [red]b" in shown.out


def test_create_in_json_is_the_run(isoline):
    made = isoline("run", "create", "w", "--tag", "a", "--json").json
    assert (made["workflowId"], made["tags"], made["homeRegion"], made["repeated"]) == ("w", ["a"], "eu", False)
    assert made["head"] == {"seq": -1, "digest": DIGEST}


@pytest.mark.parametrize("options", [["--home", "us"], ["--region", "us"], ["--region", "eu", "--home", "us"]])
def test_a_run_lives_where_it_was_asked_to(cli, eu, options):
    made = cli("run", "create", "w", "-s", eu.address, *options, "--json").json
    assert made["homeRegion"] == "us"


def test_a_repeated_creation_gives_the_first_run_and_says_so(isoline):
    first, second = (isoline("run", "create", "w", "--request-id", "0123456789abcdef0123") for _ in range(2))
    assert first.out == second.out
    assert "an earlier call" in second.err


def test_show_is_the_head_and_the_lineage(isoline, filled):
    fork = isoline("fork", filled, "--from", "4").out.strip()
    shown = isoline("run", "show", fork, "--json").json
    assert shown["fork"]["sourceRunId"] == filled
    assert shown["lineage"] == [{"startSeq": 0, "endSeq": 4, "originRunId": filled}]
    assert shown["head"]["seq"] == 3


def test_list_is_newest_first_and_ends_at_its_limit(isoline):
    made = [isoline("run", "create", "listed").out.strip() for _ in range(3)]
    listed = isoline("run", "list", "--workflow", "listed", "--limit", "2", "--json").lines
    assert [run["runId"] for run in listed] == made[:0:-1]
    assert isoline("run", "list", "--workflow", "listed", "-n", "0").out.count("listed") == 3


def test_an_empty_list_says_so(isoline):
    assert isoline("run", "list", "--workflow", "none").out == "no runs\n"


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        ("nonsense", "InvalidRequest"),
        ("local/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa", "RunNotFound"),
        ("other/eu-aaaaaaaaaaaaaaaaaaaaaaaaaa", "TenantMismatch"),
    ],
)
@pytest.mark.parametrize(
    "command", [["run", "show"], ["read"], ["tail"], ["state"], ["fork", "--from", "0"], ["append", "--"]]
)
def test_a_run_that_is_not_there_is_refused_in_words(isoline, command, run, kind):
    ended = isoline("--json", *command, run, stdin=numbered(1))
    assert (ended.code, ended.error["kind"], ended.error["exitCode"]) == (3, kind, 3)


# -- append --------------------------------------------------------------------------------------------------------------------------


def test_append_says_where_the_events_stand(isoline, run_id):
    ended = isoline("append", run_id, "-", "--json", stdin=numbered(3))
    head = isoline("run", "show", run_id, "--json").json["head"]
    said = ended.json
    assert (said["events"], said["firstSeq"], said["lastSeq"], said["complete"]) == (3, 0, 2, True)
    assert head == {"seq": said["lastSeq"], "digest": said["digest"]}


def test_append_takes_a_file(isoline, run_id, tmp_path):
    (tmp_path / "e.jsonl").write_text(numbered(2))
    assert "appended 2 events: seq 0..1, digest " in isoline("append", run_id, tmp_path / "e.jsonl").out


def test_many_lines_go_in_batches(isoline, run_id):
    assert isoline("append", run_id, "--batch", "7", "--json", stdin=numbered(50)).json["lastSeq"] == 49
    assert [event["payload"]["i"] for event in isoline("read", run_id, "--json").lines] == list(range(50))


def test_nothing_to_append_is_no_error(isoline, run_id):
    assert isoline("append", run_id, stdin="\n").out.startswith("appended 0 events")


@pytest.mark.parametrize(
    ("bad", "code", "why"),
    [
        ('{"type":"test.event","payload":[]}', 2, "line 6: payload: must be a JSON object"),
        ('{"type":"Test","payload":{}}', 3, "line 6: type: must be"),
        ('{"type":"test.event","payload":{"a":1,"a":2}}', 3, "line 6: payload: must not hold a key twice"),
        ('{"type":"test.event","payload":{"a":NaN}}', 3, "line 6: payload: must not hold NaN"),
        ('{"type":"test.event","payload":{},"masked":["/a"]}', 3, "line 6: masked[0]: must point"),
    ],
)
def test_a_bad_line_is_named_and_nothing_of_its_batch_is_appended(isoline, run_id, bad, code, why):
    ended = isoline("append", run_id, "--batch", "2", stdin=numbered(5) + bad + "\n" + numbered(3))
    assert ended.code == code
    assert f"isoline: {why}" in ended.err
    assert "lines up to 4 of the input are in the run, none behind them" in ended.err
    assert isoline("run", "show", run_id, "--json").json["head"]["seq"] == 3


def test_what_was_appended_before_a_bad_line_is_told_to_machines_too(isoline, run_id):
    ended = isoline("append", run_id, "--batch", "2", "--json", stdin=numbered(3) + "{")
    assert (ended.code, ended.json["complete"], ended.json["events"], ended.json["lastSeq"]) == (2, False, 2, 1)
    assert ended.error["details"] == {"line": 4}


def test_an_expected_seq_that_is_not_the_next_is_refused(isoline, filled):
    assert isoline("append", filled, "--expected-seq", "10", stdin=numbered(2)).code == 0
    ended = isoline("append", filled, "--expected-seq", "10", "--json", stdin=numbered(2))
    assert (ended.code, ended.error["kind"], ended.error["details"]["actual_seq"]) == (3, "SeqConflict", "12")


def test_an_expected_seq_holds_over_batches(isoline, run_id):
    assert isoline("append", run_id, "--expected-seq", "0", "--batch", "2", stdin=numbered(5)).code == 0


def test_a_timestamp_is_left_out_and_it_is_said(isoline, run_id):
    line = jsonl({"type": "test.event", "timestamp": "2024-01-01T00:00:00Z", "payload": {}})
    ended = isoline("append", run_id, stdin=line)
    assert "left out 1 timestamp" in ended.err
    assert isoline("read", run_id, "--json").json["payload"] == {}


def test_a_timestamp_is_kept_when_asked_for(isoline, run_id):
    line = jsonl({"type": "test.event", "timestamp": "2024-01-01T00:00:00Z", "payload": {"a": 1}})
    assert isoline("append", run_id, "--keep-timestamps", "--json", stdin=line).json["timestampsLeftOut"] == 0
    event = isoline("read", run_id, "--json").json
    assert (event["payload"], event["masked"]) == ({"a": 1, "timestamp": "2024-01-01T00:00:00Z"}, ["/timestamp"])


# -- append --engine -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batches", [("1000", "1000"), ("4", "7"), ("7", "4"), ("1000", "3"), ("3", "1000")])
def test_the_same_input_again_appends_nothing_however_it_is_cut(isoline, run_id, batches):
    first, again = (
        isoline("append", run_id, "--engine", "e", "--batch", batch, "--json", stdin=numbered(20)).json
        for batch in batches
    )
    assert (first["events"], first["alreadyThere"]) == (20, 0)
    assert (again["events"], again["alreadyThere"]) == (0, 20)
    assert {name: again[name] for name in ("firstSeq", "lastSeq", "digest")} == {
        name: first[name] for name in ("firstSeq", "lastSeq", "digest")
    }


@pytest.mark.parametrize("batch", ["1000", "4"])
def test_an_input_that_was_cut_short_is_completed(isoline, run_id, batch):
    isoline("append", run_id, "--engine", "e", "--batch", "5", stdin=numbered(13))
    again = isoline("append", run_id, "--engine", "e", "--batch", batch, "--json", stdin=numbered(20)).json
    assert (again["events"], again["alreadyThere"], again["lastSeq"]) == (7, 13, 19)
    assert [event["payload"]["i"] for event in isoline("read", run_id, "--json").lines] == list(range(20))


def test_events_of_others_between_do_not_matter(isoline, run_id):
    isoline("append", run_id, "--engine", "e", stdin=numbered(5))
    isoline("append", run_id, "--engine", "other", stdin=numbered(5, 100))
    isoline("append", run_id, stdin=numbered(5, 200))
    again = isoline("append", run_id, "--engine", "e", "--batch", "3", "--json", stdin=numbered(8)).json
    assert (again["events"], again["alreadyThere"], again["firstSeq"], again["lastSeq"]) == (3, 5, 0, 17)


def test_an_input_that_differs_from_what_the_engine_wrote_is_refused_at_its_line(isoline, run_id):
    isoline("append", run_id, "--engine", "e", stdin=numbered(5))
    changed = numbered(3) + numbered(1, 99) + numbered(1, 4)
    ended = isoline("append", run_id, "--engine", "e", "--json", stdin=changed)
    assert (ended.code, ended.error["details"]) == (3, {"line": 4, "seq": 3, "engineSeq": 4})
    assert "its payload is not that of event 4 of engine e" in ended.error["message"]
    assert isoline("run", "show", run_id, "--json").json["head"]["seq"] == 4


def test_an_engine_begins_anew_in_a_fork(isoline, run_id):
    isoline("append", run_id, "--engine", "e", stdin=numbered(5))
    fork = isoline("fork", run_id, "--from", "3").out.strip()
    for expected in (2, 0):
        said = isoline("append", fork, "--engine", "e", "--batch", "1", "--json", stdin=numbered(2, 50)).json
        assert said["events"] == expected


def test_an_expected_seq_and_an_engine_go_together(isoline, run_id):
    for batch in ("2", "3"):
        options = ("--engine", "e", "--expected-seq", "0", "--batch", batch)
        assert isoline("append", run_id, *options, stdin=numbered(7)).code == 0
    assert isoline("run", "show", run_id, "--json").json["head"]["seq"] == 6


# -- read, tail, state ---------------------------------------------------------------------------------------------------------------


def test_read_gives_the_range_that_was_asked_for(isoline, filled):
    assert [event["seq"] for event in isoline("read", filled, "--from", "2", "--until", "5", "--json").lines] == [
        2,
        3,
        4,
    ]
    assert isoline("read", filled, "--from", "10").out == ""


def test_read_for_people_is_a_line_an_event(isoline, filled):
    ended = isoline("read", filled)
    assert len(ended.out.splitlines()) == 10
    assert '{"i": 3}' in ended.out.splitlines()[3]
    assert "events [0, 10)" in ended.err


def test_what_read_writes_append_takes(isoline, filled, run_id):
    other = isoline("run", "create", "copy").out.strip()
    written = isoline("read", filled, "--json").out
    assert isoline("append", other, stdin=written).code == 0
    copied = isoline("read", other, "--json").lines
    assert [(e["type"], e["nodeId"], e["payload"]) for e in copied] == [
        (e["type"], e["nodeId"], e["payload"]) for e in map(json.loads, written.splitlines())
    ]


def test_a_payload_is_read_as_it_was_spelled(isoline, run_id):
    isoline("append", run_id, stdin='{"type":"test.event","payload":{"b": 1.50, "a":1e3}}')
    assert '"payload":{"b": 1.50, "a":1e3}' in isoline("read", run_id, "--json").out


def test_control_characters_in_a_payload_do_not_reach_the_terminal(isoline, run_id):
    isoline("append", run_id, stdin='{"type":"test.event","payload":{"a":"\x9b31m"}}')
    assert "\x9b" not in isoline("read", run_id).out


def test_a_known_position_is_extended_or_refused(isoline, filled):
    digest = isoline("read", filled, "--from", "3", "--until", "4", "--json").json["digest"]
    assert isoline("read", filled, "--from", "4", "--known", f"3:{digest}").code == 0
    ended = isoline("read", filled, "--from", "4", "--known", f"3:{'0' * 64}", "--json")
    assert (ended.code, ended.error["kind"]) == (3, "PrefixMismatch")


def test_a_range_beyond_the_head_is_refused_with_the_head(isoline, filled):
    error = isoline("read", filled, "--until", "11", "--json").error
    assert (error["kind"], error["details"]["head_seq"]) == ("SeqOutOfRange", "9")


def test_tail_ends_behind_the_terminal_event(isoline, filled):
    isoline("append", filled, stdin=jsonl({"type": "run.completed", "payload": {}}))
    ended = isoline("tail", filled, "--last", "2", "--until-terminal", "--json")
    assert ended.code == 0
    assert [event["seq"] for event in ended.lines] == [9, 10]


def test_an_event_behind_the_end_of_a_run_is_refused(isoline, run_id):
    isoline("append", run_id, stdin=jsonl({"type": "run.completed", "payload": {}}))
    ended = isoline("append", run_id, "--json", stdin=jsonl({"type": "run.started", "payload": {}}))
    assert (ended.code, ended.error["kind"], ended.error["details"]["terminal_seq"]) == (3, "RunTerminal", "0")


def test_state_is_folded_at_a_seq(isoline, run_id):
    isoline(
        "append",
        run_id,
        stdin=jsonl(
            {"type": "run.started", "payload": {"inputs": {"colour": "red"}}},
            {"type": "variable.changed", "payload": {"name": "colour", "next": "[red]"}},
        ),
    )
    assert isoline("state", run_id, "--at", "1", "--json").json["state"]["variables"] == {"colour": "red"}
    assert '"[red]"' in isoline("state", run_id).out


def test_the_canonical_bytes_of_a_state_have_its_digest(isoline, filled):
    digest = isoline("state", filled, "--json").json["stateDigest"]
    assert hashlib.sha256(isoline("state", filled, "--canonical").out.encode()).hexdigest() == digest


# -- fork, diff, capabilities --------------------------------------------------------------------------------------------------------


def test_fork_prints_the_new_id_and_shares_the_prefix(isoline, filled):
    fork = isoline("fork", filled, "--from", "4", "--overlay", '{"model": "small"}').out.strip()
    shown = isoline("run", "show", fork, "--json").json
    assert (shown["head"]["seq"], shown["fork"]["mode"], shown["fork"]["overlay"]) == (3, "branch", {"model": "small"})


def test_an_overlay_may_stand_in_a_file(isoline, filled, tmp_path):
    (tmp_path / "o.json").write_text('{"a": 1}')
    assert isoline("fork", filled, "--from", "1", "--overlay", f"@{tmp_path / 'o.json'}", "--json").json["fork"][
        "overlay"
    ] == {"a": 1}


def test_a_replay_begins_at_the_start_and_takes_no_overlay(isoline, filled):
    assert isoline("fork", filled, "--mode", "replay", "--json").json["fork"]["fromSeq"] == 0
    assert isoline("fork", filled, "--mode", "replay", "--overlay", '{"a":1}').code == 3


def test_a_fork_is_pinned_by_a_digest(isoline, filled):
    digest = isoline("read", filled, "--from", "3", "--until", "4", "--json").json["digest"]
    assert isoline("fork", filled, "--from", "4", "--expect-digest", digest).code == 0
    assert isoline("fork", filled, "--from", "4", "--expect-digest", "0" * 64).code == 3


def test_a_fork_point_beyond_the_log_is_refused_with_the_last_seq(isoline, filled):
    error = isoline("fork", filled, "--from", "10", "--json").error
    assert (error["reason"], error["details"]["last_seq"]) == ("FORK_POINT_INVALID", "9")


def test_diff_ends_with_0_when_nothing_differs(isoline, filled):
    fork = isoline("fork", filled, "--from", "4").out.strip()
    ended = isoline("diff", filled, fork, "--json")
    assert (ended.code, ended.json["equal"], ended.json["sharedEvents"]) == (0, True, 4)


def test_diff_ends_with_1_and_shows_what_differs(isoline, filled):
    fork = isoline("fork", filled, "--from", "4").out.strip()
    isoline("append", fork, stdin=numbered(1, 77))
    ended = isoline("diff", filled, fork)
    assert ended.code == 1
    assert [line[:7] for line in ended.out.splitlines()] == ["-     4", "+     4"]
    assert "different from seq 4; 4 events shared" in ended.err
    [difference] = isoline("diff", filled, fork, "--json").json["eventDiffs"]
    assert (difference["op"], difference["a"]["payload"], difference["b"]["payload"]) == (
        "changed",
        {"i": 4},
        {"i": 77},
    )


def workflow(outputs):
    lines = [
        {"type": "run.started", "payload": {"workflowId": "w"}},
        {"type": "node.started", "nodeId": "a", "payload": {"nodeId": "a"}},
        {"type": "node.completed", "nodeId": "a", "payload": {"nodeId": "a", "outputs": outputs}},
        {"type": "run.completed", "payload": {"outputs": {}}},
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.fixture
def replays(isoline, run_id):
    """A source, a replay that is the same, and one that diverged."""
    isoline("append", run_id, stdin=workflow(1))
    forks = [isoline("fork", run_id, "--mode", "replay").out.strip() for _ in range(2)]
    for fork, outputs in zip(forks, (1, 2), strict=True):
        assert isoline("append", fork, stdin=workflow(outputs)).code == 0
    return run_id, *forks


def test_compare_ends_with_0_when_only_stamps_differ(isoline, replays):
    source, same, _ = replays
    ended = isoline("compare", source, same, "--json")
    assert (ended.code, ended.json["equal"], ended.json["rawSuffixEqual"], ended.json["score"]) == (0, True, False, 1)
    assert "4/4 events (100.0%)" in isoline("compare", source, same).out


def test_compare_ends_with_1_and_names_the_first_divergence(isoline, replays):
    source, _, other = replays
    ended = isoline("compare", source, other, "--json")
    assert (ended.code, ended.json["prefixEqual"], ended.json["maskedEqual"]) == (1, True, False)
    assert (ended.json["firstDivergenceSeq"], ended.json["comparedEvents"], ended.json["matchedEvents"]) == (2, 5, 2)
    assert "seq 2" in isoline("compare", source, other).out


def test_tail_shows_people_where_a_replay_diverged(isoline, replays):
    shown = isoline("tail", replays[2], "--until-terminal").out + isoline("read", replays[2]).out
    assert "REPLAY.DIVERGED" in shown
    assert "REPLAY.DIVERGED" not in isoline("read", replays[2], "--json").out


def test_capabilities_show_every_limit(isoline):
    assert "append_events_max" in isoline("capabilities").out
    assert isoline("capabilities", "--json").json["limits"]["append_events_max"] == 1000
