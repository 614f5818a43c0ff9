"""``isoline import``: a file of a v1 host becomes a run, or nothing."""

import json

import pytest

from support.v1 import GOLDEN, LEGACY_OWNER, SEED_LOG, STARTED, document, v1_log


@pytest.fixture
def file(tmp_path):
    """Writes a file of documents and gives its path."""

    def write(documents, end=b"\n"):
        path = tmp_path / "v1.jsonl"
        path.write_bytes(b"".join(each + end for each in documents))
        return path

    return write


def test_the_seed_log_becomes_a_run_that_reads_as_v2(isoline, file):
    ended = isoline("import", file(SEED_LOG), "--era", "2", "--tag", "old")
    assert (ended.code, ended.err) == (0, "")
    run_id = ended.out.strip()
    shown = isoline("run", "show", run_id, "--json").json
    assert (shown["era"], shown["workflowId"], shown["tags"], shown["terminalSeq"]) == (
        2,
        "conformance-noop",
        ["old"],
        3,
    )
    assert "2, read translated" in isoline("run", "show", run_id).out
    lines = isoline("read", run_id, "--json").lines
    expected = [json.loads(line) for line in GOLDEN.joinpath("seed.v2.jsonl").read_text().splitlines()]
    assert [(line["type"], line["digest"]) for line in lines] == [(each["type"], each["digest"]) for each in expected]
    assert lines[0]["payload"]["owner"] == LEGACY_OWNER
    assert lines[0]["stamp"]["eventId"] == "era2-seed-event-0"
    assert "agent.tool-called" in isoline("read", run_id).out
    assert isoline("verify", run_id, "--regions", "eu").code == 0
    fork = isoline("fork", run_id, "--from", "2").out.strip()
    assert isoline("read", fork, "--json").lines == lines[:2]


def test_blank_lines_and_line_ends_of_windows_are_no_part_of_a_document(isoline, file):
    plain = isoline("import", file(SEED_LOG), "--json").json
    spaced = isoline("import", file([b"", *SEED_LOG, b"  "], end=b"\r\n"), "--json").json
    assert spaced["head"] == plain["head"]
    assert spaced["events"] == 4


def test_a_repeated_import_gives_the_first_run_and_says_so(isoline, file):
    first, second = (isoline("import", file(SEED_LOG), "--request-id", "import-0123456789abcdef") for _ in range(2))
    assert first.out == second.out
    assert "an earlier call" in second.err


def test_whose_run_it_was_can_be_told(isoline, file):
    run_id = isoline("import", file(SEED_LOG), "--subject-id", "ada", "--lane", "oidc", "--kind", "agent").out.strip()
    subject = isoline("read", run_id, "--json").lines[0]["payload"]["owner"]["subject"]
    assert (subject["subjectId"], subject["lane"], subject["kind"]) == ("ada", "oidc", "agent")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (document(3, "example.x", {}), "line 4: sequence: must be 2"),
        (document(2, "example.x", {}, timestamp="yesterday"), "line 4: timestamp: must be an ISO 8601 time"),
        (b"no event", "line 4: must be one JSON object"),
        (document(2, "example.x", {}, vendor=1), "line 4: vendor: is no member"),
    ],
)
@pytest.mark.parametrize("option", [[], ["--dry-run"]])
def test_a_bad_line_is_named_and_nothing_is_imported(isoline, file, bad, said, option):
    before = isoline("run", "list", "-n", "0").out
    documents = [*v1_log(STARTED, ("example.x", {})), b"", bad, document(3, "example.x", {})]
    ended = isoline("import", file(documents), *option, "--json")
    assert ended.code == 2
    assert said in ended.error["message"]
    assert ended.error["details"]["line"] == 4
    assert isoline("run", "list", "-n", "0").out == before


def test_a_dry_run_names_what_has_no_v2_form_and_stores_nothing(isoline, file):
    before = isoline("run", "list", "-n", "0").out
    path = file(v1_log(STARTED, ("acme.done", {}), ("node.skipped", {"nodeId": "a", "why": 1})))
    found = isoline("import", path, "--dry-run", "--json").json
    assert (found["runId"], found["events"], found["untranslatableEvents"]) == (None, 3, 2)
    assert [(each["seq"], each["reason"]) for each in found["untranslatable"]] == [
        (1, "EVENT_TYPE_UNMAPPED"),
        (2, "PAYLOAD_UNPROJECTABLE"),
    ]
    ended = isoline("import", path, "--dry-run")
    assert (ended.code, ended.out) == (0, "")
    assert "acme.done" in ended.err
    assert "2 events without a v2 form; nothing was stored" in ended.err
    assert isoline("run", "list", "-n", "0").out == before


def test_an_event_without_a_v2_form_is_stored_and_told_by_whoever_reads_it(isoline, file):
    ended = isoline("import", file(v1_log(STARTED, ("acme.done", {}))))
    run_id = ended.out.strip()
    assert "acme.done" in ended.err
    assert "no v2 form at seq 1" in isoline("run", "show", run_id).out
    read = isoline("read", run_id, "--json")
    assert (read.code, len(read.lines)) == (3, 1)
    assert (read.error["kind"], read.error["details"]["seq"]) == ("EventTypeUnmapped", "1")


@pytest.mark.parametrize("arguments", [["no-such-file"], ["no-such-file", "--era", "3"]])
def test_a_file_that_is_not_there_and_an_era_that_is_not_meant_are_wrong_usage(isoline, arguments):
    assert isoline("import", *arguments).code == 2


def test_an_empty_file_is_no_run(isoline, file):
    assert isoline("import", file([]), "--json").error["details"]["field"] == "events"
