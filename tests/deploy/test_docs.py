"""docs/deploy.md names command lines, files, checks and figures that are really so."""

import re
import shlex
from pathlib import Path

import pytest

from isoline_drill.cockroach_check import CHECKS
from isoline_server.store import cockroach, leadership
from isoline_server.store.migrations import rerun
from support.commandline import refusal
from support.sqlfiles import statements

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
BLOCKS = "\n".join(re.findall(r"^```\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("line", re.findall(r"^isoline .+$", BLOCKS, re.MULTILINE))
def test_a_command_line_is_one_of_the_program(line):
    assert refusal(shlex.split(line)[1:]) is None


def test_command_lines_are_really_found():
    assert len(re.findall(r"^isoline .+$", BLOCKS, re.MULTILINE)) == 2


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:deploy|docs)/[\w./-]+)`", TEXT))))
def test_a_file_is_there(path):
    assert (ROOT / path).exists()


def test_the_checks_are_those_of_the_program():
    table = TEXT.partition("| check | question |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE) == [check.name for check in CHECKS]


def test_the_grants_are_those_of_the_file():
    table = TEXT.partition("| may | tables |")[2].partition("\n\n")[0]
    for line in table.splitlines()[2:]:
        rights, tables = (cell.strip() for cell in line.strip("|").split("|"))
        granted = rights.replace("read", "SELECT").upper()
        named = ", ".join(re.findall(r"`(\w+)`", tables))
        assert f"GRANT {granted} ON TABLE {named} TO isoline_server" in statements("grants.sql")


def test_the_figures_are_those_of_the_code():
    assert (
        f"`PROOF_HOLDS_S` in `store/leadership.py`, {leadership.PROOF_HOLDS_S:g} s; so {leadership.PROOF_HOLDS_S + 1:g} s"
        in TEXT
    )
    assert f"({cockroach.HISTORY_S:,} s, the default" in TEXT
    assert f"it waits for {rerun.BUSY_WAIT_S:g} s" in TEXT
