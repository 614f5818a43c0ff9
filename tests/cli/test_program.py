import sys
from importlib.metadata import EntryPoint, version

import pytest
import typer
from typer.testing import CliRunner

from isoline_client.cli import program
from isoline_client.cli.program import add_foreign_commands, make_app

COMMANDS = (
    "run create",
    "run show",
    "run list",
    "append",
    "import",
    "read",
    "tail",
    "state",
    "fork",
    "diff",
    "compare",
    "verify",
    "status",
    "capabilities",
)


def test_without_arguments_it_teaches(cli):
    ended = cli()
    assert "First steps" in f"{ended.out}{ended.err}"
    assert "Exit codes" in f"{ended.out}{ended.err}"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches_with_examples(cli, command):
    ended = cli(*command.split(), "--help")
    assert ended.code == 0
    assert f"isoline {command}" in ended.out.split("Examples")[1]
    assert "\\b" not in ended.out
    assert "--server" in ended.out
    assert "--json" in ended.out


def test_brackets_in_help_are_not_taken_for_markup(cli):
    assert "[0, SEQ)" in cli("fork", "--help").out
    assert "[regions.eu]" in cli("serve", "--help").out


def test_the_version_is_that_of_the_package(cli):
    assert cli("--version").out == f"isoline {version('isoline')}\n"


def test_an_unknown_command_is_wrong_usage(cli):
    ended = cli("raed")
    assert ended.code == 2
    assert "Did you mean 'read'" in ended.err


def test_a_command_without_what_it_needs_shows_its_help(cli):
    ended = cli("fork")
    assert "Examples" in f"{ended.out}{ended.err}"


@pytest.mark.parametrize(
    "arguments",
    [
        ("read", "r", "--from", "-1"),
        ("append", "r", "--batch", "1001"),
        ("read", "r", "--known", "x"),
        ("read", "r", "--known", "1:00"),
        ("read", "r", "--freshness", "new"),
        ("tail", "r", "--from", "1", "--last", "1"),
        ("fork", "r", "--from", "1", "--mode", "copy"),
        ("fork", "r", "--from", "1", "--overlay", "[]"),
        ("fork", "r", "--from", "1", "--overlay", "@/missing"),
        ("fork", "r", "--from", "1", "--expect-digest", "00"),
        ("verify", "r", "--regions", ","),
        ("status", "--server", "nowhere"),
        ("status", "--api-key-file", "/missing"),
        ("status", "--timeout", "0"),
    ],
)
def test_wrong_usage_ends_with_2_and_no_traceback(isoline, arguments):
    ended = isoline(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("key", ["two\nlines", "é"])
def test_a_key_that_no_header_can_carry_is_refused(isoline, environ, key):
    environ["ISOLINE_API_KEY"] = key
    ended = isoline("run", "list")
    assert (ended.code, key in ended.err) == (2, False)
    assert "ISOLINE_API_KEY" in ended.err


def with_entry(monkeypatch, *values):
    entries = tuple(EntryPoint(f"extra{n}", value, program.GROUP) for n, value in enumerate(values))
    monkeypatch.setattr(program, "entry_points", lambda group: entries)
    return CliRunner(env={"COLUMNS": "200"})


def test_commands_of_an_extra_that_is_not_installed_do_not_break_ours(monkeypatch):
    runner = with_entry(monkeypatch, "no_such_module:register", "isoline_server.commands:no_such_function")
    app = make_app()
    assert runner.invoke(app, ["read", "--help"]).exit_code == 0
    ended = runner.invoke(app, ["serve"])
    assert ended.exit_code == 2
    assert "no_such_module" in ended.stderr
    assert "pip install 'isoline[server]'" in ended.stderr


def test_an_extra_that_fails_half_way_leaves_no_command_behind():
    app = typer.Typer()

    def register(into):
        into.command("half")(lambda: None)
        raise RuntimeError("no")

    sys.modules["half_way"] = type(sys)("half_way")
    sys.modules["half_way"].register = register
    not_loaded = add_foreign_commands(app, (EntryPoint("half", "half_way:register", program.GROUP),))
    assert "RuntimeError" in not_loaded[0]
    assert app.registered_commands == []


def test_a_command_whose_parts_are_not_installed_says_what_to_install(monkeypatch):
    def register(into):
        @into.command("heavy")
        def heavy():
            raise ModuleNotFoundError("No module named 'sqlalchemy'", name="sqlalchemy")

    sys.modules["heavy_extra"] = type(sys)("heavy_extra")
    sys.modules["heavy_extra"].register = register
    ended = with_entry(monkeypatch, "heavy_extra:register").invoke(make_app(), ["heavy"])
    assert ended.exit_code == 2
    assert "needs sqlalchemy" in ended.stderr
    assert "isoline[server]" in ended.stderr
