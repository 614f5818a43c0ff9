import io
import sys

import pytest
from rich.text import Text

from isoline_client.cli.failures import CommandError, describe
from isoline_client.cli.output import Output, add_row, clean, counted, facts, table


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def streams(monkeypatch):
    def set_up(kind):
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("COLUMNS", "60")
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.delenv("FORCE_COLOR", raising=False)
        monkeypatch.setattr(sys, "stdout", kind())
        monkeypatch.setattr(sys, "stderr", kind())
        return sys.stdout, sys.stderr

    return set_up


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢", "plain é 漢"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc\x7f\x9b", "a\\x0ab\\x09c\\x7f\\x9b"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_what_could_move_a_cursor_or_hide_is_spelled_out(text, shown):
    assert clean(text) == shown


def test_what_looks_like_markup_is_shown_and_not_obeyed(streams):
    out, _ = streams(io.StringIO)
    shown = table("name")
    add_row(shown, "[red]x[/red] :smile:")
    Output(json=False).show(shown, facts([("name", "[bold]y")]))
    assert "[red]x[/red] :smile:" in out.getvalue()
    assert "[bold]y" in out.getvalue()


def test_nothing_is_cut_where_there_is_no_terminal(streams):
    out, _ = streams(io.StringIO)
    shown = table("name", "digest")
    add_row(shown, "x" * 300, "y" * 300)
    Output(json=False).show(shown)
    Output(json=False).line(Text("z" * 500))
    assert "x" * 300 in out.getvalue()
    assert "z" * 500 in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_lines_are_cut_at_the_edge_of_a_terminal(streams):
    out, _ = streams(Terminal)
    Output(json=False).line(Text("z" * 500, "red"))
    assert out.getvalue().count("z") == 59
    assert "\x1b[31m" in out.getvalue()


def test_there_are_no_colours_when_the_user_wants_none(streams, monkeypatch):
    out, err = streams(Terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    output = Output(json=False)
    output.line(Text("text", "red"))
    output.failure(describe(CommandError("no")))
    assert "\x1b[31m" not in out.getvalue() + err.getvalue()


def test_machines_get_no_notes_but_warnings(streams):
    _, err = streams(io.StringIO)
    output = Output(json=True)
    output.note("note")
    output.warn("warning")
    assert err.getvalue() == "warning\n"


def test_a_failure_shows_the_values_that_its_message_does_not(streams):
    _, err = streams(io.StringIO)
    failure = CommandError("seq 4 is gone", seq=4, limit=9)
    failure.add_note("do this")
    Output(json=False).failure(describe(failure))
    assert err.getvalue() == "isoline: seq 4 is gone\n  limit=9\n  do this\n"


def test_progress_is_only_for_terminals(streams):
    _, err = streams(io.StringIO)
    with Output(json=False).progress("work", total=3) as advance:
        advance(3)
    assert err.getvalue() == ""
    _, err = streams(Terminal)
    with Output(json=True).progress("work", total=3) as advance:
        advance(3)
    assert "work" in err.getvalue()


def test_numbers_are_counted_as_people_do():
    assert [counted(n, "event") for n in (0, 1, 2000)] == ["0 events", "1 event", "2,000 events"]
