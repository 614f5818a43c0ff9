"""The program as a process: signals, pipes, colours, crashes."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import numbered
from support.waiting import wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture
def run(isoline, run_id):
    """A run of three events."""
    isoline("append", run_id, stdin=numbered(3))
    return run_id


def head_of(isoline, run_id):
    return isoline("run", "show", run_id, "--json").json["head"]["seq"]


def test_ctrl_c_ends_a_tail_with_130_and_no_word(process, run):
    tail = process("tail", run)
    for _ in range(3):
        tail.stdout.readline()
    tail.send_signal(signal.SIGINT)
    assert tail.communicate(timeout=20) == ("", "")
    assert tail.returncode == 130


def test_a_tail_shows_at_once_what_is_appended(process, isoline, run):
    tail = process("tail", run, "--last", "0", "--json")
    written = None
    for n in range(100):  # until the tail stands, what is appended is before its start
        isoline("append", run, stdin=numbered(1, n))
        os.set_blocking(tail.stdout.fileno(), False)
        if written := tail.stdout.readline():
            break
    assert json.loads(written)["type"] == "test.event"


def test_ctrl_c_says_what_was_appended(process, isoline, run):
    append = process("append", run, "-", "--json")
    append.stdin.write(numbered(2))
    append.stdin.flush()
    wait_until(lambda: head_of(isoline, run) == 4)
    append.send_signal(signal.SIGINT)
    out, err = append.communicate(timeout=20)
    assert append.returncode == 130
    assert (json.loads(out)["events"], json.loads(out)["complete"]) == (2, False)
    assert err == "interrupted: lines up to 2 of the input are in the run, none behind them\n"


@pytest.mark.parametrize("options", [["--json"], []])
def test_a_reader_that_goes_away_is_no_error(process, isoline, run, options):
    isoline("append", run, stdin=numbered(3000))
    read = process("read", run, *options)
    read.stdout.readline()
    read.stdout.close()
    assert read.wait(timeout=20) == 141
    assert read.stderr.read() == ""


def test_an_append_that_was_killed_is_completed_by_the_same_command(process, isoline, run, tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text(numbered(2000))
    append = process("append", run, path, "--engine", "e", "--batch", "2")
    wait_until(lambda: head_of(isoline, run) > 20)
    append.kill()
    append.wait()
    ended = isoline("append", run, path, "--engine", "e", "--json")
    assert ended.code == 0
    assert ended.json["events"] + ended.json["alreadyThere"] == 2000
    assert 0 < ended.json["alreadyThere"] < 2000
    events = isoline("read", run, "--from", "3", "--json").lines
    assert [event["payload"]["i"] for event in events] == list(range(2000))


def on_a_terminal(process, *arguments):
    """What the program writes to stdout and stderr when both are a terminal."""
    ours, theirs = pty.openpty()
    started = process(*arguments, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = b""
    try:
        while data := os.read(ours, 65536):
            written += data
    except OSError:
        pass  # how Linux says that the other side has closed
    os.close(ours)
    started.wait(timeout=20)
    return written.decode()


def test_a_terminal_gets_colours_and_progress_unless_it_does_not_want_them(process, environ, run, tmp_path):
    environ["TERM"] = "xterm-256color"
    path = tmp_path / "events.jsonl"
    path.write_text(numbered(10))
    assert "36m" in on_a_terminal(process, "read", run)
    assert "append" in on_a_terminal(process, "append", run, path)
    environ["NO_COLOR"] = "1"
    assert "36m" not in on_a_terminal(process, "read", run)


def test_a_locale_that_cannot_show_a_character_is_no_error(process, environ, isoline, run):
    environ["PYTHONIOENCODING"] = "ascii"
    isoline("append", run, stdin='{"type":"test.event","payload":{"a":"é"}}'.encode())
    read = process("read", run, "--from", "3")
    out, _ = read.communicate(timeout=20)
    assert (read.returncode, "\\xe9" in out) == (0, True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said_in_words(process, run):
    with Path("/dev/full").open("w") as full:
        read = process("read", run, "--json", stdout=full)
        assert read.wait(timeout=20) == 2
    assert read.stderr.read().splitlines()[-1].count("the output cannot be written: No space left on device") == 1


def test_without_the_extra_it_says_what_to_install(environ):
    code = "import sys; sys.modules['typer'] = None; from isoline_client.cli import main; main()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (
        2,
        "isoline: the command line needs typer: pip install 'isoline[cli]'\n",
    )
